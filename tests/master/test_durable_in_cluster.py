"""A master's state in a ConfigMap on a real API server: kept, fenced, and written after an outage."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from convoy.core.api.errors import CorruptState, StaleEpoch
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import ObjectMeta
from convoy.core.cluster.kubernetes import KubernetesCluster, open_cluster
from convoy.core.cluster.port import Kind
from convoy.master.durable import KEYS, STATE
from convoy.master.durable_in_cluster import ConfigMapStore
from support import manifests
from support.api_server import admin, cluster, identities, kubeconfig, namespace
from support.line import Line, line_to
from support.waiting import until

__all__ = ["admin", "cluster", "identities", "kubeconfig", "namespace"]
pytestmark = pytest.mark.servers


@pytest.fixture
def job(cluster: KubernetesCluster, namespace: str) -> ObjectMeta:
    made = manifests.job("digits")
    made["metadata"]["namespace"] = namespace
    return ElasticJob.from_manifest(cluster.create(made, field_manager="test")).metadata


def test_what_is_saved_is_there_for_the_next_master(cluster: KubernetesCluster, job: ObjectMeta) -> None:
    first = ConfigMapStore(cluster, job)
    assert first.load(STATE) is None
    first.acquire(1, 1.0)
    first.save(STATE, {"epoch": 1, "nodes": ["a"]})
    first.save(KEYS, {"k": "v"})
    first.save(STATE, {"epoch": 1, "nodes": ["a", "b"]})
    first.release()
    second = ConfigMapStore(cluster, job)
    second.acquire(2, 1.0)
    assert second.load(STATE) == {"epoch": 1, "nodes": ["a", "b"]}
    second.save(STATE, {"epoch": 2})
    assert (second.load(STATE), second.load(KEYS)) == ({"epoch": 2}, {"k": "v"})
    second.release()
    kept = cluster.get(Kind.CONFIG_MAP, job.namespace, "elasticjob-digits-dlrover-master-state")
    assert kept["metadata"]["ownerReferences"][0]["uid"] == job.uid


def test_a_master_that_was_replaced_writes_nothing_more(cluster: KubernetesCluster, job: ObjectMeta) -> None:
    old, new = ConfigMapStore(cluster, job), ConfigMapStore(cluster, job)
    old.acquire(1, 1.0)
    old.save(STATE, {"by": 1})
    new.acquire(2, 1.0)
    for _ in range(2):
        with pytest.raises(StaleEpoch, match="epoch 2"):
            old.save(STATE, {"by": "the old one"})
    new.save(KEYS, {"by": 2})
    assert new.load(STATE) == {"by": 1}
    with pytest.raises(StaleEpoch, match="epoch 2"):
        ConfigMapStore(cluster, job).acquire(1, 1.0)
    old.release()
    new.release()


def test_state_that_is_no_state_is_refused_with_its_place(cluster: KubernetesCluster, job: ObjectMeta) -> None:
    store = ConfigMapStore(cluster, job)
    name = "elasticjob-digits-dlrover-master-state"
    made = {"kind": "ConfigMap", "metadata": {"name": name, "namespace": job.namespace}, "data": {"state.json": "{"}}
    cluster.create(made, field_manager="test")
    with pytest.raises(CorruptState, match=rf"{name}, state\.json"):
        store.load(STATE)


def test_an_outage_holds_no_decision_up_and_loses_nothing(
    kubeconfig: Path, tmp_path: Path, cluster: KubernetesCluster, job: ObjectMeta
) -> None:
    address = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    with line_to(int(address.rpartition(":")[2])) as line:
        over_it = line.kubeconfig(kubeconfig, tmp_path / "over-the-line")
        with closing(open_cluster(over_it)) as ours:
            an_outage(line, ConfigMapStore(ours, job), ConfigMapStore(cluster, job))


def an_outage(line: Line, store: ConfigMapStore, look: ConfigMapStore) -> None:
    store.acquire(1, 1.0)
    store.save(STATE, {"step": 1})
    line.cut()
    began = time.monotonic()
    for step in range(2, 50):
        store.save(STATE, {"step": step})
    assert time.monotonic() - began < 10.0  # the first waits a moment, the others don't
    assert look.load(STATE) == {"step": 1}
    line.mend()
    until(lambda: look.load(STATE) == {"step": 49}, "what was saved amid the outage", timeout=30.0)
    store.release()
