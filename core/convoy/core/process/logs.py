"""Structured logs on stderr: for people on a terminal, JSON lines elsewhere. Never a secret."""

from __future__ import annotations

import logging
import os
import sys

import structlog

_SECRETS = ("token", "password", "secret")


def configure(component: str, **fields: str) -> None:
    """Set up logging of this process; ``fields`` stand on every line. ``CONVOY_LOG_LEVEL`` and ``CONVOY_LOG_FORMAT``
    (``human`` | ``json``) override.
    """
    level = getattr(logging, os.environ.get("CONVOY_LOG_LEVEL", "info").upper(), logging.INFO)
    human = os.environ.get("CONVOY_LOG_FORMAT", "human" if sys.stderr.isatty() else "json") == "human"
    render = structlog.dev.ConsoleRenderer() if human else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _redact,
            structlog.processors.format_exc_info,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(component=component, **fields)


def get(name: str) -> structlog.typing.FilteringBoundLogger:
    """Return a logger; call it with an event name in words and its facts as keywords."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(logger=name)
    return logger


def _redact(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    for key in event:
        if any(secret in key.lower() for secret in _SECRETS):
            event[key] = "***"
    return event
