"""What the API server answers when it doesn't do as asked, as an error of our tree. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from convoy.core.api.errors import (
    AlreadyExists,
    ClusterError,
    Conflict,
    ConvoyError,
    Expired,
    NotFound,
    Refused,
    TooLarge,
    Unavailable,
    Unusable,
)
from convoy.core.cluster.kubernetes.invalid import invalid
from convoy.core.cluster.kubernetes.resources import Question, Request

_SHOWN = 300
"""Characters of an answer that a message repeats."""
_SHOWN_OF_RULES = 1_000
"""Of what admission says: a pod security standard names each field that it misses."""
_READS = ("get", "list", "watch")
_NO_RIGHT = re.compile(r'User "[^"]*" cannot ')
_QUOTA = re.compile(r"(exceeded|failed) quota")
_DENIED = re.compile(r'admission webhook "[^"]*" denied the request|ValidatingAdmissionPolicy .* denied request')
"""Under whatever status they choose: 400 where a webhook names none, 422 where a policy names none."""
_TOO_LARGE = ("etcdserver: request is too large", "trying to send message larger than max")


class Stale(Conflict):
    """The object changed since it was read: no field of another manager is in the way."""


def status_of(body: bytes) -> dict[str, Any]:
    """Return an answer's ``Status`` object; of any other answer (a proxy's page) its text as the message."""
    try:
        status = json.loads(body)
    except ValueError:
        status = None
    return status if isinstance(status, dict) else {"message": body.decode(errors="replace")}


def refusal(
    code: int, status: dict[str, Any], request: Request | Question, address: str, retry_after: float | None = None
) -> ConvoyError:
    """Return the error for an HTTP status code and a ``Status`` object, of an answer or of a watch's ERROR event."""
    said = _said(status)
    reason = str(status.get("reason") or "")
    if isinstance(request, Request):
        special = _of_objects(code, status, request)
        if special is not None:
            return special
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
            return _absent(request, status, address)
        case 410:
            return Expired(f"{request}: {said}: list again")
        case 413:
            return TooLarge(f"{address} won't {request}: {said}")
        case 429:
            return Unavailable(
                f"{address} is too busy to {request}: {said}", reason="TooManyRequests", retry_after=retry_after
            )
        case _ if code >= 500:
            return Unavailable(
                f"{address} can't {request} now ({code}): {said}",
                reason=reason or "ServerError",
                retry_after=retry_after,
            )
    return ClusterError(f"{address} answers {code} to {request}: {said}", reason=reason or "ClusterError")


def _of_objects(code: int, status: dict[str, Any], request: Request) -> ConvoyError | None:
    """Return the error for what depends on the object: it is there, it changed, it isn't as it should be."""
    said, what = _said(status), f"{request.kind} {request.place}"
    if _DENIED.search(str(status.get("message"))):
        return Refused(f"{what}: {_said(status, _SHOWN_OF_RULES)}")
    match code:
        case 409 if status.get("reason") == "AlreadyExists":
            return AlreadyExists(f"{what} is there already ({said}); delete it, or choose another name")
        case 409:
            return _conflict(status, what)
        case 403 if request.verb not in _READS and not _NO_RIGHT.search(str(status.get("message"))):
            return Refused(f"{what}: {_said(status, _SHOWN_OF_RULES)}", reason=_rule(status))
        case 422 if _is_another(status):
            return Conflict(f"{what} is another object than was read ({said}): read again")
        case 500 if any(words in said for words in _TOO_LARGE):
            return TooLarge(f"{what}: {said}; an object may take about 1.5 MB in all")
    return invalid(code, status, request.kind)


def _conflict(status: dict[str, Any], what: str) -> Conflict:
    owned = [one for one in _causes(status) if one.get("reason") == "FieldManagerConflict"]
    if not owned:
        return Stale(f"{what} changed since it was read ({_said(status)}): read again")
    parts = [f"{str(one.get('field')).lstrip('.')} ({one.get('message')})" for one in owned]
    shown = "; ".join(parts)[:_SHOWN]
    return Conflict(f"{what}: {shown}: leave the field out, give it the same value, or apply with force")


def _is_another(status: dict[str, Any]) -> bool:
    """Whether an object of that name has another uid than the one that was sent."""
    return any(one.get("field") == "metadata.uid" for one in _causes(status))


def _rule(status: dict[str, Any]) -> str | None:
    """Return the reason of a refusal where it is one that a retry can wait for; None leaves the error's own."""
    if any(one.get("reason") == "NamespaceTerminating" for one in _causes(status)):
        return "NamespaceTerminating"
    return "QuotaExceeded" if _QUOTA.search(str(status.get("message"))) else None


def _absent(request: Request, status: dict[str, Any], address: str) -> ConvoyError:
    said, details = _said(status), status.get("details") or {}
    if details.get("kind") == "namespaces" and details.get("name") == request.namespace:
        return NotFound(f"{request.kind} {request.place}: there is no namespace {request.namespace}: create it")
    if status.get("reason") == "NotFound" and request.name is not None and details.get("name"):
        return NotFound(f"{request.kind} {request.place}: no such object ({said})")
    return Unusable(
        f"{address} serves no {request.resource.plural} of {request.resource.group or 'the core'}"
        f"/{request.resource.version} ({said}): is this an API server, and are Convoy's CRDs installed?",
        reason="KindNotServed",
    )


def _causes(status: dict[str, Any]) -> list[dict[str, Any]]:
    return list((status.get("details") or {}).get("causes") or [])


def _said(status: dict[str, Any], shown: int = _SHOWN) -> str:
    return str(status.get("message") or status.get("reason") or "no reason given").strip()[:shown]
