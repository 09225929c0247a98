"""A Prometheus that guards itself: TLS with a certificate of an authority of the test's own, and basic auth."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from servers.certificates import write_certificates
from servers.process import Process, free_port
from servers.programs import Missing
from servers.prometheus import PACKAGE

USER, PASSWORD = "analyst", "p@ss:word"
_HASH = "$2b$04$OgQo8yOWZMynVgdz87SttOM78Xdydv.uZMEAQkAz135nkuDdICb6W"
"""bcrypt of PASSWORD, at the least cost there is."""


@dataclass(frozen=True)
class Guarded:
    """Where it is, and whose signature its certificate bears."""

    host: str
    ca_file: Path


@contextmanager
def guarded_prometheus(folder: Path) -> Iterator[Guarded]:
    """Give a running Prometheus that takes USER with PASSWORD and nobody else."""
    write_certificates(folder)
    web = (
        f"tls_server_config:\n  cert_file: {folder / 'server.crt'}\n  key_file: {folder / 'server.key'}\n"
        f"basic_auth_users:\n  {USER}: {_HASH}\n"
    )
    (folder / "web.yml").write_text(web)
    (folder / "prometheus.yml").write_text("{}")
    host = f"127.0.0.1:{free_port()}"
    trusting = ssl.create_default_context(cafile=str(folder / "ca.crt"))

    def answers() -> bool:
        try:
            urllib.request.urlopen(f"https://{host}/-/ready", timeout=5, context=trusting)
        except urllib.error.HTTPError as error:
            return error.code == 401
        except OSError:
            return False
        return True

    process = Process("prometheus", folder)
    try:
        process.start(
            [
                PACKAGE.program("prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--web.config.file={folder / 'web.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={host}",
            ],
            answers,
        )
        yield Guarded(host, folder / "ca.crt")
    except Missing as missing:
        pytest.skip(str(missing))
    finally:
        process.stop()
