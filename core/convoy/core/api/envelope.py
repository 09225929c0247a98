"""The envelope of every gRPC call: who calls, for which job, and whether it may still speak.

It travels as call metadata and is checked in one interceptor (``convoy.core.rpc``), so no message repeats it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from convoy.core.api.errors import InvalidInput

try:
    VERSION = version("convoy-train")
except PackageNotFoundError:  # run from a source tree that was never installed
    VERSION = "0.0.0"

_PREFIX = "convoy-"
_DIGITS = 20  # of the largest number that 64 bits hold


@dataclass(frozen=True, slots=True)
class Envelope:
    """What each call carries.

    Attributes:
        job: uid of the job that the call is for; empty on calls about no job.
        token: the job's (or the Brain's) shared secret. Never logged.
        epoch: the highest master epoch that the caller knows; a master with a lower one refuses itself.
        sender: who calls: a pod's name, or a command's.
        incarnation: start of the calling process, in nanoseconds since the epoch; of two, the later one counts.
        sequence: number of the call within the incarnation, from 1; a repeated one is answered and changes nothing.
        version: the caller's Convoy version.
    """

    job: str = ""
    token: str = ""
    epoch: int = 0
    sender: str = ""
    incarnation: int = 0
    sequence: int = 0
    version: str = VERSION

    def to_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the call's metadata."""
        return (
            (_PREFIX + "job", self.job),
            (_PREFIX + "token", self.token),
            (_PREFIX + "epoch", str(self.epoch)),
            (_PREFIX + "sender", self.sender),
            (_PREFIX + "incarnation", str(self.incarnation)),
            (_PREFIX + "sequence", str(self.sequence)),
            (_PREFIX + "version", self.version),
        )

    @classmethod
    def from_metadata(cls, metadata: Iterable[tuple[str, str | bytes]]) -> Envelope:
        """Read a call's metadata; what is absent has its default.

        Raises:
            InvalidInput: epoch, incarnation or sequence isn't a whole number of 0 or more.
        """
        found = {key[len(_PREFIX) :]: str(value) for key, value in metadata if key.startswith(_PREFIX)}
        return cls(
            job=found.get("job", ""),
            token=found.get("token", ""),
            epoch=_whole(found, "epoch"),
            sender=found.get("sender", ""),
            incarnation=_whole(found, "incarnation"),
            sequence=_whole(found, "sequence"),
            version=found.get("version", ""),
        )

    def __repr__(self) -> str:
        """Show everything but the token."""
        return (
            f"Envelope(job={self.job!r}, epoch={self.epoch}, sender={self.sender!r}, "
            f"incarnation={self.incarnation}, sequence={self.sequence}, version={self.version!r})"
        )


def _whole(found: dict[str, str], key: str) -> int:
    text = found.get(key, "0")
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS:
        raise InvalidInput(f"call metadata convoy-{key}: expected a whole number, not {text[:40]!r}")
    return int(text)
