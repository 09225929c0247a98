"""The claims of a run, each judged from its evidence alone. Pure: evidence in, verdicts out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from convoy.cli.demo.verify import sizing, training
from convoy.cli.demo.verify.evidence import Evidence
from convoy.cli.demo.verify.verdict import Finding, Unfounded, Verdict


class Claim(NamedTuple):
    """One claim: in words, how it is checked, and in which forms of the run it is judged."""

    text: str
    check: Callable[[Evidence], Finding]
    speed: bool = False  # about speed: not judged in the quick form
    node: bool = False  # about the killed node: the quick form kills none


CLAIMS = (
    Claim("The Brain's store held a history, marked as imported", sizing.history_was_there),
    Claim("The job began at the wrong size", sizing.started_wrong),
    Claim("Node load reached the store", sizing.load_arrived),
    Claim("Training speed reached the store, as the processes logged it", sizing.speed_arrived),
    Claim("The Brain recommended first: interval, price, reason", sizing.recommended_first),
    Claim("The operator carried the plan out", sizing.carried_out),
    Claim("No step was repeated where the size changed", training.repeated_nothing),
    Claim("The global batch stayed what it was at every step", training.kept_global_batch),
    Claim("The realized speed is inside the predicted 99 % interval", sizing.kept_its_word, speed=True),
    Claim("The chosen size is within 15 % of the best", sizing.chose_well, speed=True),
    Claim("A killed worker cost at most the steps since the checkpoint", training.survived_worker),
    Claim("A killed node cost at most the steps since the checkpoint", training.survived_node, node=True),
    Claim("A killed master stopped no worker", training.survived_master),
    Claim("Restarts were counted for workers and nodes alone", training.restarts_add_up),
    Claim("Without a master, no gap over twice the usual longest", training.missed_no_master, speed=True),
    Claim("The job ended Succeeded", training.succeeded),
)


def judge(evidence: Evidence) -> list[Verdict]:
    """Judge all claims, in the order in which things happened."""
    return [_judge(claim, evidence) for claim in CLAIMS]


def _judge(claim: Claim, evidence: Evidence) -> Verdict:
    if evidence.quick and (claim.speed or claim.node):
        return Verdict(claim.text, None, "not judged in the quick form", "")
    try:
        found = claim.check(evidence)
    except Unfounded as error:
        return Verdict(claim.text, False, str(error), "")
    return Verdict(claim.text, found.holds, found.facts, found.evidence)
