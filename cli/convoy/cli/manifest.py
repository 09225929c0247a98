"""A manifest file as a person wrote it: read, checked before anything is started, made ready for this machine."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from convoy.core.api import names
from convoy.core.api.errors import InvalidInput, InvalidManifest
from convoy.core.api.job import Container, ElasticJob
from convoy.core.api.meta import Manifest


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping: the later one would win unnoticed."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if (key.tag, key.value) in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} stands there twice", key.start_mark
                    )
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


def read(file: Path) -> Manifest:
    """Return the one object that a YAML file holds.

    Raises:
        InvalidInput: no such file, not YAML, or not exactly one object.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidInput(f"{file}: no such file; name a file that holds an ElasticJob in YAML") from None
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise InvalidInput(f"{file}: {why}; name a file that holds an ElasticJob in YAML") from None
    try:
        documents = [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise InvalidInput(
            f"{file}: {where}not YAML: {getattr(error, 'problem', None) or error}; correct it"
        ) from None
    except RecursionError:
        raise InvalidInput(f"{file}: nested too deeply to be an ElasticJob; correct it") from None
    if len(documents) != 1:
        raise InvalidInput(
            f"{file}: holds {len(documents)} objects, expected one ElasticJob; "
            + ("split the file" if documents else "write one (see examples/digits-allreduce.yaml)")
        )
    if not isinstance(documents[0], dict):
        raise InvalidInput(f"{file}: holds a {type(documents[0]).__name__}, expected an ElasticJob's fields")
    return documents[0]


def for_this_machine(manifest: Manifest, directory: Path, namespace: str | None = None) -> Manifest:
    """Return the job's manifest as it is submitted to one machine's cluster.

    It runs in ``directory`` (where the file was found) unless an annotation names another one. A ``status`` that came
    with the file is left out.

    Raises:
        InvalidManifest: it isn't an ElasticJob.
    """
    kind = manifest.get("kind")
    if kind != ElasticJob.KIND:
        raise InvalidManifest("kind", f"expected {ElasticJob.KIND}, not {kind!r}")
    given: dict[str, Any] = {key: value for key, value in manifest.items() if key != "status"}
    metadata = given.get("metadata")
    if isinstance(metadata, dict):
        annotations = metadata.get("annotations") or {}
        given["metadata"] = {
            **metadata,
            "namespace": namespace or metadata.get("namespace") or "default",
            "annotations": {names.ANNOTATION_WORKING_DIRECTORY: str(directory.resolve()), **annotations},
        }
    return given


def script_exists(job: ElasticJob) -> Callable[[str], bool]:
    """Return the test whether a script that the job's command names is on this machine."""
    base = Path(job.metadata.annotations[names.ANNOTATION_WORKING_DIRECTORY])
    mains = [spec.template.main() for role, spec in job.spec.replica_specs.items() if role != names.MASTER]
    return lambda script: any((base / (main.working_dir or "") / script).is_file() for main in mains)


def check_commands(job: ElasticJob) -> None:
    """Refuse a job whose commands this machine can't start.

    Raises:
        InvalidManifest: no command, a directory or a program that isn't there.
    """
    base = Path(job.metadata.annotations[names.ANNOTATION_WORKING_DIRECTORY])
    for role, spec in job.spec.replica_specs.items():
        if role == names.MASTER:  # its command is replaced by ours
            continue
        for index, container in enumerate(spec.template.spec.containers):
            at = f"spec.replicaSpecs.{role}.template.spec.containers[{index}]"
            _check_command(container, at, base / (container.working_dir or ""))


def _check_command(container: Container, at: str, directory: Path) -> None:
    if not container.command:
        raise InvalidManifest(
            f"{at}.command",
            "is absent; one machine runs no images, so write the command, such as [dlrover-run, train.py]",
        )
    if not directory.is_dir():
        raise InvalidManifest(f"{at}.workingDir", f"{directory} isn't a directory of this machine; correct it")
    program = container.command[0]
    if "$" not in program and not _found(program, directory):
        raise InvalidManifest(
            f"{at}.command[0]", f"{program!r} isn't a program of this machine; install it, or write its whole path"
        )


def _found(program: str, directory: Path) -> bool:
    if "/" in program:
        return (directory / program).is_file()
    beside = Path(sys.executable).parent / program
    return beside.is_file() or shutil.which(program) is not None
