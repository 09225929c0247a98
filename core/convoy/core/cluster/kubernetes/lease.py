"""A Lease, and from when on a candidate may take it. Pure.

A holder's and a candidate's clocks are never compared: a candidate counts, by its own clock, from the moment at which
it first saw a state of the Lease, as client-go's leader election does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from convoy.core.api.meta import Manifest
from convoy.core.cluster.port import Kind, api_version


@dataclass(frozen=True, slots=True)
class Lease:
    """A coordination.k8s.io/v1 Lease as it was read; ``holder`` is ``""`` where nobody has it."""

    holder: str
    seconds: float
    """For which others let it be after a renewal; 0 where it doesn't say."""
    acquired: str
    transitions: int
    uid: str
    resource_version: str

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        """Read a manifest, of whatever writer."""
        spec, metadata = manifest.get("spec") or {}, manifest["metadata"]
        return cls(
            holder=spec.get("holderIdentity") or "",
            seconds=float(spec.get("leaseDurationSeconds") or 0),
            acquired=spec.get("acquireTime") or "",
            transitions=int(spec.get("leaseTransitions") or 0),
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
        )


class Sight:
    """What a candidate has seen of a Lease, and when."""

    def __init__(self, identity: str, seconds: float) -> None:
        self._identity = identity
        self._seconds = seconds
        self._seen: tuple[str, str] | None = None
        self._free_at = -math.inf

    def look(self, lease: Lease | None, now: float) -> None:
        """Note the Lease's state, None where there is none, which was asked for before ``now``.

        Who held a Lease that was deleted may not know yet: it keeps its time.
        """
        if lease is None:
            return
        state = (lease.uid, lease.resource_version)
        if state == self._seen:
            return
        self._seen = state
        held = lease.holder not in ("", self._identity)
        self._free_at = now + max(self._seconds, lease.seconds) if held else -math.inf

    def may_take(self, now: float) -> bool:
        """Whether the last state's holder, if any, has had its time."""
        return now >= self._free_at


def taken(name: str, namespace: str, identity: str, seconds: float, now: str, before: Lease | None) -> Manifest:
    """Return the Lease as held by ``identity`` from the moment ``now`` on, to be written over ``before`` alone."""
    renewed = before is not None and before.holder == identity
    transitions = 0 if before is None else before.transitions + (0 if renewed else 1)
    spec = {
        "holderIdentity": identity,
        "leaseDurationSeconds": math.ceil(seconds),
        "acquireTime": before.acquired if before is not None and renewed and before.acquired else now,
        "renewTime": now,
        "leaseTransitions": transitions,
    }
    return _manifest(name, namespace, before, spec)


def released(name: str, namespace: str, now: str, before: Lease) -> Manifest:
    """Return the Lease as nobody's, to be written over ``before`` alone."""
    spec = {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": before.acquired or now,
        "renewTime": now,
        "leaseTransitions": before.transitions,
    }
    return _manifest(name, namespace, before, spec)


def _manifest(name: str, namespace: str, before: Lease | None, spec: Manifest) -> Manifest:
    expected = {} if before is None else {"uid": before.uid, "resourceVersion": before.resource_version}
    return {
        "apiVersion": api_version(Kind.LEASE),
        "kind": str(Kind.LEASE),
        "metadata": {"name": name, "namespace": namespace, **expected},
        "spec": spec,
    }
