"""What became of an imported file in words, or what would become of it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from convoy.cli.screen import counted

if TYPE_CHECKING:
    from convoy.brain.ingest.history.importing import Imported, Refused


def stored(outcome: Imported) -> str:
    """Return what became of a file that was imported."""
    lines = [f"{outcome.file}: {_fates(outcome, 'stored', 'refused')}"]
    return "\n".join([*lines, *_refusals(outcome.refused)])


def planned(outcome: Imported) -> str:
    """Return what would become of a file, what it holds, and what the models would make of it."""
    from convoy.brain.ingest.history.absent import absent

    lines = [f"{outcome.file}: {_fates(outcome, 'would be stored', 'would be refused')}"]
    lines += _refusals(outcome.refused)
    if outcome.good:
        lines.append(f"  {counted(outcome.jobs, 'job')}, {_span(outcome)}")
        lines += [f"  {counted(rows, 'row')} of origin: {name}" for name, rows in outcome.origins.most_common(10)]
        if len(outcome.origins) > 10:
            lines.append(f"  and of {len(outcome.origins) - 10} other origins")
    filled = [name for name in outcome.columns if name not in outcome.empty]
    lines.append(f"  columns with values: {', '.join(filled) or 'none that could be read'}")
    if not filled:
        return "\n".join(lines)
    read, unread = absent(frozenset(filled))
    lines += [f"  without {name}: {what}" for name, what in read.items()]
    if unread:
        lines.append(f"  without {', '.join(unread)}: no prediction of speed reads them")
    return "\n".join(lines)


def refusals(refused: Refused) -> str:
    """Return the reasons with their counts, and the first of the refused rows."""
    return "\n".join(_refusals(refused))


def _fates(outcome: Imported, stored: str, refused: str) -> str:
    parts = [f"{counted(outcome.added, 'row')} {stored}"]
    if outcome.already:
        parts.append(f"{outcome.already} there already")
    if outcome.measured:
        parts.append(f"{outcome.measured} left out, of jobs that this store measured itself")
    if outcome.refused.rows:
        parts.append(f"{outcome.refused.rows} {refused}")
    return ", ".join(parts)


def _refusals(refused: Refused) -> list[str]:
    lines = [f"  refused: {rows} for {reason}" for reason, rows in refused.reasons.most_common()]
    lines += [f"  {refusal}" for refusal in refused.shown]
    if refused.shown and refused.total > len(refused.shown):
        lines.append(f"  and {refused.total - len(refused.shown)} more; --show-refused N shows N")
    return lines


def _span(outcome: Imported) -> str:
    if outcome.since is None or outcome.until is None:
        return "no row says when it was measured"
    untimed = f"; {counted(outcome.untimed, 'row')} without a time" if outcome.untimed else ""
    return f"measured from {_minute(outcome.since)} to {_minute(outcome.until)} UTC{untimed}"


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"
