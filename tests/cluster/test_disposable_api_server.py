"""An API server of one's own: it comes back with its data, forgets what it is told to, and its tokens end."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubernetes import client

from servers.api_server import ApiServer
from servers.objects import connected
from servers.process import Failed
from support.disposable import disposable_api_server
from support.mounted_account import MountedAccount
from support.waiting import until

pytestmark = pytest.mark.servers


def config_map(name):
    return {"metadata": {"name": name}, "data": {"speed": "42"}}


def test_it_comes_back_with_its_data_after_a_kill_and_a_freeze(home):
    with disposable_api_server(home / "cluster") as server, connected(server.kubeconfig) as connection:
        api = client.CoreV1Api(connection)
        api.create_namespaced_config_map("default", config_map("kept"))
        address = connection.configuration.host

        server.kill()
        assert server.get("/readyz") == 0
        server.start()
        assert connection.configuration.host == address
        assert api.read_namespaced_config_map("kept", "default").data == {"speed": "42"}

        server.freeze()
        assert server.get("/readyz") == 0
        server.thaw()
        until(lambda: server.get("/readyz") == 200, "the thawed server to answer")


def test_what_was_compacted_is_gone(home):
    with (
        disposable_api_server(home / "cluster", flags=["--watch-cache=false"]) as server,
        connected(server.kubeconfig) as connection,
    ):
        api = client.CoreV1Api(connection)
        before = api.list_namespaced_config_map("default").metadata.resource_version
        for number in range(3):
            api.create_namespaced_config_map("default", config_map(f"map-{number}"))
        page = api.list_namespaced_config_map("default", limit=1)
        api.create_namespaced_config_map("default", config_map("later"))
        first = server.compact()

        assert int(before) < first
        with pytest.raises(client.ApiException) as gone:
            api.list_namespaced_config_map("default", limit=1, _continue=page.metadata._continue)
        assert gone.value.status == 410
        answer = api.list_namespaced_config_map(
            "default", watch=True, resource_version=before, timeout_seconds=5, _preload_content=False
        )
        assert b'"code":410' in answer.read()


def test_a_rotated_token_takes_the_place_of_the_old_which_ends(home):
    with disposable_api_server(home / "cluster") as server:
        account = MountedAccount(server.kubeconfig, home / "serviceaccount")
        pods = "/api/v1/namespaces/default/pods"
        old = (account.folder / "token").read_text()
        assert server.get(pods, old) == 200

        account.rotate()

        new = (account.folder / "token").read_text()
        assert new != old
        assert server.get(pods, new) == 200
        until(lambda: server.get(pods, old) == 401, "the old token to be refused", timeout=20, every=0.5)
        assert server.get(pods, new) == 200


def test_a_start_that_fails_half_way_leaves_nothing_and_says_why(home):
    server = ApiServer(home / "cluster", controllers=False, flags=["--no-such-flag"])
    with pytest.raises(Failed, match=r"(?s)kube-apiserver ended with status 1.*no-such-flag"):
        server.start()
    assert not server.etcd.running()
    assert list(Path(home / "cluster").glob("*.pid")) == []
