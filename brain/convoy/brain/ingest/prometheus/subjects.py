"""Whose a series is: a machine by its name, a pod by its namespace and name. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from convoy.brain.ingest.prometheus.queries import NodeQuery, PodQuery

Labels: TypeAlias = Mapping[str, str]
_PORT = re.compile(r":\d{1,5}")
_LONGEST = 253
_LONGEST_NAMESPACE = 63


@dataclass(frozen=True, slots=True, order=True)
class Pod:
    """A pod's namespace and name."""

    namespace: str
    name: str


Subject: TypeAlias = str | Pod
"""A machine's name, or a pod."""


@dataclass(slots=True)
class NodeNames:
    """What machines are called whose label is an address, by address and moment: an address may change its owner."""

    at: dict[tuple[str, int], set[str]] = field(default_factory=dict)

    def learn(self, address: str, moment: int, name: str) -> None:
        """Take in what an address is called, with its port and without: each exporter has a port of its own."""
        for key in {address, without_port(address)}:
            self.at.setdefault((key, moment), set()).add(name)

    def of(self, label: str, moment: int, *, cut_port: bool) -> str:
        """Return the machine's name for a label: itself, unless it is an address to which one name is known."""
        bare = without_port(label)
        if is_address(bare):
            for key in (label, bare):
                names = self.at.get((key, moment), set())
                if len(names) == 1:
                    return next(iter(names))
        return bare if cut_port else label


@lru_cache(maxsize=100_000)
def without_port(label: str) -> str:
    """Return ``host`` for ``host:9100``, ``::1`` for ``[::1]:9100``, and an address of IPv6 as it is."""
    if label.startswith("["):
        return label[1:].partition("]")[0]
    host, colon, port = label.rpartition(":")
    return host if colon and ":" not in host and _PORT.fullmatch(colon + port) else label


@lru_cache(maxsize=100_000)
def is_address(text: str) -> bool:
    """Return whether the text is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def node_label(labels: Labels, query: NodeQuery) -> str | None:
    """Return the label that names the machine, None where no label does or the store can't hold it."""
    return _fitting(_first(labels, query.node), _LONGEST)


def pod_of(labels: Labels, query: PodQuery) -> Pod | None:
    """Return the pod that the labels name, None where they don't or the store can't hold it."""
    namespace = _fitting(_first(labels, query.namespace), _LONGEST_NAMESPACE)
    name = _fitting(_first(labels, query.pod), _LONGEST)
    return Pod(namespace, name) if namespace and name else None


def _first(labels: Labels, names: Sequence[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _fitting(value: str, longest: int) -> str | None:
    fits = 0 < len(value) <= longest and value.isprintable() and value == value.strip()
    return value if fits else None
