"""``convoy demo``: the scenario on a stage, its report, and the verification of its claims."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from convoy.cli.demo.scenario import QUICK, WHOLE, Scenario, Story
from convoy.cli.demo.stage import Stage
from convoy.cli.screen import screen
from convoy.core.api.errors import Unusable

_PACKAGE = Path(__file__).parents[1]


def run(directory: Path, *, quick: bool) -> int:
    """Run the demo and verify it; return 0 where every claim holds, else 1.

    Raises:
        InvalidInput, Unusable: the folder can't be used.
        DeadlineMissed, JobFailed: what was awaited didn't come.
    """
    console = screen()
    stage = Stage(directory, console)
    story = Story()
    stage.open()
    with _stopping(), _closing(stage):
        _play(stage, quick, story)
        (stage.directory / "run.json").write_text(json.dumps(asdict(story), indent=1) + "\n")
    stage.say("everything that was started has ended")
    return _conclude(stage, story)


def examples() -> Path:
    """Return the folder of the examples: beside this package where it is installed, else the checkout's.

    Raises:
        Unusable: it isn't there.
    """
    for folder in (_PACKAGE / "examples", _PACKAGE.parents[2] / "examples"):
        if (folder / "digits-allreduce.yaml").is_file():
            return folder
    raise Unusable(f"{_PACKAGE}: the examples aren't there; install Convoy anew")


def _play(stage: Stage, quick: bool, story: Story) -> None:
    folder = examples()
    scenario = Scenario(stage, QUICK if quick else WHOLE, folder / "digits-allreduce.yaml", story)
    stage.say(f"state, logs and report go to {stage.directory}")
    _import_history(stage, folder / "history" / "digits.csv")
    stage.start()
    scenario.train()
    scenario.reported()
    scenario.grow()
    scenario.lose_worker()
    if not quick:
        scenario.lose_node()
    scenario.lose_master()
    scenario.finish()
    if not quick:
        from convoy.cli.demo.measure import measure_sizes

        measure_sizes(scenario)


def _import_history(stage: Stage, file: Path) -> None:
    from convoy.brain.ingest.history import import_history
    from convoy.brain.settings import BrainSettings
    from convoy.brain.store.engine import open_engine
    from convoy.brain.store.migrate import migrate

    stage.doing("importing the history of past jobs")
    url = BrainSettings.load().database()
    migrate(url)
    engine = open_engine(url)
    done = import_history(engine, file)
    engine.dispose()
    stage.say(f"the Brain's store holds {done.added} measurements of past jobs, from {file.name}, marked imported")


def _conclude(stage: Stage, story: Story) -> int:
    from convoy.cli.demo.report import write_report
    from convoy.cli.demo.verify.command import judge, show

    verdicts = judge(stage.directory)
    report = write_report(stage.directory, story, verdicts, stage.console)
    stage.say(f"report: {report}")
    status = show(verdicts, stage.directory, stage.console)
    stage.say("done" if status == 0 else ("not every claim holds", "red"))
    return status


@contextmanager
def _stopping() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end the demo as Ctrl-C does."""

    def on_signal(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _closing(stage: Stage) -> Iterator[None]:
    try:
        yield
    finally:
        stage.close()
