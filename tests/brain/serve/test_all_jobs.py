"""What is asked about all jobs together, on each kind of database: goodput, quotas, priorities, refusals, holds."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from convoy.brain.features.given import Given
from convoy.brain.models.efficiency import EfficiencyModel
from convoy.brain.plan.cluster import Pool, Quota, plan_cluster
from convoy.brain.plan.cluster.valued import Currency
from convoy.brain.serve.advise import Adviser
from convoy.brain.serve.all_jobs import Models, asked_of
from convoy.brain.settings import BrainSettings
from convoy.brain.store import jobs as job_rows
from convoy.brain.store.engine import writing
from convoy.core.process.clock import SystemClock
from support.known_speeds import KnownSpeeds
from support.live_jobs import MACHINE, put
from support.stored import START, Stored

SPEEDS = KnownSpeeds(lambda row: 1000.0 * row["workers"] ** 0.9)
NOW = datetime.now(UTC)


@pytest.fixture
def stored(engine):
    return Stored(engine)


@pytest.fixture
def machines(stored):
    return [stored.machine(name, "default", **MACHINE) for name in ("m-1", "m-2")]


class Plan:
    """A question and its answer, by job."""

    def __init__(self, engine, home, models=None, given=None, **settings):
        clock, loaded = SystemClock(), BrainSettings.load(models_dir=home / "models", **settings)
        models = models or Models(SPEEDS, EfficiencyModel(), "store")
        self.asked = asked_of(engine, clock, loaded, Adviser(engine, clock, loaded), given=given, models=models)
        self.plan = plan_cluster(self.asked.jobs, self.asked.capacity)
        self.jobs = {job.name: job for job in self.asked.jobs}
        self.answers = {one.name: one for one in self.plan.jobs}
        names = [job.name for job in self.asked.jobs]
        self.currencies = dict(zip(names, self.asked.currencies, strict=True))


@pytest.fixture
def plan(engine, home):
    return lambda **more: Plan(engine, home, **more)


GROWS = {"global_batch": 0}
QUIET, NOISY = (1.0, 1.0), (1.0, 1e7)


def test_a_job_whose_larger_batches_are_worth_little_gets_less_than_its_speed_asks_for(stored, machines, plan):
    put(stored, "quiet", 1, machines[0], noise=QUIET, limits=GROWS)
    put(stored, "silent", 1, machines[1], limits=GROWS)
    found = plan()
    assert found.currencies == {"quiet": Currency("goodput"), "silent": Currency("throughput", "NotReported")}
    quiet, silent = found.answers["quiet"], found.answers["silent"]
    assert (quiet.decision, quiet.workers) == ("KEEP", 1)
    assert silent.workers > 1
    sizes = found.jobs["quiet"].sizes
    assert sizes.speed[:4].tolist() == pytest.approx([1000.0 * n**0.9 for n in (1, 2, 3, 4)])
    assert (sizes.goodput[1:] < 0.6 * sizes.speed[1:]).all()
    assert sizes.goodput[0] == pytest.approx(sizes.speed[0])
    assert "which count as" in quiet.message
    silents = found.jobs["silent"].sizes
    assert silents.goodput.tolist() == silents.speed.tolist()


def test_a_job_all_noise_is_worth_its_speed(stored, machines, plan):
    put(stored, "noisy", 1, machines[0], noise=NOISY, limits=GROWS)
    found = plan()
    assert found.currencies["noisy"] == Currency("goodput")
    assert found.answers["noisy"].workers == 8
    sizes = found.jobs["noisy"].sizes
    assert sizes.goodput.tolist() == pytest.approx(sizes.speed.tolist(), rel=0.01)


def test_a_batch_that_may_be_raised_is_where_that_is_worth_more(stored, machines, plan):
    asked, limits = {"adjustable": ["workers", "batch"]}, {"max_batch": 1024}
    put(stored, "noisy", 1, machines[0], noise=NOISY, asked=asked, limits=limits)
    put(stored, "quiet", 1, machines[1], noise=QUIET, asked=asked, limits=limits)
    by_batch = KnownSpeeds(lambda row: 1000.0 * row["workers"] ** 0.2 * row["batch_size"] ** 0.5)
    found = plan(models=Models(by_batch, EfficiencyModel(), "store"))
    assert found.answers["noisy"].batch == 1024
    assert "with a batch of 1024" in found.answers["noisy"].message
    assert found.answers["quiet"].batch == 0
    present = found.jobs["noisy"]
    assert (present.sizes.workers[present.current], present.sizes.batch[present.current]) == (1, 0)


def test_without_a_model_of_efficiency_speed_counts_and_it_is_said(stored, machines, plan):
    put(stored, "one", 1, machines[0], noise=QUIET)
    assert plan(models=Models(SPEEDS, None, "store")).currencies["one"] == Currency("throughput", "NoEfficiencyModel")

    class Broken(EfficiencyModel):
        def predict(self, observed, query, level=0.9):
            raise ZeroDivisionError("efficiency")

    found = plan(models=Models(SPEEDS, Broken(), "store"))
    assert found.currencies["one"] == Currency("throughput", "EfficiencyFailed")
    assert found.answers["one"].workers == 8


def test_without_a_model_of_speeds_all_keep_what_they_have_and_it_is_said(stored, machines, plan):
    put(stored, "one", 2, machines[0])
    put(stored, "queued", 0, None, stage="START", state="Waiting")
    found = plan(models=Models(None, None, "nothing", problem="the model failed (ValueError: x)"))
    assert (found.plan.decided, found.plan.reason) == (False, "NothingKnown")
    assert [(one.decision.value, one.workers) for one in found.plan.jobs] == [("KEEP", 2), ("WAIT", 0)]
    assert found.asked.notes == ("no speeds: the model failed (ValueError: x)",)
    assert found.currencies["one"].reason == "ModelFailed"


def test_quotas_of_users_and_namespaces_hold_and_have_a_price(stored, machines, plan):
    for place in range(2):
        put(stored, f"hers-{place}", 1, machines[place], user="ada")
        put(stored, f"his-{place}", 1, machines[place], user="bob", namespace="research")
    given = Given(quotas=(Quota("ada", 3.0), Quota("", 4.0, namespace="research")))
    found = plan(given=given)
    workers = {name: one.workers for name, one in found.answers.items()}
    assert workers["hers-0"] + workers["hers-1"] == 3
    assert workers["his-0"] + workers["his-1"] == 4
    scarce = {(one.user, one.namespace): one.price for one in found.plan.prices if one.price > 0}
    assert set(scarce) == {("ada", ""), ("", "research")}
    verdicts = {one.workers: one.verdict for one in found.plan.weighed("his-0")}
    assert [verdicts[count] for count in (5, 6, 7, 8)] == ["OverQuota"] * 4


def test_pools_of_a_file_are_a_what_if_and_quotas_alone_leave_the_machines(stored, machines, plan):
    put(stored, "one", 1, machines[0])
    alone = plan(given=Given(quotas=(Quota("ada", 2.0, pool="gone"),)))
    assert alone.asked.machines == {"p4": ("m-1", "m-2")}
    assert "no such pool" in alone.asked.notes[0]
    assert alone.jobs["one"].nodes == (0,)
    other = plan(given=Given((Pool("p4", 1, 4.0),)))
    assert (other.asked.machines, other.answers["one"].workers) == ({}, 4)


def test_shares_say_who_gets_more(stored, machines, plan):
    put(stored, "hers", 1, machines[0], user="ada")
    put(stored, "his", 1, machines[1], user="bob", namespace="research")
    even, hers = plan(), plan(given=Given(users={"ada": 3.0}))
    his = plan(given=Given(namespaces={"research": 3.0}))
    assert [one.answers["hers"].workers for one in (his, even, hers)] == [2, 4, 6]


def test_priorities_order_jobs_whatever_their_numbers_are(engine, stored, machines, plan):
    numbers = [put(stored, name, 1, machines[0]) for name in ("low", "plain", "high")]
    with writing(engine) as connection:
        job_rows.set_priorities(connection, {numbers[0]: -5, numbers[2]: 1_000_000})
    found = plan()
    assert {name: job.priority for name, job in found.jobs.items()} == {"low": -1, "plain": 0, "high": 1}
    assert found.answers["high"].workers > found.answers["plain"].workers >= found.answers["low"].workers


def refused(stored, number, workers, at=NOW):
    decided = {"status": "refused", "decided_by": "ana", "decided_at": at, "decided_why": "too dear"}
    stored.recommendation(
        number, f"no-{number}-{workers}", workers=workers, made_at=START - timedelta(hours=1), **decided
    )


def test_a_size_that_a_person_refused_is_left_out(stored, machines, plan):
    number = put(stored, "one", 1, machines[0])
    refused(stored, number, 8)
    refused(stored, number, 7, NOW - timedelta(days=2))
    found = plan()
    one = found.answers["one"]
    assert one.workers == 7, "what was refused long ago isn't left out"
    assert "left out: 8 workers (ana refused that on" in one.message
    eight = next(size for size in found.plan.weighed("one") if size.workers == 8)
    assert (eight.verdict, "too dear" in eight.message) == ("Refused", True)


def test_what_a_job_has_is_kept_though_it_was_refused(stored, machines, plan):
    number = put(stored, "one", 4, machines[0], most=4)
    refused(stored, number, 4)
    assert (plan().answers["one"].workers, plan().jobs["one"].refused) == (4, {})


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"pinned": True}, "Pinned"),
        ({"frozen_until": NOW.timestamp() + 3600.0}, "Frozen"),
        ({"frozen_until": NOW.timestamp() - 60.0}, "Grows"),
    ],
)
def test_who_is_pinned_or_frozen_now_is_left_as_it_is(stored, machines, plan, asked, reason):
    put(stored, "one", 1, machines[0], asked=asked)
    one = plan().answers["one"]
    assert (one.reason, one.workers) == (reason, 8 if reason == "Grows" else 1)


def test_who_was_changed_too_often_within_the_hour_is_left_as_it_is(stored, machines, plan):
    number = put(stored, "one", 1, machines[0])
    for place in range(2):
        stored.plan(number, f"plan-{place}", created_at=NOW - timedelta(minutes=5), workers_before=1, workers_after=2)
    one = plan(changes_per_hour=2).answers["one"]
    assert (one.decision, one.reason) == ("KEEP", "ChangedTooOften")
    assert "2 changes in the last hour" in one.message


def test_a_restart_costs_what_it_cost_and_accelerators_have_a_price(stored, machines, plan):
    number = put(stored, "one", 1, machines[0])
    for place, seconds in enumerate((10.0, 20.0, 90.0)):
        stored.plan(number, f"plan-{place}", restart_seconds=seconds)
    job = plan(price_accelerator_hour=7.0).jobs["one"]
    assert job.restart_seconds == 20.0
    assert job.sizes.price_per_hour[0] == pytest.approx(7.0 + 4 * 0.04 + 8 * 0.005)


def test_what_is_rejected_is_told_with_its_numbers(stored, machines, plan):
    put(stored, "one", 1, machines[0])
    put(stored, "two", 1, machines[1], user="bob")
    found = plan()
    for one in found.plan.jobs:
        assert "next best is" in one.message
        assert one.instead is not None
        assert math.isfinite(one.instead.value)
        for size in found.plan.weighed(one.name):
            assert size.message


def test_a_job_whose_last_question_cannot_be_read_keeps_what_it_has_and_holds_it(stored, machines, plan):
    number = put(stored, "odd", 3, machines[0])
    stored.recommendation(number, "later", made_at=NOW, request={"current": {"workers": "many"}})
    put(stored, "one", 1, machines[1])
    found = plan()
    odd = found.answers["odd"]
    assert (odd.decision, odd.reason, odd.workers) == ("KEEP", "SpeedUnknown", 3)
    assert found.answers["one"].workers == 5
    assert str(found.currencies["odd"]) == "nothing (ModelFailed)"
