"""Quotas, shares, a budget and pools from a TOML file; what nothing is made of is refused."""

from __future__ import annotations

import math

import pytest

from convoy.brain.features.capacity_file import given_by
from convoy.brain.features.given import Given
from convoy.brain.plan.cluster import Capacity, Pool, Quota
from convoy.core.api.errors import InvalidInput

WHOLE = """
budget_per_hour = 120

[[pools]]
node_type = "p4"
nodes = 16
accelerators_per_node = 4
cpu = "47500m"
memory = "384Gi"
accelerator = "A100"

[[pools]]
node_type = "m5"
nodes = 2
accelerators_per_node = 0

[[quotas]]
namespace = "research"
accelerators = 16
pool = "p4"

[[quotas]]
user = "ada"
cpu = 12
memory = "1Ti"

[[shares]]
user = "ada"
share = 2.0

[[shares]]
namespace = "research"
share = 0.5
"""


@pytest.fixture
def given(tmp_path):
    def read(text):
        file = tmp_path / "capacity.toml"
        file.write_text(text)
        return given_by(file)

    return read


def test_all_that_a_file_may_give(given):
    assert given(WHOLE) == Given(
        (Pool("p4", 16, 4.0, 47.5, 384.0 * 2**30, "A100"), Pool("m5", 2, 0.0)),
        (Quota("", 16.0, pool="p4", namespace="research"), Quota("ada", math.inf, 12.0, 2.0**40)),
        120.0,
        {"ada": 2.0},
        {"research": 0.5},
    )


def test_an_empty_file_bounds_nothing(given):
    known = Capacity((Pool("p4", 1),))
    assert given("").over(known) == known


def test_shares_multiply(given):
    found = given(WHOLE)
    assert [found.weight(*who) for who in (("ada", "x"), ("bob", "research"), ("ada", "research"))] == [2.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("budget = 1\n", "nothing is made of budget; expected budget_per_hour, pools, quotas, shares"),
        ("budget_per_hour = 'much'\n", "budget_per_hour is 'much'"),
        ("budget_per_hour = true\n", "budget_per_hour is True"),
        ("quotas = 3\n", r"quotas isn't written as \[\[quotas\]\]"),
        ("[[quotas]]\naccelerators = 1\n", "quotas 1: user is empty, and namespace too"),
        ("[[quotas]]\nuser = 'a'\n", "quotas 1: accelerators isn't there.*bound nothing"),
        ("[[quotas]]\nuser = 'a'\ngpus = 1\n", "quotas 1: nothing is made of gpus"),
        ("[[quotas]]\nuser = 'a'\ncpu = -1\n", "quotas 1: cpu is -1"),
        ("[[quotas]]\nuser = 'a'\nmemory = '1 GB'\n", "quotas 1: memory is '1 GB'"),
        ("[[quotas]]\nuser = 7\ncpu = 1\n", "quotas 1: user is 7: expected a text"),
        ("[[quotas]]\nuser = 'a'\ncpu = 1\n[[quotas]]\nuser = 'a'\ncpu = 2\n", "quotas names a twice"),
        ("[[shares]]\nuser = 'a'\n", "shares 1: share isn't there"),
        ("[[shares]]\nuser = 'a'\nshare = 0\n", "shares 1: share is 0"),
        ("[[shares]]\nuser = 'a'\nnamespace = 'b'\nshare = 1\n", "expected one of the two"),
        ("[[pools]]\nnodes = 1\naccelerators_per_node = 1\n", "pools 1: node_type is empty"),
        ("[[pools]]\nnode_type = 'p4'\nnodes = 1.5\naccelerators_per_node = 1\n", "nodes is 1.5"),
        ("[[pools]]\nnode_type = 'p4'\nnodes = 1e12\naccelerators_per_node = 1\n", "up to 1,000,000"),
        ("[[pools]]\nnode_type = 'p4'\nnodes = nan\naccelerators_per_node = 1\n", "nodes is nan"),
        (WHOLE.replace('pool = "p4"', 'pool = "p5"'), "there is no pool 'p5'"),
        ("[[", "expected a TOML file"),
    ],
)
def test_a_file_that_cannot_be_right_says_where(given, text, told):
    with pytest.raises(InvalidInput, match=told):
        given(text)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InvalidInput, match="expected a TOML file"):
        given_by(tmp_path / "none.toml")


def test_a_csv_column_of_which_nothing_is_made_is_refused(tmp_path):
    file = tmp_path / "capacity.csv"
    file.write_text("node_type,nodes,accelerators_per_node,quota\np4,1,4,2\n")
    with pytest.raises(InvalidInput, match="nothing is made of the column quota"):
        given_by(file)
