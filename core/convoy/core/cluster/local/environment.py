"""What a pod's process is given: its environment and its command line, from the pod's manifest. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

from convoy.core.api import names
from convoy.core.api.errors import ConvoyError

Manifest = dict[str, Any]
Secrets = Callable[[str], Manifest | None]
"""Returns the Secret of that name in the pod's namespace, or None."""

ENV_POD_UID = "CONVOY_POD_UID"
"""Marks every process of a pod, so that none is missed when its shim was killed."""
POD_IP = "127.0.0.1"

_KEPT = re.compile(
    r"(PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|XDG_\w+|LD_LIBRARY_PATH|SSL_CERT_\w+"
    r"|CONVOY_CONFIG|CONVOY_LOG_LEVEL|CONVOY_LOG_FORMAT)"
)
_REFERENCE = re.compile(r"\$\$|\$\(([^()\s]+)\)")


class StartError(ConvoyError):
    """The pod's process can't be started; the message says which field is at fault."""

    reason = "StartError"


def container(pod: Manifest) -> Manifest:
    """Return the container that is run: the one named ``main``, else the first."""
    containers: list[Manifest] = (pod.get("spec") or {}).get("containers") or []
    if not containers:
        raise StartError("spec.containers: expected one container, found none")
    return containers[names.main_container([one.get("name", "") for one in containers])]


def base_environment(own: Mapping[str, str], bin_dir: str, state_dir: str) -> dict[str, str]:
    """Return what every pod is given: a little of the machine's environment, and our programs first on PATH."""
    base = {name: value for name, value in own.items() if _KEPT.fullmatch(name)}
    path = [part for part in base.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":") if part != bin_dir]
    return {**base, "PATH": ":".join([bin_dir, *path]), "CONVOY_STATE_DIR": state_dir}


def environment(pod: Manifest, base: Mapping[str, str], secrets: Secrets) -> dict[str, str]:
    """Return the environment of the pod's process: ``base``, then what the container names, in its order.

    Raises:
        StartError: a value comes from something that isn't there or isn't known on one machine.
    """
    result = {**base, ENV_POD_UID: pod["metadata"]["uid"]}
    for item in container(pod).get("env") or []:
        name = item["name"]
        source = item.get("valueFrom")
        value = expand(item.get("value") or "", result) if source is None else _value(name, source, pod, secrets)
        if value is not None:
            result[name] = value
    return result


def command(pod: Manifest, env: Mapping[str, str]) -> list[str]:
    """Return the command line, with ``$(VAR)`` expanded.

    Raises:
        StartError: the container names neither command nor args.
    """
    found = container(pod)
    words = [*(found.get("command") or []), *(found.get("args") or [])]
    if not words:
        raise StartError(
            f"container {found.get('name')!r}: no command; images aren't used on one machine, so name the command"
        )
    return [expand(str(word), env) for word in words]


def nice(pod: Manifest) -> int:
    """Return how far the pod yields the CPU to others (0: not at all).

    Raises:
        StartError: the annotation isn't a number that the kernel takes.
    """
    text = str((pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_NICE, "0"))
    if not (text.isascii() and text.isdigit() and int(text) <= 19):
        raise StartError(f"annotation {names.ANNOTATION_NICE}: expected a whole number from 0 to 19, not {text!r}")
    return int(text)


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace ``$(VAR)`` as Kubernetes does: what isn't known stays, ``$$`` is a dollar that begins no reference."""
    return _REFERENCE.sub(
        lambda match: "$" if match[0] == "$$" else env.get(match[1], match[0]),
        text,
    )


def _value(name: str, source: Manifest, pod: Manifest, secrets: Secrets) -> str | None:
    if "secretKeyRef" in source:
        return _secret(name, source["secretKeyRef"], secrets)
    if "fieldRef" in source:
        return _field(name, source["fieldRef"].get("fieldPath", ""), pod)
    raise StartError(
        f"env {name}: valueFrom.{next(iter(source), '?')} isn't known on one machine; "
        "expected secretKeyRef, fieldRef or a plain value"
    )


def _secret(name: str, reference: Manifest, secrets: Secrets) -> str | None:
    secret = secrets(reference.get("name", ""))
    data = (secret or {}).get("data") or {}
    if reference.get("key") in data:
        return base64.b64decode(data[reference["key"]]).decode()
    if reference.get("optional"):
        return None
    missing = "there is no such Secret" if secret is None else f"it has no key {reference.get('key')!r}"
    raise StartError(f"env {name}: Secret {reference.get('name')!r}: {missing}; create it before the pod")


def _field(name: str, path: str, pod: Manifest) -> str:
    metadata = pod["metadata"]
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata.get("namespace", ""),
        "metadata.uid": metadata["uid"],
        "spec.nodeName": (pod.get("spec") or {}).get("nodeName", ""),
        "status.podIP": POD_IP,
        "status.hostIP": POD_IP,
    }
    keyed = re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path)
    if keyed is not None:
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    if path not in known:
        raise StartError(f"env {name}: fieldPath {path!r} isn't known; expected one of {', '.join(known)}")
    return str(known[path])
