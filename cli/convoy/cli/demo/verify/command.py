"""``convoy demo --verify DIR``: judge a run's claims and say PASS or FAIL for each."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console
from rich.text import Text

from convoy.cli.demo.verify import claims, evidence
from convoy.cli.demo.verify.steps import BadEvidence
from convoy.cli.demo.verify.verdict import Verdict
from convoy.cli.screen import screen
from convoy.core.api.errors import InvalidInput

_SHOWN = {True: ("PASS", "green"), False: ("FAIL", "bold red"), None: ("----", "dim")}


def run(directory: Path) -> int:
    """Print the verdicts; return 0 where every claim that is judged holds, else 1.

    Raises:
        InvalidInput: no run's evidence is there.
    """
    return show(judge(directory), directory, screen())


def judge(directory: Path) -> list[Verdict]:
    """Return the verdicts on the run in a folder.

    Raises:
        InvalidInput: no run's evidence is there.
    """
    try:
        return claims.judge(evidence.read(directory))
    except BadEvidence as error:
        raise InvalidInput(f"{error}; name the folder of a run of `convoy demo` that came to its end") from None


def show(verdicts: list[Verdict], directory: Path, console: Console) -> int:
    """Print verdicts; return 0 where every claim that is judged holds, else 1."""
    for verdict in verdicts:
        word, style = _SHOWN[verdict.holds]
        console.print(
            Text.assemble((word, style), "  ", (verdict.claim, "bold"), f": {verdict.facts}"), soft_wrap=True
        )
        if verdict.evidence:
            console.print(
                Text(f"      {verdict.evidence.replace(str(directory) + os.sep, '')}", style="dim"), soft_wrap=True
            )
    failed = [verdict for verdict in verdicts if verdict.holds is False]
    judged = [verdict for verdict in verdicts if verdict.holds is not None]
    summary = f"{len(judged) - len(failed)} of {len(judged)} claims hold, by {directory} alone"
    console.print(Text(summary, style="bold red" if failed else "bold green"), soft_wrap=True)
    return 1 if failed else 0
