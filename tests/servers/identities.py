"""Who may do what on the API server of the tests: one kubeconfig with a context for each.

``admin`` (the current one) may do everything, ``reader`` may read the kinds that Convoy's monitor reads, ``nobody``
may do nothing.
"""

from __future__ import annotations

import csv
import secrets
from pathlib import Path

import yaml

ADMIN = "admin"
READER = "reader"
NOBODY = "nobody"

_GROUPS = {ADMIN: "system:masters", READER: "", NOBODY: ""}


def write_tokens(file: Path) -> None:
    """Write a token for each identity, as ``--token-auth-file`` wants them."""
    file.touch(mode=0o600)
    with open(file, "w", newline="") as output:
        csv.writer(output).writerows(
            [secrets.token_urlsafe(32), name, name, group] for name, group in _GROUPS.items()
        )


def read_tokens(file: Path) -> dict[str, str]:
    """Return each identity's token."""
    with open(file, newline="") as lines:
        return {name: token for token, name, *_ in csv.reader(lines)}


def write_kubeconfig(file: Path, address: str, authority: Path, tokens: dict[str, str]) -> None:
    """Write a kubeconfig with a context for each token."""
    contents = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": {"server": address, "certificate-authority": str(authority)}}],
        "users": [{"name": name, "user": {"token": token}} for name, token in tokens.items()],
        "contexts": [{"name": name, "context": {"cluster": "tests", "user": name}} for name in tokens],
        "current-context": ADMIN,
    }
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(contents, sort_keys=False))
