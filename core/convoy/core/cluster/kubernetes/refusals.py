"""What the API server answers when it doesn't do as asked, as an error of our tree. Pure."""

from __future__ import annotations

import json
from typing import Any

from convoy.core.api.errors import (
    AlreadyExists,
    ClusterError,
    Conflict,
    ConvoyError,
    Expired,
    NotFound,
    Unavailable,
    Unusable,
)
from convoy.core.cluster.kubernetes.resources import Question, Request

_SHOWN = 300
"""Characters of an answer that a message repeats."""


def status_of(body: bytes) -> dict[str, Any]:
    """Return an answer's ``Status`` object; of any other answer (a proxy's page) its text as the message."""
    try:
        status = json.loads(body)
    except ValueError:
        status = None
    return status if isinstance(status, dict) else {"message": body.decode(errors="replace")}


def refusal(code: int, status: dict[str, Any], request: Request | Question, address: str) -> ConvoyError:
    """Return the error for an HTTP status code and a ``Status`` object, of an answer or of a watch's ERROR event."""
    said = str(status.get("message") or status.get("reason") or "no reason given").strip()[:_SHOWN]
    reason = str(status.get("reason") or "")
    match code:
        case 401:
            return Unusable(
                f"{address} doesn't accept who asks (401, {said}): expected a valid token or client certificate;"
                " log in again, or see that the service account's token is mounted and not revoked",
                reason="Unauthorized",
            )
        case 403:
            return Unusable(f"{address} refuses to {request}: {said}; grant {request.rule}", reason="Forbidden")
        case 404 if isinstance(request, Request):
            return _absent(request, said, reason, address)
        case 409 if reason == "AlreadyExists":
            return AlreadyExists(said)
        case 409:
            return Conflict(f"{said}: read again")
        case 410:
            return Expired(f"{request}: {said}: list again")
        case 429:
            return Unavailable(f"{address} is too busy to {request}: {said}", reason="TooManyRequests")
        case _ if code >= 500:
            return Unavailable(f"{address} can't {request} now ({code}): {said}", reason=reason or "ServerError")
    return ClusterError(f"{address} answers {code} to {request}: {said}", reason=reason or "ClusterError")


def _absent(request: Request, said: str, reason: str, address: str) -> ConvoyError:
    if reason == "NotFound" and request.name is not None:
        return NotFound(f"{request.kind} {_place(request)}: no such object ({said})")
    return Unusable(
        f"{address} serves no {request.resource.plural} of {request.resource.group or 'the core'}"
        f"/{request.resource.version} ({said}): is this an API server, and are Convoy's CRDs installed?",
        reason="KindNotServed",
    )


def _place(request: Request) -> str:
    return "/".join(filter(None, (request.namespace, request.name)))
