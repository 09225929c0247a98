"""Where Prometheus is, and what it is shown there. No secret leaves this but in a request's header."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from requests import PreparedRequest
from requests.auth import AuthBase, HTTPBasicAuth

from convoy.brain.settings import BrainSettings
from convoy.core.api.errors import InvalidSetting

_EXPECTED = "http://HOST:9090 or https://USER:PASSWORD@HOST/PATH"
_REMEDY = "set it with --prometheus-url or CONVOY_PROMETHEUS_URL"


class _Bearer(AuthBase):
    """A token. (As a plain header it would give way to what ~/.netrc has for the host.)"""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


@dataclass(frozen=True, slots=True)
class Address:
    """A server of Prometheus' HTTP API.

    Attributes:
        url: without user and password, and without a slash at its end.
        auth: what it is shown; None: nothing.
        ca_file: of the authorities that may have signed its certificate; None: the system's.
        timeout: seconds for one answer.
    """

    url: str
    auth: AuthBase | None = field(default=None, repr=False)
    ca_file: Path | None = None
    timeout: float = 30.0

    @classmethod
    def of(cls, settings: BrainSettings) -> Address:
        """Return the address that the settings name.

        Raises:
            InvalidSetting: there is none, or it can't be right. No message holds a secret.
        """
        given = settings.prometheus_url.get_secret_value().strip() if settings.prometheus_url else ""
        if not given:
            raise InvalidSetting(f"prometheus_url: not set; expected {_EXPECTED}; {_REMEDY}")
        parts = _split(given)
        token = settings.prometheus_token.get_secret_value().strip()
        auth = _auth(parts, token)
        ca_file = _ca_file(settings.prometheus_ca_file, parts)
        place = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=parts.path.rstrip("/"))
        return cls(place.geturl(), auth, ca_file, settings.prometheus_timeout_seconds)


def _split(given: str) -> SplitResult:
    try:
        parts = urlsplit(given)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # of a port, or of an address in brackets
        raise _wrong("can't be read as a URL (percent-encode special characters of a password)") from None
    if not usable or "@" in unquote(parts.hostname or ""):
        raise _wrong("isn't the URL of a server (percent-encode special characters of a password)")
    if parts.query or parts.fragment:
        raise _wrong("has something after its path: leave out what begins with '?' or '#'")
    return parts


def _auth(parts: SplitResult, token: str) -> AuthBase | None:
    if token and parts.username is not None:
        raise InvalidSetting(
            "prometheus_token: set beside a user in prometheus_url; one of the two is shown, so leave out the other"
        )
    if token:
        if not (token.isascii() and token.isprintable() and " " not in token):
            raise InvalidSetting(
                "prometheus_token: holds a space or a character that no token has; set it with "
                "CONVOY_PROMETHEUS_TOKEN"
            )
        return _Bearer(token)
    if parts.username is None:
        return None
    # As UTF-8 (RFC 7617): requests would take Latin-1, and put a password that isn't into its error.
    user, password = unquote(parts.username), unquote(parts.password or "")
    return HTTPBasicAuth(user.encode(), password.encode())


def _ca_file(file: Path | None, parts: SplitResult) -> Path | None:
    if file is None:
        return None
    setting = f"prometheus_ca_file {file}"
    if parts.scheme != "https":
        raise InvalidSetting(
            f"{setting}: of no use, as prometheus_url begins with http://; leave it out, or use https"
        )
    try:
        ssl.create_default_context(cafile=str(file))
    except OSError as error:  # ssl.SSLError is one
        raise InvalidSetting(
            f"{setting}: {error.strerror or error}; name a PEM file with CONVOY_PROMETHEUS_CA_FILE"
        ) from None
    return file


def _wrong(what: str) -> InvalidSetting:
    return InvalidSetting(f"prometheus_url: {what}; expected {_EXPECTED}; {_REMEDY}")
