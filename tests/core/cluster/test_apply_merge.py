"""The merge of server-side apply: what holds for any trees and managers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.core.api.errors import Conflict, InvalidManifest
from convoy.core.cluster.local.apply import Merged, Tree, fold, from_json, leaves, merge, to_json, unfold

LEAVES = st.one_of(
    st.integers(0, 2), st.booleans(), st.sampled_from(["x", "y"]), st.lists(st.integers(0, 2), max_size=2)
)
KEYS = st.sampled_from("abc")
TREES = st.recursive(
    st.dictionaries(KEYS, LEAVES, max_size=3),
    lambda inner: st.dictionaries(KEYS, inner | LEAVES, max_size=3),
    max_leaves=8,
)
STEPS = st.lists(st.tuples(st.sampled_from(["ann", "bob", "cem"]), TREES, st.booleans()), max_size=6)


def run(steps: list[tuple[str, Tree, bool]]) -> Merged:
    """Apply one after the other; conflicts leave things as they were."""
    state = Merged({}, {})
    for manager, tree, force in steps:
        try:
            state = merge(state.tree, tree, state.owners, manager, force=force)
        except Conflict:
            continue
    return state


@given(STEPS, TREES)
def test_what_was_applied_stands(steps: list[tuple[str, Tree, bool]], applied: Tree) -> None:
    before = run(steps)
    after = merge(before.tree, applied, before.owners, "ann", force=True)
    there = leaves(after.tree)
    for path, value in leaves(applied).items():
        if value != {}:
            assert there[path] == value


@given(STEPS, TREES)
def test_the_same_again_changes_nothing(steps: list[tuple[str, Tree, bool]], applied: Tree) -> None:
    before = run(steps)
    once = merge(before.tree, applied, before.owners, "ann", force=True)
    assert merge(once.tree, applied, once.owners, "ann", force=False) == once


@given(STEPS, TREES)
def test_nothing_passed_in_is_changed(steps: list[tuple[str, Tree, bool]], applied: Tree) -> None:
    before = run(steps)
    kept = copy.deepcopy((before, applied))
    merge(before.tree, applied, before.owners, "ann", force=True)
    assert (before, applied) == kept


@given(STEPS, TREES)
def test_without_force_others_keep_all_that_they_own(steps: list[tuple[str, Tree, bool]], applied: Tree) -> None:
    before = run(steps)
    try:
        after = merge(before.tree, applied, before.owners, "ann", force=False)
    except Conflict:
        return
    for other in before.owners.keys() - {"ann"}:
        assert after.owners[other] == before.owners[other]
        for path in before.owners[other]:
            if path in leaves(before.tree):
                assert leaves(before.tree)[path] in ({}, leaves(after.tree).get(path))


@given(STEPS)
def test_every_leaf_has_an_owner_and_every_owned_leaf_is_there(steps: list[tuple[str, Tree, bool]]) -> None:
    state = run(steps)
    owned = {path for paths in state.owners.values() for path in paths}
    assert {path for path, value in leaves(state.tree).items() if value != {}} <= owned
    for path in owned:
        value: Any = state.tree
        for key in path:
            value = value[key]


@given(STEPS)
def test_managers_that_let_go_of_everything_leave_nothing(steps: list[tuple[str, Tree, bool]]) -> None:
    state = run(steps)
    for manager in ("ann", "bob", "cem"):
        state = merge(state.tree, {}, state.owners, manager, force=False)
    assert state == Merged({}, {})


@given(STEPS)
def test_owners_are_stored_and_read_again(steps: list[tuple[str, Tree, bool]]) -> None:
    owners = run(steps).owners
    assert from_json(to_json(owners)) == owners


@given(TREES, TREES)
def test_managers_that_share_no_key_apply_in_any_order(one: Tree, other: Tree) -> None:
    one, other = {"one": one}, {"other": other}
    assert _both(one, "ann", other, "bob") == _both(other, "bob", one, "ann")


def _both(first: Tree, one: str, second: Tree, other: str) -> Merged:
    state = merge({}, first, {}, one, force=False)
    return merge(state.tree, second, state.owners, other, force=False)


def test_two_may_own_a_field_of_one_value_and_it_stays_until_both_let_go() -> None:
    state = _both({"a": 1}, "ann", {"a": 1}, "bob")
    state = merge(state.tree, {}, state.owners, "ann", force=False)
    assert state.tree == {"a": 1}
    assert merge(state.tree, {}, state.owners, "bob", force=False).tree == {}


@pytest.mark.parametrize(
    ("owned", "applied", "named"),
    [
        ({"spec": {"a": 1}}, {"spec": {"a": 2}}, "spec.a"),
        ({"spec": {"a": 1}}, {"spec": {"a": True}}, "spec.a"),
        ({"spec": {"a": {"b": 1}}}, {"spec": {"a": 1}}, "spec.a.b"),
        ({"spec": {"a": 1}}, {"spec": {"a": {"b": 1}}}, "spec.a"),
        ({"spec": {"a": [1]}}, {"spec": {"a": [1, 2]}}, "spec.a"),
    ],
)
def test_a_conflict_names_field_and_owner_and_force_takes_it(owned: Tree, applied: Tree, named: str) -> None:
    state = merge({}, owned, {}, "ann", force=False)
    with pytest.raises(Conflict, match=rf"{named} \(owned by ann\)"):
        merge(state.tree, applied, state.owners, "bob", force=False)
    taken = merge(state.tree, applied, state.owners, "bob", force=True)
    assert taken.tree == applied
    assert taken.owners.keys() == {"bob"}


def test_a_null_is_an_absent_field() -> None:
    assert merge({}, {"a": None, "b": {"c": None}, "d": 1}, {}, "ann", force=False).tree == {"d": 1}


def test_conditions_fold_back_to_the_list_they_were() -> None:
    status = {"phase": "Running", "conditions": [{"type": "B", "status": "True"}, {"type": "A", "status": "False"}]}
    assert fold(unfold(status)) == status
    assert fold(unfold({"phase": "Running"})) == {"phase": "Running"}


@pytest.mark.parametrize("conditions", [[{"status": "True"}], [{"type": "A"}, {"type": "A"}], {"type": "A"}])
def test_conditions_without_a_type_of_their_own_are_refused(conditions: Any) -> None:
    with pytest.raises(InvalidManifest, match=r"status\.conditions"):
        unfold({"conditions": conditions})
