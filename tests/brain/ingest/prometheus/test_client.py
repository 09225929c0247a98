"""Prometheus' API: what guards it, and what a proxy before it may answer instead."""

import json
import socket
import time

import pytest

from convoy.brain.ingest.prometheus.address import Address
from convoy.brain.ingest.prometheus.client import Prometheus, QueryMalformed, QueryRefused, TooMuch
from convoy.brain.ingest.prometheus.grid import Span
from convoy.brain.settings import BrainSettings
from convoy.core.api.errors import ConvoyError, Unavailable, Unusable
from support.guarded_prometheus import PASSWORD, USER, guarded_prometheus
from support.wire_peer import serve, whole

QUOTED = "p%40ss%3Aword"
WRONG = "not-the-password"
TIME = {"status": "success", "data": {"resultType": "scalar", "result": [1.5, "1.5"]}}


@pytest.fixture
def ask(monkeypatch):
    """Return what asks for the time, with settings."""

    def asked(url, timeout=30.0, **settings):
        client = Prometheus(
            Address.of(BrainSettings.load(prometheus_url=url, prometheus_timeout_seconds=timeout, **settings))
        )
        try:
            return client.now()
        finally:
            client.close()

    return asked


@pytest.mark.servers
def test_basic_auth_and_an_authority_of_ones_own(ask, home):
    with guarded_prometheus(home / "p") as server:
        url = f"https://{USER}:{QUOTED}@{server.host}"
        assert abs(ask(url, prometheus_ca_file=server.ca_file) - time.time()) < 60
        with pytest.raises(Unusable) as untrusted:
            ask(url)
        with pytest.raises(Unusable) as wrong:
            ask(f"https://{USER}:{WRONG}@{server.host}", prometheus_ca_file=server.ca_file)
        with pytest.raises(Unusable) as nothing:
            ask(f"https://{server.host}", prometheus_ca_file=server.ca_file)
        with pytest.raises(Unusable, match="HTTP status 400 for a query; is the URL right, http or https") as plain:
            ask(f"http://{server.host}")
    assert untrusted.value.reason == "PrometheusUntrusted"
    assert "CONVOY_PROMETHEUS_CA_FILE" in str(untrusted.value)
    assert wrong.value.reason == nothing.value.reason == "PrometheusDenied"
    assert "it refuses what it was shown (HTTP status 401)" in str(wrong.value)
    assert "it refuses a call that shows nothing (HTTP status 401)" in str(nothing.value)
    for refused in (untrusted, wrong, nothing, plain):
        assert server.host in str(refused.value)
        assert PASSWORD not in str(refused.value)
        assert QUOTED not in str(refused.value)
        assert WRONG not in str(refused.value)


def test_a_token_is_shown_as_a_bearers_whatever_netrc_says(ask, home):
    (home / ".netrc").write_text("machine 127.0.0.1 login someone password else\n")
    with serve() as proxy:
        proxy.answer(whole(TIME))
        proxy.answer(whole("denied by policy", "403 Forbidden"))
        assert ask(f"http://127.0.0.1:{proxy.port}/prom", prometheus_token="tok-1\n") == 1.5
        with pytest.raises(Unusable, match=r"HTTP status 403.*CONVOY_PROMETHEUS_TOKEN") as refused:
            ask(f"http://127.0.0.1:{proxy.port}", prometheus_token="tok-1")
    assert "tok-1" not in str(refused.value)
    assert proxy.asked[0].headers["Authorization"] == "Bearer tok-1"
    assert proxy.asked[0].target.startswith("/prom/api/v1/query?")


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (whole("<html>Sign in</html>"), Unusable, "what answers there isn't Prometheus' HTTP API"),
        (whole({"status": "success"}), Unusable, "what answers there isn't Prometheus' HTTP API"),
        (whole([]), Unusable, "what answers there isn't Prometheus' HTTP API"),
        (whole("404 page not found", "404 Not Found"), Unusable, "is the URL right, http or https"),
        (whole("bad gateway", "502 Bad Gateway"), Unavailable, "HTTP status 502"),
        (whole("slow down", "429 Too Many Requests"), Unavailable, "HTTP status 429"),
        (whole("not ready", "503 Service Unavailable"), Unavailable, "HTTP status 503"),
        (
            whole({"status": "error", "errorType": "timeout", "error": "query timed out"}, "503 Service Unavailable"),
            TooMuch,
            "query timed out",
        ),
        (
            whole({"status": "error", "errorType": "bad_data", "error": "1:5: parse error"}, "400 Bad Request"),
            QueryMalformed,
            "1:5: parse error",
        ),
        (
            whole({"status": "error", "errorType": "execution", "error": "many-to-many"}, "400 Bad Request"),
            QueryRefused,
            "many-to-many",
        ),
        (b"", Unavailable, "is it up, and is the URL right"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", Unavailable, "is it up, and is the URL right"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Unavailable, "is it up, and is the URL right"),
    ],
)
def test_what_else_may_answer_is_told_apart(ask, answer, kind, said):
    with serve() as proxy:
        proxy.answer(answer)
        with pytest.raises(kind) as told:
            ask(f"http://127.0.0.1:{proxy.port}")
    assert type(told.value) is kind
    assert said in str(told.value)
    assert f"127.0.0.1:{proxy.port}" in str(told.value)
    assert len(proxy.asked) <= 1  # nothing is tried again behind the caller's back


@pytest.mark.parametrize(
    "answer",
    [
        b"\0\0\x12\x04\0\x1b[31mred" + b"\0" * 2000 + b"\r\n\r\n",
        b"J\0\0\0\n5.5.5-10.11\0\nmysql_native_password\0\r\n\r\n",
        b"HTTP/1.1 2\0\x1b\n\r\n\r\n",
        whole({"status": "error", "errorType": "bad_data", "error": "a\n\0\x1bb" + "c" * 999}, "400 Bad Request"),
    ],
)
def test_what_a_peer_writes_is_not_printed_raw(ask, answer):
    with serve() as peer:
        peer.answer(answer)
        with pytest.raises(ConvoyError) as told:
            ask(f"http://127.0.0.1:{peer.port}")
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 1000


def test_a_server_that_keeps_silent_is_left_within_the_timeout(ask):
    with serve() as proxy:
        proxy.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", silent=True)
        with pytest.raises(Unavailable, match="is it up"):
            ask(f"http://127.0.0.1:{proxy.port}", timeout=1.0)


def test_a_port_where_nobody_listens_is_named(ask):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unavailable) as told:
            ask(f"http://me:secret@{place}")
    assert f"Prometheus at http://{place}: " in str(told.value)
    assert "Connection refused" in str(told.value)
    assert "secret" not in str(told.value)


def test_an_answer_longer_than_it_may_be_is_broken_off(monkeypatch):
    monkeypatch.setattr("convoy.brain.ingest.prometheus.client._MOST_BYTES", 1000)
    values = [[second, "1"] for second in range(1000)]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}, "values": values}]}}
    assert len(json.dumps(answer)) > 1000
    with serve() as proxy:
        proxy.answer(whole(answer))
        client = Prometheus(Address(f"http://127.0.0.1:{proxy.port}"))
        with pytest.raises(TooMuch, match="longer than 1000 bytes"):
            client.range("up", Span(0, 999, 1))
        client.close()
