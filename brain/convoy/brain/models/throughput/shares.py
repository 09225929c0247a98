"""What a step's time consists of: the share of each of the physics' terms, in groups that have one remedy each.

The seconds of a step are homogeneous of degree one in the seconds of its terms (``physics``), so by Euler's theorem

    share of term i = d log(step) / d log(seconds of i),        and all shares sum to 1

which says what people want to know of a term: by how many percent the step shortens if it becomes one percent
shorter. Of work that is hidden behind other work little shortens, and its share is small.

What crowding and missing cores stretch is divided: what would be left with enough cores, and what they add.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from convoy.brain.models.throughput.physics import (
    APPLY,
    CONNECT,
    LOCAL,
    LOCAL_STEP,
    NET,
    NET_STEP,
    OVERHEAD,
    PUSH,
    SAMPLE,
    SHARD,
    Array,
    Configurations,
    server_seconds,
    step_of,
)

GROUPS = {
    "compute": "computing",
    "cores": "too few cores",
    "synchronization": "synchronization",
    "servers": "parameter servers",
}
"""What can limit a job, in people's words. More servers help against ``servers`` and not against
``synchronization``; larger batches against both."""


@dataclass(frozen=True)
class Term:
    """One part of a step."""

    group: str
    words: str
    coefficient: int | None = None
    """Of ``physics``, whose seconds it is; None: what cores that are missing add."""


TERMS = {
    "samples": Term("compute", "computing on the samples of its batch", SAMPLE),
    "overhead": Term("compute", "fixed work of each step, whatever its batch", OVERHEAD),
    "crowding": Term("cores", "workers sharing the cores that there are"),
    "worker_cores": Term("cores", "fewer cores a worker than it would use"),
    "node_exchange": Term("synchronization", "gradients passed round within a node", LOCAL),
    "node_hops": Term("synchronization", "each further accelerator of a node that gradients pass", LOCAL_STEP),
    "network": Term("synchronization", "gradients passed between nodes", NET),
    "network_hops": Term("synchronization", "each further accelerator that gradients pass between nodes", NET_STEP),
    "traffic": Term("servers", "servers taking and giving what each worker exchanges", PUSH),
    "update": Term("servers", "servers' work of each step, however many the workers are", APPLY),
    "server_cores": Term("servers", "fewer cores a server than it would use"),
    "workers_wait": Term("synchronization", "what each worker adds, however many the servers are", CONNECT),
    "connections": Term("synchronization", "what each further server adds", SHARD),
}
"""The parts of a step: the one table of their names in people's words."""

UNDIVIDED = Term("compute", "computing; how much of it depends on the batch isn't known")
"""Stands for ``samples`` and ``overhead`` where nothing tells them apart."""

KNOWN_SD = 1.0
"""Standard deviation of the logarithm of a ratio up to which it counts as known."""

_MOVE = 1e-4
"""By which a logarithm is moved to see what follows."""


def shares_of(theta: Array, configurations: Configurations) -> dict[str, Array]:
    """Return the share of a step of each of ``TERMS``, (draws, n) each, summing to 1, for ``theta`` (draws, SIZE)."""
    found = {name: _elasticity(theta, configurations, term.coefficient) for name, term in TERMS.items()}
    enough = np.full(len(configurations), np.nan)
    alone = replace(configurations, cluster_cpu=np.full(len(configurations), np.inf))
    compute = [step_of(theta, one).compute for one in (configurations, alone, replace(alone, worker_cpu=enough))]
    found["crowding"], found["worker_cores"] = _added(found, ("samples", "overhead"), compute)
    served = configurations.ps > 0
    if served.any():
        unbound = replace(configurations, ps_cpu=enough)
        fixed = np.exp(theta[:, CONNECT, None]) * configurations.workers
        seconds = [server_seconds(theta, one) - fixed for one in (configurations, unbound)]
        (found["server_cores"],) = _added(
            found, ("traffic", "update"), [np.where(served, one, 1.0) for one in seconds]
        )
    total = np.sum(list(found.values()), axis=0)
    return {name: share / total for name, share in found.items()}


def doubted(shares: dict[str, Array], variance: Array, generator: np.random.Generator) -> dict[str, Array]:
    """Return the shares as they may be, given that the formula is off.

    By how much is known of a whole step alone (``variance`` of its logarithm, (draws,)), not in which of its parts.
    If each stretch of a step errs by itself, a group of terms errs by a variance in proportion to its length: with
    gamma errors, the groups' shares are Dirichlet around what the formula says, of concentration 1 / ``variance``.
    Means stay; what is all or nothing of a step stays so.
    """
    factors = {}
    for name, share in grouped(shares).items():
        drawn = generator.standard_gamma(share / variance[:, None]) * variance[:, None]
        factors[name] = np.where(share > 0, drawn / np.where(share > 0, share, 1.0), 1.0)
    found = {name: share * factors[TERMS[name].group] for name, share in shares.items()}
    total = np.sum(list(found.values()), axis=0)
    known = total > 0  # an error beyond all measure leaves nothing to divide
    return {name: np.where(known, one / np.where(known, total, 1.0), shares[name]) for name, one in found.items()}


def told_apart(theta: Array, shares: dict[str, Array]) -> dict[str, Array]:
    """Return the shares with those of compute together where the draws don't say what depends on the batch.

    They don't where no job's batch was varied; then the two are what is assumed of any job, and no finding.
    """
    if float(np.std(theta[:, SAMPLE] - theta[:, OVERHEAD])) <= KNOWN_SD:
        return shares
    rest = {name: share for name, share in shares.items() if name not in ("samples", "overhead")}
    return {"computing": shares["samples"] + shares["overhead"], **rest}


def grouped(shares: dict[str, Array]) -> dict[str, Array]:
    """Return the share of each of ``GROUPS``."""
    return {
        group: np.asarray(np.sum([shares[name] for name, term in TERMS.items() if term.group == group], axis=0))
        for group in GROUPS
    }


def _elasticity(theta: Array, configurations: Configurations, coefficient: int | None) -> Array:
    """Return by how much a step's logarithm moves with one coefficient, (draws, n)."""
    if coefficient is None:
        return np.zeros((len(theta), len(configurations)))
    steps = []
    for move in (_MOVE, -_MOVE):
        moved = theta.copy()
        moved[:, coefficient] += move
        steps.append(step_of(moved, configurations).log_step)
    return np.asarray(np.maximum((steps[0] - steps[1]) / (2 * _MOVE), 0.0))


def _added(found: dict[str, Array], stretched: tuple[str, ...], seconds: list[Array]) -> list[Array]:
    """Take from the shares of ``stretched`` what missing cores add to them, and return it, cause by cause.

    ``seconds`` are those of the same work with one cause less each, the last with none; each cause gets its part of
    the logarithm by which all of them together stretch the work.
    """
    logs = [np.log(one) for one in seconds]
    whole = logs[0] - logs[-1]
    extra = -np.expm1(-whole) * np.sum([found[name] for name in stretched], axis=0)
    for name in stretched:
        found[name] = found[name] * np.exp(-whole)
    each = np.where(whole > 1e-12, whole, 1.0)
    return [extra * (more - less) / each for more, less in pairwise(logs)]
