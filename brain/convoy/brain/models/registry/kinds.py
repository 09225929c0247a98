"""The models that the registry knows: by name, with their class and what a reader of their card has to know.

This is the one place that lists them. Classes are imported when they are asked for: some bring libraries that take
seconds.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import Protocol, Self, cast

from convoy.brain.models.state import State
from convoy.core.api.errors import InvalidInput, NotFound


class Restorable(Protocol):
    """What every fitted model can do: be taken apart, and be put together again."""

    def state(self) -> State:
        """Return its content."""
        ...

    @classmethod
    def restored(cls, state: State) -> Self:
        """Return the model of that content; it predicts bit for bit as the one did whose state it was."""
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of model.

    Attributes:
        name: in files, in the store, on the command line.
        module, attribute: where its class is.
        title: in a few words.
        what: it learns, in sentences.
        use: how it is asked.
        limits: what it can't do well, a sentence each.
        not_for: when not to use it, a sentence each.
        unit: whose errors its back-test counts: a job's, a container's, a week's.
    """

    name: str
    module: str
    attribute: str
    title: str
    what: str
    use: str
    limits: tuple[str, ...]
    not_for: tuple[str, ...]
    unit: str = "job"

    def model(self) -> type[Restorable]:
        """Return its class, imported now.

        Raises:
            NotFound: this version of Convoy has none that can be kept in a file.
        """
        found = None
        if importlib.util.find_spec(self.module) is not None:
            found = getattr(importlib.import_module(self.module), self.attribute, None)
        if not (hasattr(found, "state") and hasattr(found, "restored")):
            raise NotFound(
                f"model {self.name!r}: this version of Convoy has none that can be kept in a file; upgrade it",
                reason="ModelNotKept",
            )
        return cast(type[Restorable], found)


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "throughput",
            "convoy.brain.models.throughput",
            "ThroughputModel",
            "training speed at configurations that weren't tried",
            "Learns from past jobs how the speed of training depends on workers, parameter servers, nodes, batch and "
            "cores, and with what scatter. Together with a job's own measurements it gives that job's speed, in "
            "samples/s, at any configuration.",
            "`ThroughputModel.predict(observed, query, level)`; `observed` are the job's own measurements, none "
            "included. A prediction comes with an interval and a reason: go by both.",
            (
                "Far from what the job and the history showed, intervals widen; they don't know of limits that "
                "nobody met yet, such as another network.",
                "It gives the mean over a window of minutes, not the next step's speed.",
            ),
            (
                "Not for time to accuracy: samples/s say nothing about how much a sample teaches.",
                "Not for hardware that no job of the history ran on, without measurements of the job itself.",
            ),
        ),
        Kind(
            "load",
            "convoy.brain.models.load",
            "LoadModel",
            "CPU and memory used at configurations that weren't tried",
            "Learns what workers and parameter servers use of what they are allotted, by configuration.",
            "`LoadModel.predict(observed, query, level)`: cores and bytes used, with intervals, never above what "
            "was allotted.",
            ("Use that was cut off by its limit is known as a lower bound alone.",),
            ("Not for limits of memory: those follow from peaks, which the memory model knows.",),
        ),
        Kind(
            "memory",
            "convoy.brain.models.memory",
            "MemoryModel",
            "memory limits that meet a rate of out-of-memory kills",
            "Learns from the peaks of containers how far the next ones lie above those that were seen, and counts a "
            "kill as a reading that was cut off.",
            "`MemoryModel.recommend(usage, oom_rate, horizon, node_bytes)`: a limit for each container, with "
            "its reason.",
            (
                "The rate holds over containers like those of the history, not for each of them.",
                "A container whose use jumps, without any sign before, can't be foreseen.",
            ),
            ("Not for accelerators' memory.",),
            "container",
        ),
        Kind(
            "startup",
            "convoy.brain.models.startup",
            "StartupModel",
            "resources of a job that was never seen",
            "Learns from past jobs what a new one will need at its start, from its template, image, user, strategy "
            "and the features of its model.",
            "`StartupModel.recommend(jobs)`: workers, parameter servers, cores and bytes, with a reason.",
            ("It repeats what people asked for and what came of it; where all asked for too much it can't know.",),
            ("Not for a job that has run already: its own measurements say more.",),
        ),
        Kind(
            "demand",
            "convoy.brain.models.demand",
            "DemandModel",
            "a cluster's demand in the next weeks",
            "Learns the rhythm of days and weeks of what a cluster's jobs used, hour by hour.",
            "`DemandModel.forecast(horizon, level)`: hourly means with intervals, by resource.",
            ("It goes on with what was: new teams, deadlines and holidays aren't in it.",),
            ("Not for the next minutes, and not for single jobs.",),
            "week",
        ),
        Kind(
            "efficiency",
            "convoy.brain.models.efficiency",
            "EfficiencyModel",
            "what a sample of a larger batch is worth",
            "Learns from past jobs how the noise of gradients drifts as a job is trained, and differs between "
            "batches. Together with a job's own readings it gives what a sample is worth at another batch.",
            "`EfficiencyModel.predict(observed, query, level)`: samples of the initial batch, with intervals; "
            "`GoodputModel` multiplies it with speed.",
            (
                "A step down of the learning rate, which makes noise jump, can't be foreseen.",
                "The first readings of a job say little of the later ones.",
            ),
            ("Not for jobs that report no noise of their gradients.", "Not for the quality that training ends at."),
        ),
    )
}


def kind_of(name: str) -> Kind:
    """Return the kind of that name.

    Raises:
        InvalidInput: there is none; the message lists them.
    """
    if name not in KINDS:
        raise InvalidInput(
            f"model {name!r}: there is no such model; expected one of {', '.join(KINDS)}", reason="NoSuchModel"
        )
    return KINDS[name]
