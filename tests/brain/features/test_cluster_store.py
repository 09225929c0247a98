"""Machines and pods of the store as a plan for all jobs reads them, and capacity from a file."""

from __future__ import annotations

import math

import pytest

from convoy.brain.features import cluster as known
from convoy.brain.features.capacity_file import given_by
from convoy.core.api.errors import InvalidInput
from support.stored import GIB, Stored, at

BIG = {
    "node_type": "p4", "accelerator": "A100", "accelerators_allocatable": 8.0, "cpu_allocatable": 96.0,
    "memory_allocatable": 768 * GIB, "ready": True, "schedulable": True,
}  # fmt: skip


@pytest.fixture
def stored(engine):
    return Stored(engine)


def test_alike_machines_are_a_pool_and_count_with_the_least_of_any(engine, stored):
    stored.machine("b", **BIG)
    stored.machine("a", **BIG | {"cpu_allocatable": 90.0})
    stored.machine("c", **BIG | {"accelerators_allocatable": 4.0})
    stored.machine("plain", node_type="m5", cpu_allocatable=16.0, memory_allocatable=None)
    found = known.machines(engine)
    pools = {pool.name: pool for pool in found.capacity.pools}
    assert set(pools) == {"p4", "p4-8", "m5"} or set(pools) == {"p4", "p4-4", "m5"}
    eight = next(pool for pool in pools.values() if pool.accelerators_per_node == 8.0)
    assert (eight.nodes, eight.cpu_per_node, eight.memory_per_node, eight.accelerator) == (2, 90.0, 768 * GIB, "A100")
    assert found.names[eight.name] == ("a", "b")
    assert (pools["m5"].cpu_per_node, pools["m5"].memory_per_node) == (16.0, math.inf)


def test_machines_that_take_no_pods_are_left_out(engine, stored):
    stored.machine("gone", **BIG, gone_at=at(0))
    stored.machine("cordoned", **BIG | {"schedulable": False})
    stored.machine("down", **BIG | {"ready": False})
    stored.machine("elsewhere", "west", **BIG)
    assert known.machines(engine, "east").capacity.pools == ()
    assert [pool.nodes for pool in known.machines(engine).capacity.pools] == [1]


def test_living_pods_by_role(engine, stored):
    job = stored.job()
    machine = stored.machine(**BIG)
    stored.pod(job, "w0", phase="Running", node_id=machine, cpu_allotted=4.0, accelerators=1.0, rank=0)
    stored.pod(job, "w1", phase="Pending", cpu_allotted=6.0, memory_allotted=GIB, rank=1)
    stored.pod(job, "w2", phase="Failed")
    stored.pod(job, "w3", phase="Running", gone_at=at(0))
    stored.pod(job, "s0", role="ps", phase="Running", cpu_allotted=2.0)
    found = known.pods(engine)[job]
    assert found["worker"] == known.Pods(2, 6.0, float(GIB), 1.0, (machine, None))
    assert found["ps"].count == 1


def test_a_capacity_file(tmp_path):
    file = tmp_path / "capacity.csv"
    file.write_text("node_type,nodes,accelerators_per_node,cpu,memory\np4,16,4,48,\nm5,2,0,16,64000000000\n")
    first, second = given_by(file).pools
    assert (first.name, first.nodes, first.accelerators_per_node, first.cpu_per_node) == ("p4", 16, 4.0, 48.0)
    assert first.memory_per_node == math.inf
    assert second.memory_per_node == 64e9


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no line of capacity"),
        ("node_type,nodes\np4,1\n", "accelerators_per_node"),
        ("node_type,nodes,accelerators_per_node\np4,many,4\n", "line 2: nodes is 'many'"),
        ("node_type,nodes,accelerators_per_node\np4,1.5,4\n", "whole number"),
        ("node_type,nodes,accelerators_per_node\np4,1,-4\n", "line 2: accelerators_per_node"),
        ("node_type,nodes,accelerators_per_node\n,1,4\n", "node_type is empty"),
        ("node_type,nodes,accelerators_per_node\np4,inf,4\n", "nodes"),
        ("node_type,nodes,accelerators_per_node\np4,1,4\np4,1,8\n", "twice"),
    ],
)
def test_a_capacity_file_that_cannot_be_right_says_where(tmp_path, text, told):
    file = tmp_path / "capacity.csv"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=told):
        given_by(file)


def test_a_capacity_file_that_is_not_there(tmp_path):
    with pytest.raises(InvalidInput, match="CSV file"):
        given_by(tmp_path / "none.csv")
