"""Requests to the API server: who asks, time limits, errors of our tree.

Sent again is only what the server said it hasn't done: with renewed credentials after a 401, once; where it is too
busy and says when to come back (``Retry-After``), until the call's time is over. What else goes wrong is the
caller's to repeat: of a write whose answer was lost only the caller knows whether it may.
"""

from __future__ import annotations

import json
import random
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from urllib.parse import urlencode

import urllib3
from urllib3 import exceptions

from convoy.core.api.errors import ConvoyError, Unavailable, Unusable
from convoy.core.api.meta import Manifest
from convoy.core.cluster.kubernetes.access import Access
from convoy.core.cluster.kubernetes.refusals import refusal, status_of
from convoy.core.cluster.kubernetes.resources import Question, Request

_USER_AGENT = f"convoy/{version('convoy-train')}"
_PIECE = 256 * 1024
_SHORTEST_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Limits:
    """What is waited for, in seconds.

    Attributes:
        connect: for a connection, and for each step of its handshake.
        answer: for the answer to begin, and between two pieces of it.
        whole: for one request, pauses that a busy server asks for included: after it, it isn't sent again, and an
            answer doesn't go on. Of a watch, for its beginning.
        silence: for the next byte of a watch. A server that is well sends a bookmark a minute of what changes at
            all; of what doesn't, it may be silent for longer, and then the watch begins anew where it was.
    """

    connect: float = 5.0
    answer: float = 20.0
    whole: float = 40.0
    silence: float = 75.0


@dataclass(frozen=True, slots=True)
class Body:
    """What a write sends: a document, and the content type that says what the server does with it."""

    method: str
    content_type: str
    document: Manifest


class Connection:
    """Asks one API server, over a pool of connections. Several threads may use it."""

    def __init__(self, access: Access, limits: Limits) -> None:
        self.limits = limits
        self._access = access
        self._guard = threading.Lock()
        self._open: set[urllib3.BaseHTTPResponse] = set()
        self._closing = threading.Event()

    @property
    def address(self) -> str:
        """The API server's address, for messages."""
        return self._access.address

    def read(self, request: Request | Question, query: Mapping[str, str] | None = None) -> bytes:
        """Return the whole answer.

        Raises:
            Unavailable: the server can't be reached, or is silent, or is in trouble.
            Unusable: it refuses who asks, or its certificate isn't trusted.
            ClusterError: what it answers otherwise; see ``refusals``.
        """
        return self._read(request, query or {}, None)

    def read_json(self, request: Request | Question, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the answer as an object; raises as ``read`` does."""
        return self._decoded(request, self._read(request, query or {}, None))

    def write(self, request: Request | Question, body: Body, query: Mapping[str, str]) -> dict[str, Any]:
        """Send a document and return the answer as an object; raises as ``read`` does.

        Unavailable doesn't tell whether it was done, unless its ``retry_after`` says that it wasn't.
        """
        return self._decoded(request, self._read(request, query, body))

    def _read(self, request: Request | Question, query: Mapping[str, str], body: Body | None) -> bytes:
        until = time.monotonic() + self.limits.whole
        pieces = []
        with self._opened(request, query, body, until) as response, self._told(request):
            while piece := response.read1(_PIECE):
                pieces.append(piece)
                if time.monotonic() > until:
                    raise Unavailable(f"{self.address}: the answer to {request} took over {self.limits.whole:g} s")
        return b"".join(pieces)

    def _decoded(self, request: Request | Question, body: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise Unavailable(f"{self.address} answers {request} with something other than a JSON object")
        return answer

    @contextmanager
    def stream(
        self, request: Request | Question, query: Mapping[str, str] | None = None
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """Open an answer that is read while it comes; raises as ``read`` does, until it has begun."""
        with self._opened(request, query or {}, None, time.monotonic() + self.limits.whole) as response:
            yield response

    @contextmanager
    def _opened(
        self, request: Request | Question, query: Mapping[str, str], body: Body | None, until: float
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        response = self._accepted(request, query, body, until)
        with self._guard:
            self._open.add(response)
        try:
            if self._closing.is_set():
                raise self._is_closed()
            yield response
        finally:
            with self._guard:
                self._open.discard(response)
            response.close()

    def close(self) -> None:
        """End the answers that are being read, those of watches among them, and refuse further requests."""
        with self._guard:
            self._closing.set()
            for response in self._open:
                with suppress(ValueError, RuntimeError, OSError):  # it has ended in this moment
                    response.shutdown()
        self._access.close()

    def _accepted(
        self, request: Request | Question, query: Mapping[str, str], body: Body | None, until: float
    ) -> urllib3.BaseHTTPResponse:
        while True:
            response = self._asked(request, query, body)
            if 200 <= response.status < 300:
                return response
            with self._told(request):
                status = status_of(response.read())
            pause = _pause(response)
            error = refusal(response.status, status, request, self.address, pause)
            if pause is None or not isinstance(error, Unavailable) or time.monotonic() + pause > until:
                raise error
            self._closing.wait(random.uniform(pause, pause * 1.5))  # not all who were sent away at one moment

    def _asked(
        self, request: Request | Question, query: Mapping[str, str], body: Body | None
    ) -> urllib3.BaseHTTPResponse:
        headers = self._access.headers()
        response = self._ask(request, query, body, headers)
        if response.status == 401:
            response.drain_conn()
            self._access.renew(headers)
            response = self._ask(request, query, body, self._access.headers())
        return response

    def _ask(
        self,
        request: Request | Question,
        query: Mapping[str, str],
        body: Body | None,
        headers: Mapping[str, str],
    ) -> urllib3.BaseHTTPResponse:
        if self._closing.is_set():
            raise self._is_closed()
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise Unusable(
                f"{self.address}: the token isn't one line of ASCII characters: see the file that it comes from",
                reason="KubernetesConfiguration",
            )
        content = {"Content-Type": body.content_type} if body else {}
        with self._told(request):
            return self._access.pool.request(
                body.method if body else "GET",
                self._access.url + request.path + (f"?{urlencode(query)}" if query else ""),
                body=json.dumps(body.document, separators=(",", ":")).encode() if body else None,
                headers={"Accept": "application/json", "User-Agent": _USER_AGENT, **content, **headers},
                timeout=urllib3.Timeout(connect=self.limits.connect, read=self.limits.answer),
                preload_content=False,
                redirect=False,
            )

    @contextmanager
    def _told(self, request: Request | Question) -> Iterator[None]:
        """Turn what goes wrong on the way into an error of our tree; none of them repeats a header."""
        try:
            yield
        except exceptions.HTTPError as error:
            raise self._lost(request, error) from None

    def _lost(self, request: Request | Question, error: exceptions.HTTPError) -> ConvoyError:
        if self._closing.is_set():
            return self._is_closed()
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or (
                cause.args[-1] if cause.args and isinstance(cause.args[-1], Exception) else None
            )
        if cause is not None:
            return Unusable(
                f"{self.address}: its certificate isn't trusted ({cause.verify_message}):"
                " see certificate-authority and tls-server-name of the kubeconfig",
                reason="CertificateNotTrusted",
            )
        match error:
            case exceptions.NameResolutionError():
                why = "no host of that name is known here"
            case exceptions.NewConnectionError():
                why = "nothing takes connections there: is the API server up, and is the address right?"
            case exceptions.ConnectTimeoutError():
                why = f"no connection within {self.limits.connect:g} s"
            case exceptions.ReadTimeoutError():
                why = f"no answer within {self.limits.answer:g} s"
            case _:
                why = f"the connection broke ({type(error).__name__})"
        return Unavailable(f"{self.address} can't be asked to {request}: {why}")

    def _is_closed(self) -> Unavailable:
        return Unavailable(f"{self.address}: this connection was closed", reason="Closed")


def _pause(response: urllib3.BaseHTTPResponse) -> float | None:
    """Return the seconds after which the server wants to be asked again, None where it doesn't say."""
    said = response.headers.get("Retry-After", "")
    return max(_SHORTEST_PAUSE, float(said)) if said.isascii() and said.isdigit() else None
