"""Memory models are tested on the last day of containers that they weren't fitted to."""

import numpy as np
import pandas as pd
import pytest

from convoy.brain.models.registry.memory_trial import LEVEL, RATE, memory_trial

GIB = 2.0**30


def usage(containers=20, days=4, oom=False):
    times = pd.date_range("2026-01-01", periods=24 * days, freq="h", tz="UTC")
    parts = []
    for number in range(containers):
        used = np.full(len(times), (1.0 + number) * GIB)
        part = pd.DataFrame({"container": f"pod-{number}", "time": times, "used_bytes": used, "oom": False})
        part.loc[part.index[-1], "used_bytes"] *= 1.2
        part.loc[part.index[-1], "oom"] = oom
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


class Times:
    """The largest ever, times a factor; says what it was fitted to and shown."""

    factor = 1.3
    seen = ()

    def fit(self, usage):
        self.fitted = set(usage["container"])
        return self

    def recommend(self, usage, oom_rate=0.01, horizon=None):
        Times.seen = (*Times.seen, (self.fitted, set(usage["container"]), usage["time"].max()))
        assert oom_rate == RATE
        largest = usage.groupby("container")["used_bytes"].max() * self.factor
        return largest.rename("limit_bytes").reset_index()


class Tight(Times):
    factor = 1.1


def test_limits_are_judged_as_quantiles_on_a_day_that_nobody_saw():
    Times.seen = ()
    enough, tight = memory_trial(Times, usage(), "enough"), memory_trial(Tight, usage(), "tight")
    assert len(enough.scores) == 20
    assert all(not fitted & asked for fitted, asked, _ in Times.seen)
    assert max(last for *_, last in Times.seen) == pd.Timestamp("2026-01-03T23:00", tz="UTC")
    assert enough.comparable(tight)
    assert (enough.coverage().estimate, tight.coverage().estimate) == (1.0, 0.0)
    assert enough.scores[0].error == pytest.approx(np.log(1.3 / 1.2))
    assert tight.scores[0].error == pytest.approx(np.log(1.2 / 1.1) * LEVEL / RATE)


def test_a_kill_at_the_limit_isnt_held():
    class Exact(Times):
        factor = 1.2

    assert memory_trial(Exact, usage(), "exact").coverage().estimate == 1.0
    assert memory_trial(Exact, usage(oom=True), "exact").coverage().estimate == 0.0


def test_containers_of_a_day_and_an_empty_frame_have_no_test():
    assert memory_trial(Times, usage(days=1), "short").scores == ()
    assert memory_trial(Times, usage().iloc[:0], "empty").scores == ()
