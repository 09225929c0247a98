"""Made-up metrics that the Prometheus of the tests scrapes: an exporter on a port of its own."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Exporter:
    """What is scraped; ``text``, in Prometheus' exposition format, may be changed at any time."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.scrapes = 0
        """How many times it was asked."""


@contextmanager
def scraped(targets: Path, text: str, *, job: str, labels: Mapping[str, str] | None = None) -> Iterator[Exporter]:
    """Serve metrics and have them scraped each second, until the context ends; the first scrape comes within 10 s.

    Args:
        targets: the folder that CONVOY_TEST_PROMETHEUS_TARGETS names, or ``targets`` of a disposable Prometheus.
        text: the metrics, in the exposition format: https://prometheus.io/docs/instrumenting/exposition_formats/
        job: the label ``job`` of the metrics.
        labels: further ones, ``instance`` among them if its address won't do.
    """
    exporter = Exporter(text)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            exporter.scrapes += 1
            body = exporter.text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    file = targets / f"{uuid.uuid4().hex}.json"
    target = {"targets": [f"127.0.0.1:{server.server_port}"], "labels": {"job": job, **(labels or {})}}
    try:
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps([target]))
        partial.rename(file)  # all of it at once: half a file is an error in Prometheus' log
        yield exporter
    finally:
        file.unlink(missing_ok=True)
        server.shutdown()
        thread.join()
        server.server_close()
