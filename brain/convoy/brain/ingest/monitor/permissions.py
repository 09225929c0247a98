"""Whether the cluster lets the monitor read what it follows, asked before it begins: all that is missing at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress

from convoy.core.api.errors import ClusterError, Unusable
from convoy.core.cluster.port import ClusterReader, Kind

_MOMENT = 0.01
_ONE_VERB = re.compile(r'verbs: \["(?:list|watch)"\]')
_BOTH_VERBS = 'verbs: ["list", "watch"]'


def check(reader: ClusterReader, wanted: Iterable[tuple[Kind, str | None]]) -> None:
    """Try to list and to watch each kind in its namespace (None: all).

    Raises:
        Unusable: with a sentence for each thing that is refused; its rule has both verbs, for where listing is
            refused it isn't known whether watching is.
        Unavailable: the cluster can't be reached now.
    """
    refused: list[Unusable] = []
    for kind, namespace in wanted:
        try:
            with suppress(ClusterError):  # it answers: following copes with that
                _try(reader, kind, namespace)
        except Unusable as error:
            refused.append(error)
            if error.reason not in ("Forbidden", "KindNotServed"):
                break  # nobody is let in: asking on tells nothing new
    if refused:
        said = "\n".join(str(error) for error in refused)
        raise Unusable(_ONE_VERB.sub(_BOTH_VERBS, said), reason=refused[0].reason)


def _try(reader: ClusterReader, kind: Kind, namespace: str | None) -> None:
    pages = reader.pages(kind, namespace)
    version = next(iter(pages)).resource_version
    for _ in reader.watch(kind, version, namespace, timeout=_MOMENT):
        return
