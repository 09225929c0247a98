"""Whether the job tells how fast it trains: one that doesn't can't be sized, and its user is told so once."""

from __future__ import annotations

from convoy.master.decide import rounds
from convoy.master.decide.draft import Draft


def advance(draft: Draft) -> None:
    """Say once that nothing is measured, when a round of a job that the Brain is to size has run for long enough."""
    job, live = draft.job, draft.live
    if job.unmeasured or job.verdict is not None or live.windows or live.step >= 0 or not rounds.all_run(draft):
        return
    facts, lasted = draft.state.facts, draft.now - draft.round.completed_at
    if facts.automatic and facts.brain and lasted >= draft.policy.unmeasured_seconds:
        draft.set_job(unmeasured=True)
        draft.say(
            "NothingMeasured",
            f"the script reports no steps ({lasted:.0f} s into the round), so its speed isn't known and the Brain "
            "can't size it; use convoy.trainer (examples/digits.py)",
            seconds=lasted,
        )
