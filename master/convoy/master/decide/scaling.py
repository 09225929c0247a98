"""How large the job should be: when to ask the Brain, what to make of its answers and of people's plans.

Whether a change pays, and how many an hour a job may see, is the Brain's to judge; the master carries out what
differs from the present size, while nothing else is under way, and never a size that was rolled back lately.
"""

from __future__ import annotations

from dataclasses import replace

from convoy.core.api import names
from convoy.core.api.job import OptimizeMode
from convoy.master.decide import rounds, speed
from convoy.master.decide.actions import AnswerManualPlan, AskBrain, RecordPlan
from convoy.master.decide.draft import Draft
from convoy.master.decide.events import BrainAnswered, BrainSilent, JobObserved, ManualPlanObserved
from convoy.master.decide.state import Advice, Cause, NodeStatus, Trial
from convoy.master.decide.wording import counted

_REMEMBERED_PLANS = 32


def advance(draft: Draft) -> None:
    """Decide the first size; then ask the Brain when there is something to ask about."""
    if draft.job.verdict is not None:
        return
    if draft.state.facts.refusal:
        draft.finish(False, "NotSupported", f"{draft.state.facts.refusal}; correct the job's spec")
        return
    if draft.job.target == 0:
        _start(draft)
        return
    _follow_spec(draft)
    if draft.live.asking and draft.now - draft.live.asked_at > 3 * draft.policy.ask_slowly:
        draft.set_live(asking="")  # the answer was lost
    facts = draft.state.facts
    due = facts.automatic and facts.brain and not draft.live.asking and draft.now >= draft.live.ask_after
    watched = draft.job.trial is not None and draft.job.trial.windows < draft.policy.windows_to_judge
    if not due or watched or not is_steady(draft):
        return
    if len(speed.settled(draft, len(draft.round.members))) >= draft.policy.windows_before_asking:
        _ask(draft, "RUNNING", len(draft.round.members))


def is_steady(draft: Draft) -> bool:
    """Whether the job trains at its target size, with nothing missing and nothing under way."""
    job = draft.job
    if job.plan is not None or job.verdict is not None or not rounds.all_run(draft):
        return False
    ranks = set(range(job.target))
    return (
        set(job.nodes) == ranks
        and all(node.status is NodeStatus.LIVE for node in job.nodes.values())
        and (set(draft.round.ranks) == ranks or len(draft.round.members) + draft.state.unit > job.target)
    )


def set_target(draft: Draft, size: int, cause: Cause, *, reversible: bool, rolls_back: bool = False) -> None:
    """Have the job become ``size`` nodes. Nodes beyond leave; how the change fares is watched."""
    before = draft.job.target
    for rank, node in sorted(draft.job.nodes.items()):
        if rank >= size and node.status is not NodeStatus.LEAVING:
            draft.set_node(rank, status=NodeStatus.LEAVING)
            if node.status is NodeStatus.LOST:
                draft.set_node(rank, incarnation=0)
    trial = Trial(
        plan=names.scale_plan(draft.state.facts.name, draft.job.next_plan),
        cause=cause,
        created_at=draft.now,
        before=before,
        after=size,
        speed_before=speed.mean(speed.settled(draft, before)),
        reversible=reversible,
        rolls_back=rolls_back,
    )
    if before:
        draft.set_job(trial=trial, next_plan=draft.job.next_plan + 1)
        draft.act(RecordPlan(trial))
    draft.set_job(target=size, cause=cause)
    draft.say(
        "TargetChanged",
        f"from {counted(before, 'node')} to {size}: {cause.reason}: {cause.message}",
        before=before,
        after=size,
    )


def take_back(draft: Draft, trial: Trial, reason: str, message: str) -> None:
    """Return to the size before a change, and remember that size."""
    until = draft.now + draft.policy.rejected_for
    draft.set_job(trial=None, rejected={**draft.job.rejected, trial.after: until})
    draft.act(RecordPlan(trial, rolled_back=True))
    cause = Cause(reason, f"{message}; back to {counted(trial.before, 'node')}")
    set_target(draft, trial.before, cause, reversible=False, rolls_back=True)


def on_job(draft: Draft, event: JobObserved) -> None:
    """The ElasticJob, as it is now."""
    if draft.state.facts != event.facts:
        draft.state = replace(draft.state, facts=event.facts)


def on_manual_plan(draft: Draft, event: ManualPlanObserved) -> None:
    """A person's plan: made exact at once, or, while nodes are on their way, when the way is free.

    A recommendation that was accepted is watched as the Brain's other changes are, and taken back where it made
    things worse; a person's own plan isn't.
    """
    if draft.job.verdict is not None:
        return
    if event.uid in draft.job.manual_plans:  # the answer was decided and didn't get through
        draft.act(AnswerManualPlan(event.name, True, "MadeExact", f"{event.name} was carried out"))
        return
    problem = event.problem or _problem(draft, event.replicas) or _problem_of_advice(draft, event)
    if problem:
        draft.act(AnswerManualPlan(event.name, False, "InvalidPlan", problem))
        return
    if not _is_free(draft) or draft.job.target == 0:
        return
    if event.replicas == draft.job.target:
        draft.act(AnswerManualPlan(event.name, True, "NothingToDo", f"the job has {counted(event.replicas, 'node')}"))
    else:
        message = f"{event.name} asks for {counted(event.replicas, 'node')}"
        cause = event.advice or Cause("ManualPlan", message)
        set_target(draft, event.replicas, cause, reversible=event.advice is not None)
        exact = draft.job.trial.plan if draft.job.trial else ""
        draft.act(AnswerManualPlan(event.name, True, "MadeExact", f"carried out by {exact}"))
    seen = (*draft.job.manual_plans, event.uid)[-_REMEMBERED_PLANS:]
    draft.set_job(manual_plans=seen)


def on_answer(draft: Draft, event: BrainAnswered) -> None:
    """The Brain's answer: carried out if it is a change that may be, noted in any case."""
    advice = event.advice
    said = draft.live.advice
    draft.set_live(asking="", advice=advice)
    decision, cause, source = advice.decision, advice.cause, advice.cause.recommendation
    if said is None or (said.decision, said.cause.reason, said.workers) != (decision, cause.reason, advice.workers):
        text = f"the Brain says {decision}: {cause.message}"
        draft.say(
            cause.reason,
            text,
            decision=decision,
            workers=advice.workers,
            predicted=cause.predicted,
            recommendation=source,
        )
    if draft.job.verdict is not None:
        return
    if advice.loaders not in (None, draft.job.loaders):  # between two steps: nothing is in the way
        draft.set_job(loaders=advice.loaders)
        draft.say("LoadersChanged", advice.loaders_message, loaders=advice.loaders, recommendation=source)
    if draft.job.target == 0:
        _first_size(draft, 0 if decision == "UNDEFINED" else advice.workers, cause)
        return
    slowly = decision in ("KEEP", "UNDEFINED")
    draft.set_live(ask_after=draft.now + (draft.policy.ask_slowly if slowly else draft.policy.ask_every))
    if slowly or advice.workers == draft.job.target:
        return
    obstacle = _obstacle(draft, advice, event.capacity)
    if obstacle is not None:
        if draft.live.obstacle != obstacle[0]:
            draft.say(*obstacle, workers=advice.workers, recommendation=source)
        draft.set_live(ask_after=draft.now + draft.policy.ask_slowly, obstacle=obstacle[0])
        return
    draft.set_live(obstacle="")
    if decision == "CHANGE":
        draft.set_live(ask_after=draft.now + draft.policy.ask_slowly)
    set_target(draft, advice.workers, cause, reversible=True)


def on_silence(draft: Draft, event: BrainSilent) -> None:
    """The Brain didn't answer: the job runs on; before the start, at the size that the spec gives."""
    draft.set_live(asking="", ask_after=draft.now + draft.policy.ask_every)
    if draft.job.target == 0 and draft.job.verdict is None:
        _first_size(draft, 0, Cause("BrainUnavailable", event.message))


def global_batch(draft: Draft) -> int:
    """Return the samples of one step, all workers together, by the last window; 0 where none was seen."""
    return draft.live.windows[-1].batch if draft.live.windows else 0


def single_job_notice(mode: OptimizeMode) -> str:
    """Return what to tell who asked for planning without a Brain; empty where nobody did."""
    if mode is not OptimizeMode.SINGLE_JOB:
        return ""
    return (
        "optimizeMode single-job keeps the size that was asked for: planning without a Brain isn't there yet; "
        "set optimizeMode: cluster to have the Brain size the job"
    )


def _problem(draft: Draft, replicas: int) -> str:
    worker = draft.state.facts.worker
    where = f"spec.replicaResourceSpecs.{names.WORKER}.replicas"
    if replicas < 1:
        return f"{where}: expected 1 or more, not {replicas}"
    if worker.max_replicas is not None and replicas > worker.max_replicas:
        return f"{where}: {replicas} is more than the job's maxReplicas {worker.max_replicas}"
    if worker.min_replicas is not None and replicas < worker.min_replicas:
        return f"{where}: {replicas} is less than the job's minReplicas {worker.min_replicas}"
    allowed = draft.state.facts.most_allowed
    if allowed is not None and replicas > allowed:
        return f"{where}: {replicas} is more than the {allowed} that the job's spec.resourceLimits allow"
    return ""


def _problem_of_advice(draft: Draft, event: ManualPlanObserved) -> str:
    if event.advice is None or draft.job.rejected.get(event.replicas, 0.0) <= draft.now:
        return ""
    return f"{counted(event.replicas, 'node')} made things worse and were taken back within the last hour"


def _follow_spec(draft: Draft) -> None:
    """Make the job as large as a person's change of ``replicas`` says, when the way is free."""
    wanted = draft.state.facts.worker.replicas or 0
    if not wanted or wanted == draft.job.asked_replicas or not _is_free(draft):
        return
    draft.set_job(asked_replicas=wanted)
    message = f"spec.replicaSpecs.worker.replicas is now {wanted}"
    allowed = draft.state.facts.most_allowed
    if allowed is not None and wanted > allowed:
        wanted, message = max(1, allowed), f"{message}, of which spec.resourceLimits allow {allowed}"
    if wanted != draft.job.target:
        set_target(draft, wanted, Cause("ReplicasChanged", message), reversible=False)


def _start(draft: Draft) -> None:
    facts, live = draft.state.facts, draft.live
    if not live.pods_listed:
        return
    if facts.worker.replicas is None and facts.automatic and facts.brain:
        if not live.start_asked:
            draft.set_live(start_asked=True)
            _ask(draft, "START", 0)
            return
        if live.asking == "START" and draft.now - live.asked_at < draft.policy.start_answer:
            return
        _first_size(draft, 0, Cause("BrainUnavailable", "the Brain gave no answer before the start"))
        return
    _first_size(draft, 0, Cause("StartSize", "the size that the job's spec gives"))


def _first_size(draft: Draft, wanted: int, cause: Cause) -> None:
    fewest, most = draft.state.range()
    size = min(max(wanted or draft.state.facts.worker.replicas or fewest, fewest), most)
    draft.set_job(asked_replicas=draft.state.facts.worker.replicas or 0)
    set_target(draft, size, cause, reversible=False)


def _ask(draft: Draft, stage: str, workers: int) -> None:
    draft.set_live(asking=stage, asked_at=draft.now)
    draft.act(AskBrain(stage, workers, draft.job.restart_seconds, global_batch(draft)))


def _obstacle(draft: Draft, advice: Advice, capacity: int) -> tuple[str, str] | None:
    """Return why a recommendation isn't carried out, None where nothing is in the way."""
    fewest, most = draft.state.range()
    what = f"a change to {counted(advice.workers, 'node')} isn't carried out: "
    if draft.state.facts.pinned:
        return "Pinned", what + f"the job is pinned ({names.ANNOTATION_PIN})"
    if not is_steady(draft):
        return "NotNow", what + "a node is missing, or a plan is under way"
    if not fewest <= advice.workers <= most or (capacity and advice.workers > max(capacity, draft.job.target)):
        return "OutOfRange", what + f"the job may have {fewest} to {most}, and {capacity or 'any number'} fit"
    if advice.workers % draft.state.unit:
        return "NotAMultiple", what + f"its world is a multiple of {draft.state.unit}"
    if draft.job.rejected.get(advice.workers, 0.0) > draft.now:
        return "RolledBackBefore", what + "that size was rolled back within the last hour"
    return None


def _is_free(draft: Draft) -> bool:
    """Whether the target may change: no plan is under way and nobody is leaving."""
    nodes = draft.job.nodes.values()
    return draft.job.plan is None and not any(node.status is NodeStatus.LEAVING for node in nodes)
