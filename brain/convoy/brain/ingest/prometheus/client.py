"""Prometheus' HTTP API through prometheus-api-client: every answer within a deadline and a size, every refusal in our
own words.

Of the library its client is used and its session replaced. Left to itself it has no timeout, reads an answer of any
size, tries thrice what a server refuses, and tells of a refusal in one string of everything. Answers are read as they
come: its ``MetricRangeDataFrame`` fails on an empty one, and its moments have no zone. It rounds the ends of a range
to whole seconds: the grid has no others.
"""

from __future__ import annotations

import io
import json
import time
from datetime import UTC, datetime
from typing import Any

import requests
import urllib3
from prometheus_api_client import PrometheusConnect
from urllib3.util.retry import Retry

from convoy.brain.ingest.prometheus.address import Address
from convoy.brain.ingest.prometheus.grid import Span
from convoy.brain.ingest.prometheus.rows import Series
from convoy.core.api.errors import ConvoyError, InvalidInput, Unavailable, Unusable

_CONNECT_SECONDS = 5.0
_MOST_BYTES = 32 * 2**20
_PIECE = 2**18
_SAID = 300
_NOT_PROMQL = ("parse error", "invalid expression type", 'parameter "query"')
"""One of them is in what is said of such a query; bad_data is also said of a range that is too long, say."""
_URL = (
    "is the URL right, http or https, and the path before /api/v1? Set it with --prometheus-url or "
    "CONVOY_PROMETHEUS_URL"
)


class TooMuch(InvalidInput):
    """The answer would be too long, or evaluating it too much for the server: ask for less at once."""

    reason = "PrometheusTooMuch"


class QueryRefused(InvalidInput):
    """Prometheus can't evaluate a query."""

    reason = "PrometheusQueryRefused"


class QueryMalformed(QueryRefused):
    """A query isn't PromQL, whatever Prometheus holds."""

    reason = "PrometheusQueryMalformed"


class Prometheus:
    """A server that is asked; errors of all methods:

    Raises:
        TooMuch: see there.
        QueryRefused, QueryMalformed: see there.
        Unavailable: it can't be reached now, or can't answer.
        Unusable: it doesn't take what it was shown, its certificate isn't trusted, or it isn't Prometheus.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._session = _Session(address)
        self._session.verify = str(address.ca_file) if address.ca_file else True
        self._library = PrometheusConnect(
            url=address.url,
            auth=address.auth,
            session=self._session,
            retry=Retry(0),  # whoever asks decides whether to ask again
            timeout=(_CONNECT_SECONDS, address.timeout),
        )
        self._params = {"timeout": f"{0.9 * address.timeout:g}s"}  # it gives up first, and says so

    def close(self) -> None:
        """Close its connections."""
        self._library.close()

    def now(self) -> float:
        """Return the time by its clock, the one that samples are stamped by."""
        answer = self._asked(lambda: self._library.custom_query("time()", params=dict(self._params)))
        return float(answer[1])

    def range(self, promql: str, span: Span) -> list[Series]:
        """Return the series of a query, evaluated at each moment of a span that isn't empty."""
        first, last = (datetime.fromtimestamp(moment, UTC) for moment in (span.first, span.last))
        answer: list[Series] = self._asked(
            lambda: self._library.custom_query_range(promql, first, last, str(span.step), params=dict(self._params))
        )
        return answer

    def present(self, metrics: set[str], moment: int, seconds: int) -> set[str]:
        """Return which of the metrics have a sample in the ``seconds`` before a moment."""
        pattern = "|".join(sorted(metrics))
        promql = f'group by (__name__) (last_over_time({{__name__=~"{pattern}"}}[{seconds}s]))'
        params = {**self._params, "time": str(moment)}
        answer = self._asked(lambda: self._library.custom_query(promql, params=params))
        return {series["metric"]["__name__"] for series in answer}

    def _asked(self, ask: Any) -> Any:
        place = self.address.url
        try:
            return ask()
        except ConvoyError:
            raise
        except requests.exceptions.SSLError as error:
            raise Unusable(
                f"Prometheus at {place}: {_root(error)}; name the authority that signed its certificate with "
                "CONVOY_PROMETHEUS_CA_FILE",
                reason="PrometheusUntrusted",
            ) from None
        except (requests.exceptions.JSONDecodeError, KeyError, TypeError, IndexError, ValueError):
            # A page to log in at, say. (JSONDecodeError is a RequestException too.)
            raise Unusable(
                f"Prometheus at {place}: what answers there isn't Prometheus' HTTP API; {_URL}",
                reason="PrometheusForeign",
            ) from None
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            raise _away(place, _root(error)) from None


class _Session(requests.Session):
    """Reads each answer whole, within its deadline and a size, and raises for what isn't one."""

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request and return its answer, which was read already."""
        until = time.monotonic() + _CONNECT_SECONDS + self._address.timeout
        response = super().request(*args, **{**kwargs, "stream": True})
        try:
            body = self._body(response, until)
        except BaseException:
            response.close()
            raise
        if response.status_code != 200:
            raise self._refusal(response.status_code, body)
        response.raw = io.BytesIO(body)
        return response

    def _body(self, response: requests.Response, until: float) -> bytes:
        body = bytearray()
        for piece in response.raw.stream(_PIECE, decode_content=True):
            body += piece
            if len(body) > _MOST_BYTES:
                raise TooMuch(f"Prometheus at {self._address.url}: an answer is longer than {_MOST_BYTES} bytes")
            if time.monotonic() > until:
                raise _away(self._address.url, f"no whole answer within {self._address.timeout:g} s")
        return bytes(body)

    def _refusal(self, status: int, body: bytes) -> ConvoyError:
        place = f"Prometheus at {self._address.url}"
        kind, said = _error_of(body)
        if status in (401, 403):
            shown = "what it was shown" if self._address.auth else "a call that shows nothing"
            return Unusable(
                f"{place}: it refuses {shown} (HTTP status {status}); set CONVOY_PROMETHEUS_TOKEN, or user and "
                "password in CONVOY_PROMETHEUS_URL",
                reason="PrometheusDenied",
            )
        if status in (413, 422) or (status == 503 and kind == "timeout"):
            return TooMuch(f"{place}: {said or f'HTTP status {status}'}")
        if status == 400 and kind:
            malformed = kind == "bad_data" and any(fault in said for fault in _NOT_PROMQL)
            return (QueryMalformed if malformed else QueryRefused)(f"{place}: {said}")
        if status in (408, 429) or status >= 500:
            return _away(self._address.url, f"HTTP status {status} {said}".strip())
        return Unusable(
            f"{place}: HTTP status {status} for a query; {_URL}",
            reason="PrometheusForeign",
        )


def _error_of(body: bytes) -> tuple[str, str]:
    """Return the kind and the text of an error that Prometheus itself tells; empty where something else answered."""
    try:
        told = json.loads(body)
        return str(told["errorType"]), _printable(str(told["error"]))
    except (ValueError, KeyError, TypeError):
        return "", ""


def _away(place: str, why: str) -> Unavailable:
    return Unavailable(
        f"Prometheus at {place}: {why}; is it up, and is the URL right (--prometheus-url or CONVOY_PROMETHEUS_URL)?",
        reason="PrometheusUnreachable",
    )


def _root(error: BaseException) -> str:
    """Return what went wrong at the bottom of libraries' wrappings, which repeat the whole query."""
    while True:
        inner = getattr(error, "reason", None) or error.__cause__ or next(iter(error.args), None)
        if not isinstance(inner, BaseException):
            break
        error = inner
    text = str(error.args[-1]) if error.args else type(error).__name__
    return _printable(text.partition(": ")[2] or text if "object at 0x" in text else text)


def _printable(text: str) -> str:
    """Return a text of which a peer may have written a part: on one line, without control characters, cut."""
    shown = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text[: _SAID + 1])
    return shown[:_SAID] + "..." if len(shown) > _SAID else shown
