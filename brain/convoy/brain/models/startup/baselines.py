"""What the start-up model must beat, under its interface: the template's median, what was asked, DLRover's rules."""

from __future__ import annotations

from typing import Self

import numpy as np
import pandas as pd

from convoy.brain.models.startup.medians import Medians
from convoy.brain.models.startup.model import StartupModel
from convoy.brain.models.startup.table import ALLREDUCE, OF_SERVERS, TARGETS, jobs_of, latest_rows

GIB = float(2**30)
DAYS = pd.Timedelta(days=7)


class TemplateMedian(StartupModel):
    """The median of the job's template, else its image, user, strategy, of all jobs; features aren't read."""

    def fit(self, jobs: pd.DataFrame) -> Self:
        """Learn from jobs that are over, as ``StartupModel`` does."""
        self.medians_ = Medians(jobs_of(latest_rows(jobs), targets=True))
        return self


class AsAsked:
    """What users ask for: columns ``asked_workers``, ``asked_worker_cpu`` and so on of the job itself."""

    def fit(self, jobs: pd.DataFrame) -> Self:
        """Return itself: there is nothing to learn."""
        return self

    def recommend(self, jobs: pd.DataFrame) -> pd.DataFrame:
        """Return what was asked; NaN, and ``NotAsked`` as the reason, where nothing was."""
        asked = {f"asked_{name}": name for name in TARGETS}
        answer = jobs.reindex(columns=list(asked)).rename(columns=asked).astype("float64")
        for name in OF_SERVERS:
            answer.loc[jobs_of(jobs, targets=False).labels["strategy"] == ALLREDUCE, name] = 0.0
        known = jobs.reindex(columns=list(asked)).notna().any(axis=1)
        return answer.assign(reason=np.where(known, "AsAsked", "NotAsked"))


class DlroverRules:
    """DLRover's rules for a job that begins, from the jobs of its template that ended within 7 days before the last.

    From its Brain's ``OptimizeJobPSCreateResource``, ``OptimizeJobPSColdCreateResource`` and
    ``OptimizeJobWorkerCreateResource``. Its scenario of a job is the template here, and a job's use is one number, so
    there are no moments of it to cluster. ``ps_cpu_used`` and the like count where a frame has them, else what was
    allotted. One worker, always: the rest is left to scaling.
    """

    def __init__(self) -> None:
        self.history_ = pd.DataFrame()

    def fit(self, jobs: pd.DataFrame) -> Self:
        """Keep the jobs that count."""
        rows = latest_rows(jobs)
        if len(rows) and "completed_at" in rows.columns:
            ended = pd.to_datetime(rows["completed_at"], utc=True)
            rows = rows[~(ended < ended.max() - DAYS)]
        targets = jobs_of(rows, targets=True).targets
        history = pd.DataFrame(targets, index=rows.index).assign(template=rows.get("template", ""))
        for name in TARGETS:
            if f"{name}_used" in rows.columns:
                history[name] = pd.to_numeric(rows[f"{name}_used"], errors="coerce").fillna(history[name])
        self.history_ = history
        return self

    def recommend(self, jobs: pd.DataFrame) -> pd.DataFrame:
        """Return what the rules give; the reason is ``History`` or, where the template is new, ``Cold``."""
        asked = jobs_of(jobs, targets=False)
        rows = []
        for template, strategy in zip(asked.labels["template"], asked.labels["strategy"], strict=True):
            history = self.history_
            same = history[history["template"] == template] if len(history) and template else history.iloc[:0]
            answer = {**_worker(same), **_servers(same)}
            if strategy == ALLREDUCE:
                answer |= dict.fromkeys(OF_SERVERS, 0.0)
            rows.append({**answer, "reason": "History" if len(same) else "Cold"})
        return pd.DataFrame(rows, index=jobs.index, columns=[*TARGETS, "reason"])


def _worker(jobs: pd.DataFrame) -> dict[str, float]:
    cpu, memory = _most(jobs, "worker_cpu"), _most(jobs, "worker_memory")
    return {
        "workers": 1.0,
        "worker_cpu": max(np.ceil(cpu), 12.0) if np.isfinite(cpu) else 12.0,
        "worker_memory": max(memory * 1.5, 16 * GIB) if np.isfinite(memory) else 16 * GIB,
    }


def _servers(jobs: pd.DataFrame) -> dict[str, float]:
    known = jobs.dropna(subset=list(OF_SERVERS)) if len(jobs) else jobs
    if not len(known):
        return {"ps": 4.0, "ps_cpu": 12.0, "ps_memory": 16 * GIB}
    cpu = float(known["ps_cpu"].max()) + 4.0
    total = float((known["ps"] * known["ps_cpu"]).mean()) * 1.5
    number = min(float(np.ceil(total / cpu)), 15.0)
    of_job = float((known["ps"] * known["ps_memory"]).max())
    return {"ps": number, "ps_cpu": cpu, "ps_memory": max(float(known["ps_memory"].max()), of_job / number) * 1.2}


def _most(jobs: pd.DataFrame, name: str) -> float:
    return float(jobs[name].max()) if len(jobs) else np.nan
