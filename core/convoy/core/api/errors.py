"""The one error tree of Convoy.

Each error carries a stable CamelCase ``reason`` that is also the reason in logs, Events, conditions and the
database, and a message that says what was expected, what came and what to do about it.

    ConvoyError
    ├── InvalidInput            what the user wrote can't be right; nothing was changed     (exit status 2)
    │   ├── InvalidManifest     an object's field, named by its path
    │   ├── InvalidQuantity     a Kubernetes quantity that can't be parsed
    │   └── InvalidSetting      a flag, an environment variable or a line of a settings file
    ├── Unusable                the surroundings forbid it: a port, a directory, a database (exit status 2)
    ├── ClusterError            what the cluster port answers
    │   ├── NotFound            no such object
    │   ├── AlreadyExists       an object of that name is there already
    │   ├── Conflict            the object changed since it was read, or a field has another owner
    │   ├── Expired             a watch asked for changes older than those that are kept
    │   ├── Refused             its rules forbid it now: a quota, a limit, a policy, a webhook
    │   └── TooLarge            more than it takes in one request or keeps in one object
    ├── Fenced                  the caller was replaced; it must stop
    │   ├── StaleEpoch          a newer master holds the job
    │   └── StaleIncarnation    a newer process holds the node's rank
    ├── Unauthenticated         a call without the job's token
    ├── DeadlineMissed          a wait ended; the message says what was missing
    ├── Unavailable             a peer can't be reached now; trying again later may help
    ├── JobFailed               the job ended in failure                                   (exit status 1)
    └── StateError              state on disk can't be used
        ├── UnknownSchema       written by a newer version
        └── CorruptState        neither this nor any earlier version wrote it
"""

from __future__ import annotations


class ConvoyError(Exception):
    """Root of the tree; ``reason`` is stable, ``exit_status`` is what a command ends with."""

    reason = "Error"
    exit_status = 1

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if reason is not None:
            self.reason = reason

    def __str__(self) -> str:
        return self.message


class InvalidInput(ConvoyError):
    """What the user wrote can't be right; nothing was changed."""

    reason = "InvalidInput"
    exit_status = 2


class InvalidManifest(InvalidInput):
    """A field of an object is wrong; ``path`` is its place, such as ``spec.replicaSpecs.worker.replicas``."""

    reason = "InvalidManifest"

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


class InvalidQuantity(InvalidInput):
    """A Kubernetes quantity that can't be parsed."""

    reason = "InvalidQuantity"


class InvalidSetting(InvalidInput):
    """A flag, an environment variable or a line of a settings file is wrong."""

    reason = "InvalidSetting"


class Unusable(ConvoyError):
    """The surroundings forbid it: a port in use, an unwritable directory, a database that isn't there."""

    reason = "Unusable"
    exit_status = 2


class ClusterError(ConvoyError):
    """What the cluster port answers."""

    reason = "ClusterError"


class NotFound(ClusterError):
    """No such object."""

    reason = "NotFound"


class AlreadyExists(ClusterError):
    """An object of that kind, namespace and name is there already."""

    reason = "AlreadyExists"


class Conflict(ClusterError):
    """The object changed since it was read, or a field belongs to another field manager."""

    reason = "Conflict"


class Expired(ClusterError):
    """A watch asked for changes older than those that are kept: list again."""

    reason = "Expired"


class Refused(ClusterError):
    """The cluster's rules forbid it now: a quota, a limit range, a policy, a webhook; the message has its words."""

    reason = "Refused"


class TooLarge(ClusterError):
    """More than the cluster takes in one request, or keeps in one object."""

    reason = "TooLarge"


class Fenced(ConvoyError):
    """The caller was replaced; it must stop and change nothing more."""

    reason = "Fenced"


class StaleEpoch(Fenced):
    """A newer master holds the job."""

    reason = "StaleEpoch"


class StaleIncarnation(Fenced):
    """A newer process holds the node's rank."""

    reason = "StaleIncarnation"


class Unauthenticated(ConvoyError):
    """A call without the job's token."""

    reason = "Unauthenticated"


class DeadlineMissed(ConvoyError):
    """A wait ended; the message says what was missing."""

    reason = "DeadlineMissed"


class Unavailable(ConvoyError):
    """A peer can't be reached now; trying again later may help: where it says so, after ``retry_after`` seconds."""

    reason = "Unavailable"

    def __init__(self, message: str, *, reason: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, reason=reason)
        self.retry_after = retry_after


class JobFailed(ConvoyError):
    """The job ended in failure."""

    reason = "JobFailed"


class StateError(ConvoyError):
    """State on disk can't be used."""

    reason = "StateError"
    exit_status = 2


class UnknownSchema(StateError):
    """State written by a newer version of Convoy."""

    reason = "UnknownSchema"


class CorruptState(StateError):
    """State that no version of Convoy wrote."""

    reason = "CorruptState"
