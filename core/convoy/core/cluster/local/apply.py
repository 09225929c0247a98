"""Server-side apply, as a pure merge of trees with an owner for each leaf.

A tree is JSON maps down to leaves; a leaf is a scalar, a list (lists are replaced as a whole) or an empty map. Only
``status.conditions`` is merged item by item, keyed by ``type`` (see ``unfold``). A manager owns exactly the leaves
that it named last.

Semantics: Kubernetes' server-side apply, https://kubernetes.io/docs/reference/using-api/server-side-apply/
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from convoy.core.api.errors import Conflict, InvalidManifest

Path = tuple[str, ...]
Tree = dict[str, Any]
Owners = dict[str, frozenset[Path]]
"""For each manager the paths of the leaves that it owns."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The tree after the merge, and who owns its leaves."""

    tree: Tree
    owners: Owners


def merge(live: Tree, applied: Tree, owners: Owners, manager: str, *, force: bool) -> Merged:
    """Merge what a manager applies into what is there. Nothing that is passed in is changed.

    Raises:
        Conflict: a field of another manager would change and ``force`` isn't set; the message names both.
    """
    wanted = leaves(applied)
    inner = {path[:length] for path in wanted for length in range(1, len(path))}
    lost = {
        other: frozenset(path for path in paths if _clashes(path, wanted, inner, live))
        for other, paths in owners.items()
        if other != manager
    }
    if not force and any(lost.values()):
        raise _conflict(lost)
    kept = {other: paths - lost[other] for other, paths in owners.items() if other != manager}
    owned_by_others = {path for paths in kept.values() for path in paths}

    tree = copy.deepcopy(live)
    for path in sorted(owners.get(manager, frozenset()) - wanted.keys() - owned_by_others, key=len, reverse=True):
        _remove(tree, path, spare=owned_by_others | wanted.keys())
    for path, value in wanted.items():
        _set(tree, path, value)
    new = {**kept, manager: frozenset(wanted)}
    return Merged(tree, {name: paths for name, paths in new.items() if paths})


def leaves(tree: Tree) -> dict[Path, Any]:
    """Return the leaves by path. A null stands for an absent field and is no leaf."""
    found: dict[Path, Any] = {}

    def walk(value: Any, path: Path) -> None:
        if isinstance(value, dict) and value:
            for key, item in value.items():
                walk(item, (*path, key))
        elif value is not None:
            found[path] = value

    for key, item in tree.items():
        walk(item, (key,))
    return found


def unfold(status: Tree) -> Tree:
    """Return a status with its list of conditions as a map by type.

    Raises:
        InvalidManifest: a condition without a type, or two of one type.
    """
    conditions = status.get("conditions")
    if conditions is None:
        return status
    if not isinstance(conditions, list):
        raise InvalidManifest("status.conditions", f"expected a list of conditions, not {conditions!r}")
    by_type: Tree = {}
    for index, item in enumerate(conditions):
        kind = item.get("type") if isinstance(item, dict) else None
        if not kind or kind in by_type:
            raise InvalidManifest(f"status.conditions.{index}.type", f"expected a type of its own, not {kind!r}")
        by_type[kind] = item
    return {**status, "conditions": by_type}


def fold(status: Tree) -> Tree:
    """Undo ``unfold``."""
    conditions = status.get("conditions")
    return status if conditions is None else {**status, "conditions": list(conditions.values())}


def to_json(owners: Owners) -> dict[str, list[list[str]]]:
    """Return owners in the form in which they are stored."""
    return {manager: sorted(list(path) for path in paths) for manager, paths in owners.items()}


def from_json(stored: Mapping[str, Iterable[Iterable[str]]]) -> Owners:
    """Undo ``to_json``."""
    return {manager: frozenset(tuple(path) for path in paths) for manager, paths in stored.items()}


_ABSENT = object()


def _clashes(owned: Path, wanted: Mapping[Path, Any], inner: set[Path], live: Tree) -> bool:
    """Whether applying the wanted leaves changes a leaf that another manager owns."""
    there = _lookup(live, owned)
    if there is _ABSENT:
        return False
    if owned in wanted:
        asked = wanted[owned]
        return not _same(asked, there) and not (asked == {} and isinstance(there, dict))
    if any(owned[:length] in wanted and wanted[owned[:length]] != {} for length in range(1, len(owned))):
        return True
    return owned in inner and not isinstance(there, dict)


def _same(one: Any, other: Any) -> bool:
    """Whether two leaves are the same JSON; to Python true is 1."""
    return one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _conflict(lost: Mapping[str, frozenset[Path]]) -> Conflict:
    parts = [
        f"{', '.join('.'.join(path) for path in sorted(paths))} (owned by {manager})"
        for manager, paths in sorted(lost.items())
        if paths
    ]
    return Conflict(f"{'; '.join(parts)}: leave the field out, give it the same value, or apply with force")


def _lookup(tree: Tree, path: Path) -> Any:
    value: Any = tree
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return _ABSENT
        value = value[key]
    return value


def _remove(tree: Tree, path: Path, spare: set[Path]) -> None:
    """Take a leaf out, and the maps that it leaves empty unless somebody owns them."""
    there = _lookup(tree, path)
    if there is _ABSENT or (isinstance(there, dict) and there):
        return
    while path:
        parent: Any = _lookup(tree, path[:-1])
        del parent[path[-1]]
        path = path[:-1]
        if parent or path in spare:
            return


def _set(tree: Tree, path: Path, value: Any) -> None:
    node = tree
    for key in path[:-1]:
        if not isinstance(node.get(key), dict):
            node[key] = {}
        node = node[key]
    if not (value == {} and isinstance(node.get(path[-1]), dict)):
        node[path[-1]] = copy.deepcopy(value)
