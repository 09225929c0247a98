"""Logs: lines of JSON where no person looks, and no secret in either form."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import Any

import pytest
import structlog

from convoy.core.api.errors import InvalidSetting
from convoy.core.process import logs

SCRIPT = """
from convoy.core.process import logs
logs.configure("ferry", job="uid-1")
log = logs.get("deck")
log.debug("unseen")
log.warning("cast off", knots=5, job_token="hunter2", address="mysql://u:hunter2@db/x",
            nested={"deep": [{"password": "hunter2"}]}, secret_name="hunter2")
try:
    raise RuntimeError("mysql://u:hunter2@db/x is gone")
except RuntimeError:
    log.exception("sank")
"""


def run(**env: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=os.environ | env, capture_output=True, text=True, timeout=30, check=True
    )
    assert ran.stdout == ""
    return ran.stderr


def test_elsewhere_than_on_a_terminal_each_line_is_json_with_its_fields() -> None:
    lines: list[dict[str, Any]] = [json.loads(line) for line in run().splitlines()]
    assert [line["event"] for line in lines] == ["cast off", "sank"]
    first = lines[0]
    assert (first["component"], first["job"], first["knots"], first["level"]) == ("ferry", "uid-1", 5, "warning")
    assert first["timestamp"].endswith("Z")
    assert "RuntimeError" in lines[1]["exception"]


@pytest.mark.parametrize("form", ["json", "human"])
def test_no_secret_is_written(form: str) -> None:
    text = run(CONVOY_LOG_FORMAT=form)
    assert "hunter2" not in text
    assert "***" in text
    assert "mysql://u:***@db/x" in text


def test_the_level_is_a_setting() -> None:
    assert "unseen" in run(CONVOY_LOG_LEVEL="debug")
    assert "cast off" not in run(CONVOY_LOG_LEVEL="error")


@pytest.mark.parametrize(("name", "value"), [("CONVOY_LOG_LEVEL", "loud"), ("CONVOY_LOG_FORMAT", "xml")])
def test_a_wrong_setting_is_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSetting, match=f"{name}: expected .*{value}"):
        logs.configure("ferry")


def test_a_kept_logger_writes_to_the_stderr_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = io.StringIO(), io.StringIO()
    try:
        monkeypatch.setattr("sys.stderr", first)
        logs.configure("test")
        log = logs.get("x")
        log.info("one")
        assert '"one"' in first.getvalue()
        first.close()
        monkeypatch.setattr("sys.stderr", second)
        log.info("two")
        assert '"two"' in second.getvalue()
    finally:
        structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()
