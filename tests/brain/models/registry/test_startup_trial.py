"""Start-up models are tested job by job, on jobs that they hadn't seen."""

import numpy as np
import pandas as pd

from convoy.brain.models.registry.promotion import Verdict, decide_first
from convoy.brain.models.registry.startup_trial import startup_trial
from convoy.brain.models.startup import DlroverRules, StartupModel


def past_jobs(count):
    generator = np.random.default_rng(0)
    template = generator.integers(0, 4, count)
    workers = 2.0 ** (template + 1)
    cores, memory = 1.0 + template, (2.0 + template) * 2**30 * np.exp(generator.normal(0.0, 0.05, count))
    return pd.DataFrame(
        {
            "job": [f"job-{number}" for number in range(count)],
            "template": [f"template-{number}" for number in template],
            "strategy": "allreduce",
            "workers": workers,
            "worker_cpu": cores,
            "worker_memory": memory,
        }
    )


def test_what_templates_teach_beats_rules():
    jobs = past_jobs(24)
    ours, rules = startup_trial(StartupModel, jobs, "candidate"), startup_trial(DlroverRules, jobs, "rules")
    assert len(ours.scores) == 24
    assert ours.comparable(rules)
    assert ours.coverage() is None
    assert ours.error().estimate < 0.1
    assert decide_first(ours, rules).verdict is Verdict.PROMOTE


def test_no_jobs_give_no_test():
    assert startup_trial(StartupModel, past_jobs(4).iloc[:0], "candidate").scores == ()
