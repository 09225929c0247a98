"""What a pod's process is given: $(VAR), values from elsewhere, the base beneath."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.core.cluster.local.environment import (
    ENV_POD_UID,
    StartError,
    base_environment,
    command,
    environment,
    expand,
    nice,
)


def pod(**container: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "n", "uid": "u-1", "labels": {"a": "1"}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "main", **container}]}}


def no_secret(name: str) -> None:
    return None


def value_from(**source: Any) -> list[dict[str, Any]]:
    return [{"name": "V", "valueFrom": source}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain $HOME", "plain $HOME"),
        ("$(A)", "1"),
        ("x$(A)y$(B)z", "x1y2z"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("cost: 5$", "cost: 5$"),
    ],
)
def test_references_expand_as_in_kubernetes(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expected


@given(st.text())
def test_text_without_dollars_stays(text: str) -> None:
    without = text.replace("$", "")
    assert expand(without, {"A": "1"}) == without


@given(st.text())
def test_doubled_dollars_protect_any_text(text: str) -> None:
    assert expand(text.replace("$", "$$"), {"A": "1"}) == text


def test_a_variable_sees_those_before_it_and_the_base() -> None:
    env = [{"name": "B", "value": "$(A)/$(C)"}, {"name": "C", "value": "c"}, {"name": "D", "value": "$(B):$(C)"}]
    found = environment(pod(env=env), {"A": "base"}, no_secret)
    assert (found["B"], found["D"]) == ("base/$(C)", "base/$(C):c")
    assert found[ENV_POD_UID] == "u-1"


def test_secrets_are_decoded() -> None:
    data = {"data": {"k": base64.b64encode(b"s3cr3t").decode()}}
    env = value_from(secretKeyRef={"name": "s", "key": "k"})
    assert environment(pod(env=env), {}, lambda name: data if name == "s" else None)["V"] == "s3cr3t"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "n"),
        ("status.podIP", "127.0.0.1"),
        ("metadata.labels['a']", "1"),
    ],
)
def test_fields_are_looked_up(path: str, expected: str) -> None:
    assert environment(pod(env=value_from(fieldRef={"fieldPath": path})), {}, no_secret)["V"] == expected


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ({"secretKeyRef": {"name": "s", "key": "k"}}, "'s'"),
        ({"fieldRef": {"fieldPath": "spec.color"}}, r"spec\.color"),
        ({"configMapKeyRef": {"name": "c", "key": "k"}}, "configMapKeyRef"),
    ],
)
def test_what_cant_be_had_is_named(source: dict[str, Any], named: str) -> None:
    with pytest.raises(StartError, match=rf"env V: .*{named}"):
        environment(pod(env=value_from(**source)), {}, no_secret)


def test_an_optional_secret_may_be_missing() -> None:
    env = value_from(secretKeyRef={"name": "s", "key": "k", "optional": True})
    assert "V" not in environment(pod(env=env), {}, no_secret)


def test_the_command_line_is_command_then_args_expanded() -> None:
    assert command(pod(command=["run", "$(A)"], args=["--x=$(B)"]), {"A": "1", "B": "2"}) == ["run", "1", "--x=2"]
    with pytest.raises(StartError, match="no command"):
        command(pod(image="python:3"), {})


def test_the_base_is_clean_and_our_programs_come_first() -> None:
    own = {
        "PATH": "/usr/bin:/venv/bin",
        "HOME": "/home/u",
        "LC_ALL": "C",
        "XDG_STATE_HOME": "/x",
        "PIP_INDEX_URL": "http://pip",
        "OMP_NUM_THREADS": "7",
        "AWS_SECRET_ACCESS_KEY": "no",
        "CONVOY_CRASH_AT": "x",
    }
    base = base_environment(own, "/venv/bin", "/state")
    assert base == {
        "PATH": "/venv/bin:/usr/bin",
        "HOME": "/home/u",
        "LC_ALL": "C",
        "XDG_STATE_HOME": "/x",
        "CONVOY_STATE_DIR": "/state",
    }


@pytest.mark.parametrize("text", ["-5", "20", "high", ""])
def test_a_niceness_that_the_kernel_doesnt_take_is_refused(text: str) -> None:
    manifest = pod(command=["true"])
    manifest["metadata"]["annotations"] = {"convoy/nice": text}
    with pytest.raises(StartError, match="convoy/nice"):
        nice(manifest)
