"""How many processes should load each worker's data, where steps wait for it and the job's script lets Convoy say.

A process that trains for ``compute`` seconds a step, and whose batch takes one loading process ``load`` seconds, has
steps of ``max(compute, load / n)`` with n of them, and of ``compute + load`` where it loads the data itself (n = 0).
Steps that wait tell both: the wait is the difference. So the number that hides the wait is ``load / compute``,
rounded up; cores and memory that are allotted and idle bound it. A change takes effect between two steps: there is no
restart to pay back, and what it must bring is the hysteresis alone.

The model knows no disk that is busy already. So what was tried stays in the measurements: a number that brought too
little over a smaller one is taken back, and no larger one is tried as long as they are looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pandas as pd

from convoy.brain.plan import explain
from convoy.brain.plan.answer import JobRecommendation, JobRequest, Loaders, Stage
from convoy.brain.plan.guards import MIN_GAIN
from convoy.brain.plan.heat import last_at, number
from convoy.brain.plan.hold import hold_of

SETTLED_SECONDS = 20.0
"""That an hour must have measured at a number of processes for it to be judged."""
KEPT_GAIN = MIN_GAIN / 2
"""What more processes must have brought to stay: less than what is asked of a change, or noise would move it to and
fro."""
FULL_MEMORY = 0.9
"""Of what is allotted, that more processes may fill."""
_SAME = ("workers", "batch_size", "accumulation_steps")


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps with one number of loading processes: seconds that one takes, and waits for its data."""

    workers: int
    step: float
    wait: float

    @property
    def compute(self) -> float:
        """Seconds that a step takes whoever loads its data."""
        return max(self.step - self.wait, 0.0)

    @property
    def load(self) -> float:
        """Seconds that one process needs for a batch, of steps that wait."""
        return self.workers * self.step if self.workers else self.wait

    def expected(self, workers: int) -> float:
        """Return the seconds that a step would take with so many, one or more."""
        return max(self.compute, self.load / workers)

    @property
    def enough(self) -> float:
        """The fewest that hide the wait; infinite where a step does nothing else."""
        return math.ceil(self.load / self.compute - 1e-9) if self.compute > 0 else math.inf

    def slower(self, step: float, by: float = MIN_GAIN) -> bool:
        """Whether these steps are slower than those of so many seconds, by the hysteresis."""
        return self.step >= (1.0 + by) * step


def with_loaders(
    answer: JobRecommendation, request: JobRequest, own: pd.DataFrame, loading: pd.DataFrame
) -> JobRecommendation:
    """Return the answer with how many processes should load the data; as it is where nothing tells.

    Args:
        answer: of the job's size.
        request: the job.
        own: its measurements.
        loading: how long its steps waited (``job``, ``observed_at``, ``window_seconds``, ``workers``, ``batch_size``,
            ``accumulation_steps``, ``loader_workers``, ``loader_wait``, ``step_seconds``), in the order of time.
    """
    here = _present(request, loading)
    if here.empty:
        return answer
    if pd.isna(here["loader_workers"].iloc[-1]):
        return _with(answer, _untold(here.iloc[-1]))
    loaders = _decided(request, own, here)
    if loaders.workers == loaders.before:
        return replace(answer, loaders=loaders)
    hold = hold_of(request, urgent=True)  # changes of size are counted by the hour: this one isn't
    if hold is not None:
        return _with(replace(answer, loaders=loaders), f"loaders stay as they are: {hold.words}; {loaders.message}")
    if "loaders" not in request.adjustable:
        said = f"advice that isn't carried out by itself: {loaders.message}"
        return _with(replace(answer, loaders=loaders), said)
    return replace(answer, loaders=replace(loaders, decided=True))


def _with(answer: JobRecommendation, note: str) -> JobRecommendation:
    return replace(answer, notes=(*answer.notes, note)) if note else answer


def _present(request: JobRequest, loading: pd.DataFrame) -> pd.DataFrame:
    """Return what was measured at the job's present configuration; nothing where that isn't the last."""
    if request.stage is Stage.START or loading.empty:
        return loading.iloc[:0]
    last = loading.iloc[-1]
    if last["workers"] != request.current_workers * request.processes_per_worker:
        return loading.iloc[:0]
    same = [loading[name].eq(last[name]) | (loading[name].isna() & pd.isna(last[name])) for name in _SAME]
    here: pd.DataFrame = loading[same[0] & same[1] & same[2]]
    return here


def _untold(last: pd.Series) -> str:
    """Return a note on a script that waits and doesn't take the number from Convoy; empty where it hardly waits."""
    steps = Steps(0, float(last["step_seconds"]), float(last["loader_wait"]))
    if not steps.slower(steps.compute):
        return ""
    return (
        f"{_waits(steps)}; how many processes load them its script doesn't leave to Convoy: "
        "trainer.loaded(...) or trainer.loader_workers(...) does"
    )


def _decided(request: JobRequest, own: pd.DataFrame, here: pd.DataFrame) -> Loaders:
    before = int(here["loader_workers"].iloc[-1])
    long = here[here["window_seconds"].ge(SETTLED_SECONDS) & here["loader_workers"].notna()]
    rows = long.drop_duplicates("loader_workers", keep="last")[["loader_workers", "step_seconds", "loader_wait"]]
    tried = [Steps(int(workers), float(step), float(wait)) for workers, step, wait in rows.to_numpy()]
    now = next((one for one in tried if one.workers == before), None)
    if now is None:
        words = f"{_processes(before)} of late: not measured for {explain.duration(SETTLED_SECONDS)} yet"
        return Loaders(before, before, math.nan, math.nan, math.nan, "NotMeasuredYet", words)
    as_good = [one for one in tried if one.workers < before and not one.slower(now.step, KEPT_GAIN)]
    if as_good:
        least = min(as_good, key=lambda one: one.workers)
        words = (
            f"a step takes {explain.duration(now.step)} with {before} and {explain.duration(least.step)} with "
            f"{least.workers}: more than {_processes(least.workers)} didn't help"
        )
        return Loaders(before, least.workers, now.wait, now.step, least.step, "MoreDidNotHelp", words)
    return _more(now, tried, *_room(request, own, before))


def _more(now: Steps, tried: list[Steps], most: int, scarce: str) -> Loaders:
    """Return as many as hide the wait, where that is worth it, was not in vain before, and there is room."""

    def kept(reason: str, words: str) -> Loaders:
        return Loaders(now.workers, now.workers, now.wait, now.step, now.step, reason, f"{_waits(now)}: {words}")

    if not now.slower(now.compute):
        return kept("NoWait", f"more than {_processes(now.workers)} aren't worth it")
    in_vain = [one.workers for one in tried if one.workers > now.workers and not now.slower(one.step)]
    if in_vain:
        return kept("MoreDidNotHelp", f"{_processes(min(in_vain))} were tried, and didn't make it shorter by 5%")
    wanted = int(min(now.enough, most))
    if wanted <= now.workers or not now.slower(now.expected(wanted)):
        enough = "more" if math.isinf(now.enough) else f"{now.enough:.0f}"
        return kept(scarce, f"{enough} might hide that, but {_OF[scarce]} leaves room for {max(most, 0)}")
    expected = now.expected(wanted)
    shorter = f"{wanted} are expected to make it {explain.duration(expected)}"
    words = f"{_waits(now)}, which {_processes(now.workers)} of each worker load{'s' * (now.workers == 1)}; {shorter}"
    return Loaders(now.workers, wanted, now.wait, now.step, expected, "WaitsForData", words)


_OF = {"CoresInUse": "what is idle of its cores", "MemoryInUse": "what is idle of its memory"}


def _room(request: JobRequest, own: pd.DataFrame, before: int) -> tuple[int, str]:
    """Return how many processes there is room for, and what is scarce.

    Each is counted as busy with a core of its own, and as large as the mean process of its pod.
    """
    row = last_at(own, request)
    each = request.processes_per_worker
    cores, memory = request.limits.worker_cpu / each, request.limits.worker_memory / each
    used, resident = (math.nan if row is None else number(row, f"worker_{of}_used") for of in ("cpu", "memory"))
    idle = cores - (1.0 + before if math.isnan(used) else used)
    by_cores = math.floor(min(before + max(idle, 0.0), cores) + 1e-9)
    if not (memory > 0 and resident > 0):
        return by_cores, "CoresInUse"
    by_memory = math.floor(FULL_MEMORY * memory / resident * (before + 1)) - 1
    return (by_memory, "MemoryInUse") if by_memory < by_cores else (by_cores, "CoresInUse")


def _waits(steps: Steps) -> str:
    share = steps.wait / steps.step if steps.step > 0 else 0.0
    return f"a step of {explain.duration(steps.step)} waits {explain.duration(steps.wait)} ({share:.0%}) for its data"


def _processes(count: int) -> str:
    return f"{count} process" if count == 1 else f"{count} processes"
