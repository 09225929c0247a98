"""The database of this machine's Brain: chosen once, kept in a Secret, checked before anything is started.

The Secret lies in the local cluster, whose file only its user can read. Nothing here shows a password.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode

from convoy.core.api import names
from convoy.core.api.errors import NotFound, Unusable
from convoy.core.api.meta import Manifest
from convoy.core.cluster.port import Cluster, Kind

VARIABLE = "CONVOY_DATABASE_URL"
SECRET = "convoy-brain-database"
KEY = "url"
BRAIN = "convoy-brain"

_ANSWER_SECONDS = 0.8  # what is left of the two in which a refusal comes


def settle(cluster: Cluster) -> str:
    """Settle on the Brain's database: the variable's, else the one that was kept, else the Brain's own default.

    Returns:
        What a user has to be told; empty where there is nothing.

    Raises:
        InvalidSetting: the URL is wrong.
        Unusable: the database can't be used, or a Brain runs with another one. Nothing was changed.
        UnknownSchema: a newer version of Convoy made the database's schema.
    """
    given, kept = os.environ.get(VARIABLE) or None, stored(cluster)
    if given is None and kept is None:
        return ""
    from convoy.brain.store.engine import check, shown

    wanted = kept if given is None else _absolute(given)
    runs = _brain_runs(cluster)
    if runs and wanted != kept:
        raise Unusable(
            f"{VARIABLE} is {shown(str(wanted))}, and the Brain that runs here keeps its history in "
            f"{_named(kept)}; unset {VARIABLE} to go on with that one, or wait until all jobs are over and "
            "end the Brain with `convoy operator --exit-when-idle 1`, then submit again",
            reason="OtherDatabase",
        )
    if not runs:  # one that runs outlives its database, and so does training
        check(str(wanted), seconds=_ANSWER_SECONDS)
        from convoy.brain.store.migrate import require_ours

        require_ours(str(wanted))
    if wanted == kept:
        return ""
    cluster.apply(_secret(str(wanted)), field_manager=names.MANAGER_CLI)
    if kept is None:
        return ""
    return f"the Brain's database is {shown(str(wanted))} from now on; what it learned stays in {shown(kept)}"


def stored(cluster: Cluster) -> str | None:
    """Return the URL that was kept, None where none was ever given."""
    try:
        held = cluster.get(Kind.SECRET, names.SYSTEM_NAMESPACE, SECRET).get("data") or {}
    except NotFound:
        return None
    return b64decode(held[KEY]).decode() if held.get(KEY) else None


def for_readers(cluster: Cluster | None) -> str | None:
    """Return the URL that commands which only read must use; None: as the settings say."""
    return None if cluster is None or os.environ.get(VARIABLE) else stored(cluster)


def _absolute(url: str) -> str:
    """Return the URL with our drivers filled in and a file's whole path, since the Brain runs in another folder."""
    from convoy.brain.store.engine import parse_url

    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        parsed = parsed.set(database=os.path.abspath(str(parsed.database)))
    return parsed.render_as_string(hide_password=False)


def _named(url: str | None) -> str:
    from convoy.brain.store.engine import shown

    return "its default, brain.db in the state directory" if url is None else shown(url)


def _brain_runs(cluster: Cluster) -> bool:
    try:
        pod = cluster.get(Kind.POD, names.SYSTEM_NAMESPACE, BRAIN)
    except NotFound:
        return False
    return "deletionTimestamp" not in pod["metadata"]


def _secret(url: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": names.SYSTEM_NAMESPACE},
        "type": "Opaque",
        "data": {KEY: b64encode(url.encode()).decode()},
    }
