"""The numbers that the master's decisions go by; times in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """Deadlines, patience and limits.

    Attributes:
        heartbeat: at most so long between two reports of an agent.
        heartbeat_deadline: an agent that is silent for longer is lost.
        return_deadline: the same, after the master itself was replaced.
        arrival_deadline: a pod that runs for so long without its agent registering is lost.
        settle: how long a forming round waits for nodes that may still come, once enough have joined.
        first_settle: the same for a job's first round, whose pods start all at once.
        leave_patience: how long a forming round waits for a member that was told to abort.
        yield_patience: the same for one that was told to yield: a step, and saving it.
        drain_deadline: a node that is no longer wanted is removed after so long even if it hasn't left.
        progress_seconds: a round that lasted so long counts as progress even if it finished no new step.
        unmeasured_seconds: the same where no step was ever reported; after so long that nothing is measured is said.
        backoff_first, backoff_most: delay of a round after the first fault without progress; doubles up to the most.
        hopeless_budgets: restart budgets that faults without any progress may use up before the job fails.
        certain_within: a signal or a lost node within so long of an exit status takes the blame over.
        start_answer: how long to wait for the Brain before starting at the size that the spec gives.
        ask_every: pace of questions to the Brain; ask_slowly after a change was carried out or nothing was to change.
        windows_before_asking: windows after warm-up at the present size that a question needs.
        windows_to_judge: windows after warm-up on which a change is judged; so many in a row must find it worse.
        windows_to_close: windows after which a change that did no harm is no longer watched.
        worse_by: part of the earlier speed that must be lost where nothing was predicted: one size on other machines
            differs by up to a tenth.
        rejected_for: how long a size that was rolled back is remembered.
        trial_deadline: a change that didn't come about for so long is taken back.
        plan_backoff_most: longest pause after plans that failed.
    """

    heartbeat: float = 3.0
    heartbeat_deadline: float = 15.0
    return_deadline: float = 30.0
    arrival_deadline: float = 180.0
    settle: float = 3.0
    first_settle: float = 10.0
    leave_patience: float = 30.0
    yield_patience: float = 120.0
    drain_deadline: float = 150.0
    progress_seconds: float = 60.0
    unmeasured_seconds: float = 30.0
    backoff_first: float = 0.5
    backoff_most: float = 15.0
    hopeless_budgets: int = 2
    certain_within: float = 5.0
    start_answer: float = 5.0
    ask_every: float = 3.0
    ask_slowly: float = 15.0
    windows_before_asking: int = 3
    windows_to_judge: int = 2
    windows_to_close: int = 5
    worse_by: float = 0.15
    rejected_for: float = 3600.0
    trial_deadline: float = 300.0
    plan_backoff_most: float = 30.0
