"""What came of a change of size: when it came about, what it cost, what it brought, whether it is taken back."""

from __future__ import annotations

from dataclasses import replace

from convoy.master.decide import rounds, scaling
from convoy.master.decide.actions import RecordPlan
from convoy.master.decide.draft import Draft
from convoy.master.decide.policy import Policy
from convoy.master.decide.state import RoundState, Trial, Window
from convoy.master.decide.wording import counted


def advance(draft: Draft) -> None:
    """Notice that the change under watch came about, or that it doesn't."""
    trial = draft.job.trial
    if trial is None or draft.job.verdict is not None:
        return
    if not trial.carried_out:
        if _came_about(draft, trial):
            _carried_out(draft, trial)
        elif draft.now - trial.created_at > draft.policy.trial_deadline and draft.job.plan is None:
            _never_came(draft, trial)
        return
    if is_worse(trial, draft.policy) and trial.reversible and scaling.is_steady(draft):
        realized = trial.samples / trial.seconds
        draft.say(
            "PlanMadeWorse",
            f"{trial.plan} brought {realized:.1f} samples/s; {trial.speed_before:.1f} were had before, at least "
            f"{trial.cause.lower:.1f} predicted",
            plan=trial.plan,
            realized=realized,
            before=trial.speed_before,
            lower=trial.cause.lower,
            windows=trial.windows,
        )
        scaling.take_back(
            draft, trial, "RolledBack", f"{counted(trial.after, 'node')} gave less speed than {trial.before}"
        )


def on_windows(draft: Draft, windows: tuple[Window, ...]) -> None:
    """Count windows after warm-up at the new size; report the first verdict and the last."""
    for window in windows:
        trial = draft.job.trial
        if trial is None or not trial.carried_out or window.warming:
            continue
        if window.nodes != trial.after or window.round < trial.first_round:
            continue
        policy = draft.policy
        trial = measured(trial, window, policy)
        draft.set_job(trial=trial)
        if trial.windows < policy.windows_to_judge:
            continue
        if trial.windows in (policy.windows_to_judge, policy.windows_to_close):
            _report(draft, trial)
        if trial.windows >= policy.windows_to_close and not (is_worse(trial, policy) and trial.reversible):
            draft.set_job(trial=None)


def _came_about(draft: Draft, trial: Trial) -> bool:
    round_ = draft.round
    size = len(round_.members)
    if round_.state is not RoundState.ACTIVE or not (size == trial.after or trial.after - draft.state.unit < size):
        return False
    if size > trial.after or not rounds.all_run(draft):
        return False
    return draft.live.step < 0 or draft.live.step > round_.step


def _carried_out(draft: Draft, trial: Trial) -> None:
    first = draft.live.step_at or draft.now
    cost = max(0.0, first - trial.left_at) if trial.left_at else 0.0
    trial = replace(trial, carried_out=draft.now, first_round=draft.round.number, restart_seconds=cost)
    draft.set_job(trial=trial, restart_seconds=cost or draft.job.restart_seconds)
    draft.act(RecordPlan(trial))
    draft.say(
        "ChangeCameAbout",
        f"{trial.plan}: training with {counted(trial.after, 'node')}, {cost:.1f} s after the last step "
        f"with {trial.before}",
        plan=trial.plan,
        restart_seconds=cost,
    )


def _never_came(draft: Draft, trial: Trial) -> None:
    waited = f"{trial.plan} didn't come about within {draft.policy.trial_deadline:g} s"
    if trial.rolls_back or trial.after < trial.before:
        draft.set_job(trial=None)
        draft.say("ChangeGivenUp", f"{waited}; it is no longer watched", plan=trial.plan)
        return
    draft.say("ChangeGivenUp", waited, plan=trial.plan)
    scaling.take_back(draft, trial, "ChangeGivenUp", waited)


def measured(trial: Trial, window: Window, policy: Policy) -> Trial:
    """Return the trial with one more window after warm-up."""
    samples, seconds = trial.samples + window.samples, trial.seconds + window.seconds
    before, least = trial.speed_before, trial.cause.lower
    bound = min(before, least) if least > 0 else before * (1 - policy.worse_by)
    worse = trial.worse + 1 if samples / seconds < bound else 0
    return replace(trial, samples=samples, seconds=seconds, windows=trial.windows + 1, worse=worse)


def is_worse(trial: Trial, policy: Policy) -> bool:
    """Whether the mean was below the speed before and below what was predicted at least, windows in a row."""
    return trial.worse >= policy.windows_to_judge


def _report(draft: Draft, trial: Trial) -> None:
    realized = trial.samples / trial.seconds
    draft.act(RecordPlan(trial))
    predicted = f", {trial.cause.predicted:.1f} were predicted" if trial.cause.predicted else ""
    draft.say(
        "PlanRealized",
        f"{trial.plan}: {realized:.1f} samples/s with {counted(trial.after, 'node')}{predicted}",
        plan=trial.plan,
        realized=realized,
        predicted=trial.cause.predicted,
        lower=trial.cause.lower,
        upper=trial.cause.upper,
        before=trial.speed_before,
        windows=trial.windows,
    )
