"""Structured logs on stderr: for people on a terminal, JSON lines elsewhere. Never a secret.

What stands under a key that sounds like a secret is hidden, at any depth, and so is the password of an address.
"""

from __future__ import annotations

import io
import logging
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, TextIO, cast

import structlog

from convoy.core.api.errors import InvalidSetting

_SECRETS = ("token", "password", "secret")
_HIDDEN = "***"
_PASSWORD_IN_ADDRESS = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")


class _Stderr(io.TextIOBase):
    """Whatever stderr is when a line is written: loggers are kept, and who takes stderr's place for a while goes."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def configure(component: str, **fields: str) -> None:
    """Set up logging of this process; ``fields`` stand on every line. ``CONVOY_LOG_LEVEL`` and ``CONVOY_LOG_FORMAT``
    (``human`` | ``json``) override.

    Raises:
        InvalidSetting: one of the two has an unknown value.
    """
    level = _level(os.environ.get("CONVOY_LOG_LEVEL", "info"))
    human = _is_human(os.environ.get("CONVOY_LOG_FORMAT"))
    render = structlog.dev.ConsoleRenderer() if human else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _redact,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Stderr())),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(component=component, **fields)


def get(name: str) -> structlog.typing.FilteringBoundLogger:
    """Return a logger; call it with an event name in words and its facts as keywords."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(source=name)
    return logger


def redact(value: Any) -> Any:
    """Return text, a mapping or a list with its secrets hidden; anything else as it is."""
    if isinstance(value, str):
        return _PASSWORD_IN_ADDRESS.sub(rf"\1{_HIDDEN}@", value)
    if isinstance(value, Mapping):
        return {key: _HIDDEN if _is_secret(key) else redact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item) for item in value]
    return value


def _redact(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    return {key: _HIDDEN if _is_secret(key) else redact(value) for key, value in event.items()}


def _is_secret(key: Any) -> bool:
    return any(secret in str(key).lower() for secret in _SECRETS)


def _level(text: str) -> int:
    levels = logging.getLevelNamesMapping()
    if text.upper() not in levels:
        raise InvalidSetting(f"CONVOY_LOG_LEVEL: expected debug, info, warning or error, not {text!r}")
    return levels[text.upper()]


def _is_human(text: str | None) -> bool:
    if text not in (None, "", "human", "json"):
        raise InvalidSetting(f"CONVOY_LOG_FORMAT: expected human or json, not {text!r}")
    return text == "human" if text else sys.stderr.isatty()
