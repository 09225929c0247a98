"""Errors across a call: our tree to gRPC status codes and back, the reason beside the message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc

from convoy.core.api import errors

REASON_KEY = "convoy-reason"

_CODES: tuple[tuple[type[errors.ConvoyError], grpc.StatusCode], ...] = (
    (errors.InvalidInput, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.NotFound, grpc.StatusCode.NOT_FOUND),
    (errors.AlreadyExists, grpc.StatusCode.ALREADY_EXISTS),
    (errors.Fenced, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.Unauthenticated, grpc.StatusCode.UNAUTHENTICATED),
    (errors.DeadlineMissed, grpc.StatusCode.DEADLINE_EXCEEDED),
    (errors.Unavailable, grpc.StatusCode.UNAVAILABLE),
    (errors.ConvoyError, grpc.StatusCode.INTERNAL),
)
_BY_REASON: dict[str, type[errors.ConvoyError]] = {
    kind.reason: kind for kind in (errors.StaleEpoch, errors.StaleIncarnation, errors.Fenced)
}


def code(error: errors.ConvoyError) -> grpc.StatusCode:
    """Return the status code with which an error crosses the wire."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def from_rpc(error: grpc.RpcError) -> errors.ConvoyError:
    """Return the error of our tree that a failed call stands for."""
    reason = _reason(error)
    found = error.code()
    kind = _BY_REASON.get(reason) or next(
        (kind for kind, code in _CODES if code is found and kind is not errors.ConvoyError), None
    )
    if kind is None:
        kind = _kind(found, error.details() or "")
    return kind(error.details() or str(found), reason=reason or None)


def _kind(found: grpc.StatusCode, details: str) -> type[errors.ConvoyError]:
    """Return what a status that gRPC itself gave stands for."""
    if found is grpc.StatusCode.RESOURCE_EXHAUSTED:  # a message that is too large stays so; a busy server doesn't
        return errors.InvalidInput if "larger than max" in details else errors.Unavailable
    return errors.Unavailable if found is grpc.StatusCode.CANCELLED else errors.ConvoyError


def _reason(error: grpc.RpcError) -> str:
    trailing: Any = error.trailing_metadata()  # named pairs of a threaded call, a Metadata of an asyncio one
    pairs: Iterable[tuple[str, str | bytes]] = trailing or ()
    return next((str(value) for key, value in pairs if key == REASON_KEY), "")
