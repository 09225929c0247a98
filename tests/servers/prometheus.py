"""A Prometheus for the tests, which scrapes a node exporter of this machine each second.

    python tests/servers/prometheus.py start   # prints the three variables; installs the packages where root may
    python tests/servers/prometheus.py url     # the same lines if both run, status 1 otherwise
    python tests/servers/prometheus.py stop

``CONVOY_TEST_PROMETHEUS_URL`` and ``CONVOY_TEST_NODE_EXPORTER_URL`` are their addresses. Prometheus also scrapes what
the files in ``CONVOY_TEST_PROMETHEUS_TARGETS`` name, so that tests can add targets of their own and take them away
(``support.exporter``): ``NAME.json`` holds ``[{"targets": ["127.0.0.1:PORT"], "labels": {"job": "dcgm"}}]``, and is
heeded within 10 s. https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config
"""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from servers.process import START_SECONDS, Failed, Process, free_port, stop_all
from servers.programs import Package
from servers.shared import Server, main

PACKAGE = Package("prometheus")
EXPORTER_PACKAGE = Package("prometheus-node-exporter")


class Prometheus(Server):
    """One Prometheus, and a node exporter; ports stay as long as the object lives, data as long as the folder.

    Args:
        folder: where all of it lies.
        exporter: whether a node exporter runs beside it and is scraped.
        retention: for how long samples are kept.
        flags: further ones of Prometheus, such as ``--query.max-samples=1000``.
    """

    name = "prometheus"
    variables = ("CONVOY_TEST_PROMETHEUS_URL", "CONVOY_TEST_NODE_EXPORTER_URL", "CONVOY_TEST_PROMETHEUS_TARGETS")

    def __init__(
        self, folder: Path, *, exporter: bool = True, retention: str = "12h", flags: Sequence[str] = ()
    ) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.targets = folder / "targets"
        self.process = Process("prometheus", folder)
        self.exporter = Process("node-exporter", folder) if exporter else None
        self._exporter_port = free_port()
        self._data = folder / "data"
        self._flags = (f"--storage.tsdb.retention.time={retention}", *flags)

    @property
    def url(self) -> str:
        """The address of Prometheus."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def exporter_url(self) -> str:
        """The address of the node exporter."""
        return f"http://127.0.0.1:{self._exporter_port}"

    def install(self) -> None:
        """Install the system packages where root may."""
        PACKAGE.install("prometheus", "promtool")
        EXPORTER_PACKAGE.install("prometheus-node-exporter")

    def start(self) -> None:
        """Start what of it doesn't run, with empty data where there are none."""
        try:
            self._configure()
            if self.exporter and not self.exporter.running():
                self.exporter.start(self._exporter_command(), lambda: _answers(f"{self.exporter_url}/metrics"))
            if not self.process.running():
                self.process.start(self._command(), lambda: _answers(f"{self.url}/-/ready"))
        except BaseException:
            self.stop()
            raise

    def running(self) -> bool:
        """Return whether all of it runs."""
        return all(process.running() for process in self._processes())

    def stop(self) -> None:
        """End it in order."""
        stop_all(self._processes())

    def kill(self) -> None:
        """End Prometheus as a crash does; ``start`` brings it back with what it had written."""
        self.process.kill()

    def freeze(self) -> None:
        """Let Prometheus answer nothing, its connections open, until ``thaw``."""
        self.process.freeze()

    def thaw(self) -> None:
        """Let it go on."""
        self.process.thaw()

    def load(self, history: str) -> None:
        """Give it a history before it is started, in OpenMetrics' text with a time stamp in seconds on each line.

        https://prometheus.io/docs/prometheus/latest/storage/#backfilling-from-openmetrics-format

        Raises:
            Failed: the text isn't OpenMetrics, which ends with ``# EOF``.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "history.txt"
        file.write_text(history)
        command = [
            PACKAGE.program("promtool"),
            "tsdb",
            "create-blocks-from",
            "openmetrics",
            str(file),
            str(self._data),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS)
        if done.returncode != 0:
            raise Failed(f"promtool didn't take {file}:\n{done.stderr[-2000:]}")

    def environment(self) -> dict[str, str]:
        """Return both addresses and the folder of further targets."""
        return dict(zip(self.variables, (self.url, self.exporter_url, str(self.targets)), strict=True))

    def _processes(self) -> list[Process]:
        return [self.process, *([self.exporter] if self.exporter else [])]

    def _configure(self) -> None:
        self.targets.mkdir(parents=True, exist_ok=True)
        files = {"files": [f"{self.targets}/*.json"], "refresh_interval": "1s"}
        jobs: list[dict[str, Any]] = [{"job_name": "tests", "file_sd_configs": [files]}]
        if self.exporter:
            node = {"targets": [f"127.0.0.1:{self._exporter_port}"]}
            jobs.append({"job_name": "node", "static_configs": [node]})
        scraping = {"scrape_interval": "1s", "scrape_timeout": "1s"}
        (self.folder / "prometheus.yml").write_text(yaml.safe_dump({"global": scraping, "scrape_configs": jobs}))

    def _command(self) -> list[str]:
        return [
            PACKAGE.program("prometheus"),
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._data}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
            *self._flags,
        ]

    def _exporter_command(self) -> list[str]:
        return [
            EXPORTER_PACKAGE.program("prometheus-node-exporter"),
            f"--web.listen-address=127.0.0.1:{self._exporter_port}",
            f"--collector.textfile.directory={self.folder}",
            "--no-collector.systemd",  # it says in the log, at each scrape, where there is none
            "--log.level=warn",
        ]


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    main(Prometheus)
