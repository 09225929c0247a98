import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.models.backtest.startup import startup_backtest, startup_summary
from convoy.brain.models.startup import AsAsked, DlroverRules, StartupModel, TemplateMedian
from convoy.brain.models.startup.choice import folds
from convoy.brain.models.startup.table import TARGETS, jobs_of, latest_rows
from convoy.brain.models.state import State
from convoy.core.api.errors import CorruptState, InvalidInput

BENCHMARK = Path(__file__).resolve().parents[4] / "benchmarks" / "bench_startup_model.py"
GIB = float(2**30)


@pytest.fixture(scope="module")
def made():
    """The generator of made-up jobs: simulated truth."""
    found = importlib.util.spec_from_file_location("bench_startup_model", BENCHMARK)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.made_up_jobs


def unasked(jobs):
    return jobs.drop(columns=[name for name in jobs.columns if name.startswith("asked_")])


def job(name="new", **changes):
    row = {"job": name, "template": "t", "image": "i", "user": "u", "strategy": "ps"}
    return row | changes


def with_sizes(name, workers, **changes):
    sizes = {"workers": workers, "ps": 2, "worker_cpu": 2.0, "worker_memory": GIB, "ps_cpu": 1.0, "ps_memory": GIB}
    return job(name, **sizes | changes)


def errors(scores):
    return scores.assign(error=scores["log_error"].abs()).pivot_table(
        index="target", columns="method", values="error"
    )


def test_features_that_matter_are_learned_for_jobs_of_known_templates(made):
    found = errors(startup_backtest(unasked(made(120, seed=11)), "job"))
    ratio = found["startup"] / found["template_median"]
    assert np.exp(np.log(ratio).mean()) < 0.8
    assert (found["startup"] < 0.7 * found["dlrover"]).drop("ps").all()


def test_features_that_matter_are_learned_for_templates_that_were_never_seen(made):
    jobs = unasked(made(400, seed=12))
    new = (jobs["template"].str.removeprefix("template-").astype(int) % 4 == 0).to_numpy()
    asked = jobs[new].drop(columns=list(TARGETS))
    distance = {}
    for model in (StartupModel, TemplateMedian):
        answer = model().fit(jobs[~new]).recommend(asked)
        sizes = ["worker_memory", "ps_memory"]
        right = jobs.loc[new, sizes].where(lambda size: size > 0)
        distance[model] = np.abs(np.log(answer[sizes].where(right.notna()) / right)).mean()
    assert (distance[StartupModel] < 0.5 * distance[TemplateMedian]).all()


def test_where_features_do_not_matter_it_falls_back_and_errs_no_more_than_the_template_median(made):
    for seed in range(2):
        jobs = unasked(made(80, seed=seed, features=False))
        found = errors(startup_backtest(jobs, "job", {"startup": StartupModel, "template_median": TemplateMedian}))
        assert (found["startup"] <= 1.02 * found["template_median"]).all()
    answer = StartupModel().fit(jobs).recommend(jobs.iloc[:20])
    assert (answer["reason"] == "TemplateMedian").mean() > 0.5


def test_users_who_ask_for_more_than_they_need_are_known_by_it(made):
    found = errors(startup_backtest(made(80, seed=3), "job"))
    assert (found["startup"] < 0.5 * found["as_asked"]).all()


def test_a_learner_is_heeded_target_by_target(made):
    jobs = unasked(made(300, seed=1))
    jobs["worker_cpu"] = np.where(jobs["template"].str.len() % 2, 4.0, 8.0)  # its template alone says it
    sources = StartupModel().fit(jobs).sources(jobs.iloc[:50])
    assert (sources["worker_cpu"] == "TemplateMedian").all()
    assert (sources["worker_memory"] == "Learned").all()


def test_without_features_the_closest_that_is_known_answers():
    history = pd.DataFrame(
        [
            *(with_sizes(f"t{n}", workers) for n, workers in enumerate([2, 8, 8])),
            with_sizes("i0", 16, template="other"),
            with_sizes("u0", 32, template="other", image="other"),
            with_sizes("s0", 5, template="x", image="x", user="x"),
            with_sizes(
                "a0", 64, template="x", image="x", user="x", strategy="allreduce", ps=0, ps_cpu=0, ps_memory=0
            ),
        ]
    )
    model = StartupModel().fit(history)
    asked = pd.DataFrame(
        [
            job(),
            job(template="new", image="i"),
            job(template="new", image="new", user="x"),
            job(template=None, image="", user=np.nan),
            job(template="new", image="new", user="new", strategy="allreduce"),
            job(template="new", image="new", user="new", strategy=None),
        ],
        index=list("abcdef"),
    )
    answer = model.recommend(asked)
    assert list(answer.columns) == [*TARGETS, "reason"]
    assert answer.index.tolist() == list("abcdef")
    assert answer["workers"].tolist() == [8.0, 8.0, 5.0, 8.0, 64.0, 8.0]
    kinds = ["Template", "Image", "User", "Strategy", "Strategy", "Overall"]
    assert answer["reason"].tolist() == [f"{kind}Median" for kind in kinds]
    assert answer.loc["e", ["ps", "ps_cpu", "ps_memory"]].tolist() == [0.0, 0.0, 0.0]
    assert answer.loc["a", "ps"] == 2.0


def test_a_job_that_does_not_say_its_strategy_has_its_templates():
    history = pd.DataFrame([with_sizes(f"a{n}", 4, strategy="AllreduceStrategy", ps=np.nan) for n in range(3)])
    answer = StartupModel().fit(history).recommend(pd.DataFrame([job(strategy=None)]))
    assert answer[["workers", "ps", "ps_cpu"]].iloc[0].tolist() == [4.0, 0.0, 0.0]


def test_nothing_known_is_an_answer():
    model = StartupModel().fit(pd.DataFrame())
    answer = model.recommend(pd.DataFrame([job(), job(strategy="allreduce")]))
    assert answer["reason"].tolist() == ["NothingKnown", "NothingKnown"]
    assert answer.loc[0, list(TARGETS)].isna().all()
    assert answer["ps"].tolist()[1] == 0.0
    assert model.recommend(pd.DataFrame()).empty
    assert list(model.recommend(pd.DataFrame()).columns) == [*TARGETS, "reason"]
    assert StartupModel().recommend(pd.DataFrame([job()]))["reason"].tolist() == ["NothingKnown"]
    assert model.recommend(pd.DataFrame(index=[3, 4]))["reason"].tolist() == ["NothingKnown"] * 2


@pytest.mark.parametrize("value", [-1.0, np.inf, "many", 2e20])
def test_a_size_that_cannot_be_right_is_refused_by_name(value):
    history = pd.DataFrame([with_sizes("a", 2), with_sizes("b", 2, ps_memory=value)])
    with pytest.raises(InvalidInput, match=re.escape(f"ps_memory is {value} in row 1")):
        StartupModel().fit(history)


def test_the_last_row_of_a_job_counts_in_any_order(made):
    jobs = unasked(made(120, seed=2))
    before = jobs.assign(workers=99, completed_at=jobs["completed_at"] - pd.Timedelta(days=90))
    both = pd.concat([jobs, before])
    expected = StartupModel().fit(jobs).recommend(jobs.head(30))
    for seed in range(2):
        shuffled = both.sample(frac=1.0, random_state=seed)
        pd.testing.assert_frame_equal(StartupModel().fit(shuffled).recommend(jobs.head(30)), expected)


def test_moments_of_an_end_may_be_written_or_not():
    rows = pd.DataFrame([with_sizes("a", 2), with_sizes("a", 8), with_sizes("a", 4)])
    mixed = rows.assign(completed_at=["2026-01-02", pd.Timestamp("2026-01-03T00:00Z"), None])
    assert list(latest_rows(mixed)["workers"]) == [8]


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_text_is_no_number_in_any_storage(made, backend):
    jobs = made(40, seed=2).assign(dataset="digits")
    plain, stored = (jobs_of(rows, targets=True) for rows in (jobs, jobs.convert_dtypes(dtype_backend=backend)))
    assert plain.words
    assert sorted(plain.words) == sorted(stored.words)
    assert all(np.array_equal(plain.words[name], stored.words[name]) for name in plain.words)
    assert all(np.array_equal(plain.numbers[name], stored.numbers[name], equal_nan=True) for name in plain.numbers)


def test_what_only_a_finished_job_knows_is_no_feature(made):
    jobs = unasked(made(120, seed=2))
    telling = jobs.assign(worker_cpu_used=jobs["worker_cpu"], state="Succeeded", reason=jobs["worker_cpu"])
    expected = StartupModel().fit(jobs).recommend(jobs.head(30))
    pd.testing.assert_frame_equal(StartupModel().fit(telling).recommend(telling.head(30)), expected)


def test_features_may_be_missing_text_flags_or_far_from_all_that_was_seen(made):
    jobs = unasked(made(200, seed=4))
    generator = np.random.default_rng(0)
    jobs["framework"] = generator.choice(["torch", "tensorflow", None], len(jobs))
    jobs["mixed_precision"] = generator.random(len(jobs)) < 0.5
    jobs["delta"] = generator.normal(size=len(jobs))
    jobs.loc[jobs.index[::3], "batch_size"] = np.nan
    model = StartupModel().fit(jobs)
    asked = pd.DataFrame(
        [
            job(template=jobs["template"].iloc[0], model_parameters=value, batch_size=value, framework=7, delta="?")
            for value in (0.0, -5.0, 1e300, np.inf, np.nan, 1e-300)
        ]
    )
    numbers = model.recommend(asked)[list(TARGETS)].to_numpy(dtype=float)
    assert np.isfinite(numbers).all()
    for place, name in enumerate(TARGETS):
        seen = jobs[name][jobs[name] > 0]
        assert (numbers[:, place] <= 2.01 * seen.max() + 1).all()
        assert (numbers[:, place] >= 0.49 * seen.min()).all()
    missing = model.recommend(jobs[["template", "strategy"]].head(5))
    assert missing["workers"].notna().all()


@pytest.mark.parametrize("model", [StartupModel, TemplateMedian])
def test_a_restored_model_recommends_bit_for_bit(made, model):
    jobs = made(200, seed=5)
    fitted = model().fit(jobs.iloc[:150])
    state = fitted.state()
    document = json.loads(json.dumps(state.document))
    again = model.restored(State(document, {name: array.copy() for name, array in state.tensors.items()}))
    asked = jobs.iloc[140:].drop(columns=list(TARGETS))
    pd.testing.assert_frame_equal(again.recommend(asked), fitted.recommend(asked), check_exact=True)
    pd.testing.assert_frame_equal(again.sources(asked), fitted.sources(asked))
    assert model is TemplateMedian or "Learned" in set(fitted.recommend(asked)["reason"])
    document["kind"] = "Another"
    with pytest.raises(CorruptState, match="fit it again"):
        model.restored(State(document, state.tensors))
    short = {**state.tensors, "targets.ps": state.tensors["targets.ps"][:-1]}
    with pytest.raises(CorruptState, match="columns of"):
        model.restored(State({**document, "kind": model.__name__}, short))


def test_dlrovers_rules():
    history = pd.DataFrame(
        [
            with_sizes("a", 8, ps=4, ps_cpu=2.0, ps_memory=2 * GIB, worker_cpu=14.5, worker_memory=20 * GIB),
            with_sizes("b", 8, ps=8, ps_cpu=6.0, ps_memory=3 * GIB, worker_cpu=2.0, worker_memory=GIB),
            with_sizes("c", 8, ps=60, ps_cpu=60.0, completed_at=pd.Timestamp("2026-01-01", tz="UTC")),
        ]
    )
    history["completed_at"] = history["completed_at"].fillna(pd.Timestamp("2026-03-01", tz="UTC"))
    answer = DlroverRules().fit(history).recommend(pd.DataFrame([job(), job(template="new")]))
    servers = np.ceil((4 * 2 + 8 * 6) / 2 * 1.5 / (6 + 4))
    known = [1.0, servers, 15.0, 30 * GIB, 10.0, 24 * GIB / servers * 1.2]
    assert answer.iloc[0].tolist() == pytest.approx([*known, "History"])
    assert answer.iloc[1].tolist() == [1.0, 4.0, 12.0, 16 * GIB, 12.0, 16 * GIB, "Cold"]
    used = DlroverRules().fit(history.assign(worker_cpu_used=1.0)).recommend(pd.DataFrame([job()]))
    assert used["worker_cpu"].tolist() == [12.0]
    allreduce = DlroverRules().fit(pd.DataFrame()).recommend(pd.DataFrame([job(strategy="allreduce")]))
    assert allreduce[["workers", "ps", "ps_cpu", "ps_memory"]].iloc[0].tolist() == [1.0, 0.0, 0.0, 0.0]


def test_as_asked():
    asked = pd.DataFrame(
        [job(asked_workers=4, asked_ps=2), job(strategy="allreduce", asked_workers=3, asked_ps=9), job()]
    )
    answer = AsAsked().fit(asked).recommend(asked)
    assert answer["workers"].tolist()[:2] == [4.0, 3.0]
    assert answer["ps"].tolist()[:2] == [2.0, 0.0]
    assert answer["reason"].tolist() == ["AsAsked", "AsAsked", "NotAsked"]


def test_backtest_scores_what_was_not_seen(made):
    jobs = unasked(made(60, seed=6))
    scores = startup_backtest(jobs, "template", {"template_median": TemplateMedian})
    assert not scores["reason"].eq("TemplateMedian").any()
    assert scores.groupby("target")["job"].nunique()["workers"] == 60
    servers = (jobs["strategy"] == "ps").sum()
    assert scores.groupby("target")["job"].nunique()["ps"] == servers
    row = scores[scores["target"] == "worker_cpu"].iloc[0]
    assert row["log_error"] == pytest.approx(np.log(row["recommended"] / row["right"]))
    summary = startup_summary(startup_backtest(jobs.head(40))).set_index(["target", "method"])
    assert (summary.xs("template_median", level="method")["ratio"] == 1.0).all()
    one = summary.loc[("workers", "startup")]
    assert one["ratio_lower"] <= one["ratio"] <= one["ratio_upper"]
    with pytest.raises(InvalidInput, match="left_out is 'user'"):
        startup_backtest(jobs, "user")
    assert startup_backtest(jobs.iloc[:0]).empty


@given(
    groups=st.lists(st.sampled_from([f"g{n}" for n in range(60)]), min_size=1, max_size=200), seed=st.integers(0, 9)
)
def test_each_job_is_left_out_once_with_its_group_in_any_order(groups, seed):
    names = np.array(groups, dtype=object)
    masks = list(folds(names))
    assert (np.sum(masks, axis=0) == 1).all()
    for mask in masks:
        assert not set(names[mask]) & set(names[~mask])
    order = np.random.default_rng(seed).permutation(len(names))
    for mask, again in zip(masks, folds(names[order]), strict=True):
        assert (again == mask[order]).all()


LABEL = st.sampled_from(["a", "b", "c", "", None])


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                **dict.fromkeys(("template", "image", "user"), LABEL),
                "strategy": st.sampled_from(["ps", "allreduce", "", None, "other"]),
                **dict.fromkeys(TARGETS, st.one_of(st.just(np.nan), st.floats(0, 1e15))),
                "size": st.one_of(st.none(), st.floats(allow_nan=True)),
            }
        ),
        max_size=25,
    ),
    shown=st.integers(0, 25),
)
def test_whatever_is_known_answers_are_whole_positive_or_unknown_with_a_reason(rows, shown):
    frame = pd.DataFrame(rows, columns=["template", "image", "user", "strategy", *TARGETS, "size"])
    frame["job"] = [f"job-{n}" for n in range(len(frame))]
    answer = StartupModel().fit(frame.iloc[:shown]).recommend(frame)
    for name in TARGETS:
        values = answer[name].dropna()
        assert np.isfinite(values).all()
        assert (values >= 0).all()
        if name in ("workers", "ps"):
            assert (values == values.round()).all()
    assert (answer["workers"].dropna() >= 1).all()
    nothing = answer["reason"] == "NothingKnown"
    assert answer.loc[nothing, ["workers", "worker_cpu", "worker_memory"]].isna().all(axis=None)
    assert answer.loc[~nothing, list(TARGETS)].notna().any(axis=1).all()
    servers = answer.loc[frame["strategy"] == "allreduce", ["ps", "ps_cpu", "ps_memory"]]
    assert (servers == 0).all(axis=None)
