"""``convoy brain monitor`` as people run it: what it is allowed, what it says, how it ends."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml
from kubernetes import client, utils
from sqlalchemy.engine import Engine

from convoy.brain.store import queries
from convoy.brain.store.engine import open_engine, reading
from convoy.brain.store.tables import JobNode
from convoy.core.cluster.local import open_cluster
from servers.api_server import ApiServer
from servers.objects import connected
from support import cluster_objects as objects
from support import manifests
from support.command import convoy, start
from support.disposable import disposable_api_server
from support.monitored import Live
from support.raw_objects import raw_objects
from support.waiting import until
from support.wire_peer import kubeconfig

RBAC = Path(__file__).parents[4] / "deploy" / "monitor" / "rbac.yaml"


class Running:
    """The command while it runs, and what it logged."""

    def __init__(self, *arguments: str | Path) -> None:
        self.process = start("brain", "monitor", *arguments, env={**os.environ, "CONVOY_LOG_FORMAT": "json"})
        self.lines: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line) if line.startswith("{") else {"event": line})

    def logged(self, event: str) -> dict[str, Any]:
        """Return the first line of an event once it is there."""
        found = until(lambda: [line for line in self.lines if line["event"] == event], f"{event!r}", timeout=30)
        return found[0]

    def end(self) -> int:
        """Ask it to end and return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(20)
        self._reader.join(5)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


@contextmanager
def running(*arguments: str | Path) -> Iterator[Running]:
    command = Running(*arguments)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            command.process.kill()
            command.end()


@pytest.fixture
def database(home: Path) -> str:
    return f"sqlite:///{home / 'brain.db'}"


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    opened = open_engine(database)
    yield opened
    opened.dispose()


def jobs(engine: Engine) -> set[str]:
    return {job.name for job in queries.jobs(engine)}


def pods(engine: Engine) -> list[str]:
    with reading(engine) as connection:
        return list(connection.execute(sa.select(JobNode.name)).scalars())


def local_pod(job: dict[str, Any]) -> dict[str, Any]:
    made = objects.pod(job)
    made["metadata"] = {key: made["metadata"][key] for key in ("name", "namespace", "labels", "ownerReferences")}
    del made["status"]
    return made


class TestRefusals:
    def test_without_a_configuration(self, home: Path) -> None:
        done = convoy("brain", "monitor", "--kubeconfig", home / "none")
        assert done.status == 2
        assert f"{home / 'none'} isn't there" in done.err

    def test_two_clusters_at_once(self, home: Path) -> None:
        done = convoy("brain", "monitor", "--local", "--kubeconfig", home / "any")
        assert done.status == 2
        assert "--local follows this machine" in done.err

    @pytest.mark.servers
    def test_who_may_do_nothing_is_told_each_rule_that_is_missing(self, identities: Path, database: str) -> None:
        done = convoy(
            "brain", "monitor", "--kubeconfig", identities, "--context", "nobody", "--database-url", database
        )
        assert done.status == 2
        for group, plural in (
            ("", "nodes"),
            ("elastic.iml.github.io", "elasticjobs"),
            ("elastic.iml.github.io", "scaleplans"),
            ("", "pods"),
            ("", "events"),
        ):
            rule = f'a ClusterRole with apiGroups: ["{group}"], resources: ["{plural}"], verbs: ["list", "watch"]'
            assert f"grant {rule}" in done.err

    @pytest.mark.servers
    def test_of_a_namespace_a_role_is_enough_but_for_nodes(self, identities: Path, database: str) -> None:
        done = convoy(
            *("brain", "monitor", "--kubeconfig", identities, "--context", "nobody", "--namespace", "team"),
            *("--database-url", database),
        )
        assert done.status == 2
        assert (
            'a Role in namespace team with apiGroups: [""], resources: ["pods"], verbs: ["list", "watch"]' in done.err
        )
        assert 'a ClusterRole with apiGroups: [""], resources: ["nodes"], verbs: ["list", "watch"]' in done.err


def test_this_machine_is_a_cluster_too(state_dir: Path, database: str, engine: Engine) -> None:
    with open_cluster(state_dir) as cluster, running("--local", "--database-url", database) as monitor:
        assert monitor.logged("monitoring")["cluster"] == "default"
        job = cluster.create(manifests.job("here"), field_manager="t")
        cluster.create(local_pod(job), field_manager="t")
        until(lambda: pods(engine) == ["here-edljob-worker-0"], "the job's pod", timeout=20)
        assert monitor.end() == 0
    assert monitor.logged("counts")["stored"] == {"ElasticJob": 1, "Node": 1, "Pod": 1}


@pytest.mark.servers
class TestOnAnApiServer:
    @pytest.fixture
    def server(self, home: Path) -> Iterator[ApiServer]:
        with disposable_api_server(home / "api-server") as started:
            yield started

    @pytest.fixture
    def live(self, server: ApiServer) -> Iterator[Live]:
        with raw_objects(server.kubeconfig) as hands:
            yield Live(hands)

    def test_the_rules_in_deploy_are_enough_and_a_token_may_be_rotated(
        self, server: ApiServer, live: Live, home: Path, database: str, engine: Engine
    ) -> None:
        account = Account(server, home)
        live.put(objects.node())
        job = live.put(objects.job("first", phase="Running"))
        live.put(objects.event(live.put(objects.pod(job, node="n1")), "Scheduled"))
        with running("--kubeconfig", account.kubeconfig, "--database-url", database, "--cluster", "tests") as monitor:
            said = monitor.logged("monitoring")
            assert (said["cluster"], said["namespaces"]) == ("tests", "all")
            assert said["version"].startswith("v1.")
            assert len(said["uid"]) == 36
            until(lambda: jobs(engine) == {"first"}, "the first job", timeout=20)
            old = account.rotate()
            until(lambda: server.get("/api/v1/nodes", old) == 401, "the old token to be refused", timeout=30)
            server.kill()
            server.start()
            live.put(objects.job("second"))
            until(lambda: jobs(engine) == {"first", "second"}, "the second job", timeout=30)
            assert monitor.end() == 0
        told = [line for line in monitor.lines if line["event"] == "counts"][-1]
        assert told["stored"]["Pod"] == told["stored"]["Event"] == told["stored"]["Node"] == 1
        assert (told["left_out"], told["pending"]) == ({}, 0)
        lost, found = (
            [line for line in monitor.lines if line["event"] == said] for said in ("out of sync", "in sync again")
        )
        assert {line["kind"] for line in lost} == {"Node", "ElasticJob", "ScalePlan", "Pod", "Event"}
        assert sorted(line["kind"] for line in lost) == sorted(line["kind"] for line in found)  # each outage once
        assert not [line for line in monitor.lines if old in json.dumps(line)]

    def test_one_that_starts_before_the_api_server_waits_for_it(
        self, server: ApiServer, live: Live, database: str, engine: Engine
    ) -> None:
        live.put(objects.job())
        server.kill()
        with running("--kubeconfig", server.kubeconfig, "--database-url", database) as monitor:
            assert monitor.logged("waiting for the cluster")["reason"] == "Unavailable"
            server.start()
            assert monitor.logged("caught up")["stored"] == {"ElasticJob": 1}
            assert jobs(engine) == {"job"}
            assert monitor.end() == 0

    def test_one_that_waits_for_the_api_server_can_be_stopped(self, server: ApiServer, database: str) -> None:
        server.kill()
        with running("--kubeconfig", server.kubeconfig, "--database-url", database) as monitor:
            monitor.logged("waiting for the cluster")
            assert monitor.end() == 0

    def test_the_rules_in_deploy_allow_nothing_more(self, server: ApiServer, home: Path) -> None:
        account = Account(server, home)
        with connected(account.kubeconfig) as connection:
            rules = client.AuthorizationV1Api(connection).create_self_subject_rules_review(
                {"spec": {"namespace": "default"}}
            )
        ours = {
            (verb, resource)
            for rule in rules.status.resource_rules
            for verb in rule.verbs
            for resource in rule.resources
            if not resource.startswith("selfsubject") and resource != "clustertrustbundles"  # everybody's
        }
        read = {"elasticjobs", "scaleplans", "pods", "events", "nodes"}
        assert ours == {(verb, one) for verb in ("list", "watch") for one in read} | {("get", "namespaces")}


class Account:
    """The service account of deploy/monitor, its token in a file that a kubeconfig names."""

    def __init__(self, server: ApiServer, home: Path) -> None:
        self._server = server
        self._token = home / "token"
        self._secret = ""
        with connected(server.kubeconfig) as connection:
            utils.create_from_yaml(connection, str(RBAC))
        cluster = yaml.safe_load(server.kubeconfig.read_text())["clusters"][0]["cluster"]
        self.kubeconfig = kubeconfig(home, cluster["server"], tokenFile=str(self._token))
        text = self.kubeconfig.read_text()
        authority = f'"certificate-authority": "{cluster["certificate-authority"]}", "server"'
        self.kubeconfig.write_text(text.replace('"server"', authority))
        self.rotate()

    def rotate(self) -> str:
        """Write a new token and let the old one end; return that."""
        old = self._token.read_text() if self._token.exists() else ""
        with connected(self._server.kubeconfig) as connection:
            core: Any = client.CoreV1Api(connection)
            made = core.create_namespaced_secret("convoy-system", {"metadata": {"generateName": "monitor-"}})
            bound = {"apiVersion": "v1", "kind": "Secret", "name": made.metadata.name}
            wanted = {"spec": {"audiences": [], "boundObjectRef": bound, "expirationSeconds": 3600}}
            issued = core.create_namespaced_service_account_token("convoy-monitor", "convoy-system", wanted)
            self._token.write_text(issued.status.token)
            if self._secret:
                core.delete_namespaced_secret(self._secret, "convoy-system")
            self._secret = made.metadata.name
        return old
