"""Ends a run by naming what it left out, and the command that would bring it.

Left out is what was deselected (by ``-m``) or skipped. A test that needs what not every machine has carries a marker
(``servers``, ``gpu``) or skips with a reason that says how to bring it. With ``CONVOY_STRICT=1`` a skip for anything
but a GPU fails the run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

_BRINGS = {
    "long": "make test-long",
    "servers": "make servers && make test",
    "gpu": "make test, on a machine with an NVIDIA GPU",
}


class LeftOut:
    """Counts what a run leaves out, in the process that prints its summary."""

    def __init__(self) -> None:
        self.deselected: Counter[str] = Counter()
        self.skipped: Counter[tuple[str, str]] = Counter()

    @property
    def without_excuse(self) -> int:
        """How many skips a strict run doesn't accept."""
        return sum(count for (marker, _), count in self.skipped.items() if marker != "gpu")

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.deselected.update(_marker({mark.name for mark in item.iter_markers()}) for item in items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped[_marker(report.keywords), _reason(report)] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skipped["", _reason(report)] += 1

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
        yield  # after the failures: it is what a run ends with
        for marker, count in sorted(self.deselected.items()):
            what, brings = marker or "deselected", _BRINGS.get(marker, "make test")
            terminalreporter.write_line(f"left out: {count} {what} tests; brought by: {brings}")
        for (marker, reason), count in sorted(self.skipped.items()):
            terminalreporter.write_line(f"left out: {count} skipped: {reason}; {_bring(marker)}")
        if not self.deselected and not self.skipped:
            terminalreporter.write_line("left out: nothing")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["deselected"] = dict(self.deselected)
        elif os.environ.get("CONVOY_STRICT") and self.without_excuse and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        found = getattr(node, "workeroutput", {}).get("deselected", {})
        self.deselected = max(self.deselected, Counter(found), key=Counter.total)  # all workers collect the same


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(LeftOut(), "convoy-left-out")


def _marker(names: Any) -> str:
    return next((name for name in _BRINGS if name in names), "")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    place = report.longrepr
    return str(place[2] if isinstance(place, tuple) else place).removeprefix("Skipped: ")


def _bring(marker: str) -> str:
    return f"brought by: {_BRINGS[marker]}" if marker else "the reason says how to bring it"
