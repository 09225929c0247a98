"""The watched cluster's row: found again by its name, and never taken for another cluster's of that name."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.ingest.monitor.store import Place
from convoy.brain.store.tables import Cluster
from convoy.brain.store.write import insert_new
from convoy.core.api.errors import Unusable


def settle(connection: Connection, name: str, uid: str, version: str, now: datetime) -> Place:
    """Return the cluster's row, made where there is none; ``uid`` and ``version`` are empty where they aren't known.

    Raises:
        Unusable: the store knows another cluster by that name.
    """
    insert_new(connection, Cluster, [{"name": name, "first_seen": now, "last_seen": now}])
    found = connection.execute(sa.select(Cluster).where(Cluster.name == name).with_for_update()).mappings().one()
    if uid and found["uid"] not in ("", uid):
        raise Unusable(
            f"cluster {name!r} is in the store already and is another one (uid {found['uid']}, this one's is {uid}): "
            "give each a name of its own with --cluster or CONVOY_CLUSTER; if it is this one, built anew, choose "
            "another name too: what ran there before stays as it was",
            reason="OtherCluster",
        )
    changes = {"uid": uid or found["uid"], "version": version or found["version"], "last_seen": now}
    connection.execute(sa.update(Cluster).where(Cluster.id == found["id"]).values(changes))
    return Place(found["id"], name)
