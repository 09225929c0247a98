"""The one interceptor on the server's side: reads the envelope, checks who calls, turns our errors into statuses.

Within a call ``caller()`` is its envelope.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol

import grpc
import grpc.aio

from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import ConvoyError, Unauthenticated
from convoy.core.process import logs
from convoy.core.rpc import status

log = logs.get("rpc")
_caller: ContextVar[Envelope] = ContextVar("convoy_caller")


def caller() -> Envelope:
    """Return the envelope of the call that is being answered."""
    return _caller.get()


class Check(Protocol):
    """Decides whether a caller may speak; raises an error of our tree if not."""

    def __call__(self, envelope: Envelope, /) -> None:
        """Raise Unauthenticated or Fenced, or return."""
        ...


def require_token(token: str) -> Check:
    """Return the check that the caller knows the token; an empty token lets everyone in (loopback only)."""

    def check(envelope: Envelope) -> None:
        if token and not hmac.compare_digest(token.encode(), envelope.token.encode()):
            raise Unauthenticated("the call's token isn't this job's; is it an agent of another job?")

    return check


class AsyncGuard(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in its stub alone
    """The interceptor of an asyncio server: methods with one request and one answer, or a stream of answers."""

    def __init__(self, check: Check) -> None:
        self._check = check

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the method's handler."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return handler
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                self._stream(handler.unary_stream), handler.request_deserializer, handler.response_serializer
            )
        return grpc.unary_unary_rpc_method_handler(
            self._unary(handler.unary_unary), handler.request_deserializer, handler.response_serializer
        )

    def _unary(self, behaviour: Any) -> Any:
        async def answer(request: Any, context: Any) -> Any:
            try:
                _admit(self._check, context)
                return await behaviour(request, context)
            except ConvoyError as error:
                await _abort_async(context, error)

        return answer

    def _stream(self, behaviour: Any) -> Any:
        async def answer(request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                _admit(self._check, context)
                async for item in behaviour(request, context):
                    yield item
            except ConvoyError as error:
                await _abort_async(context, error)

        return answer


class Guard(grpc.ServerInterceptor):  # type: ignore[type-arg]
    """The interceptor of a threaded server; unary calls only.

    Who may not speak is refused before the message is read: it takes no memory, and no thread that would wait for it.
    """

    def __init__(self, check: Check) -> None:
        self._check = check

    def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Wrap the method's handler."""
        handler = continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler
        try:
            envelope = _admitted(self._check, handler_call_details.invocation_metadata)
        except ConvoyError as error:
            # A handler of a stream gets the call before its first message; on the wire the two are one.
            return grpc.stream_unary_rpc_method_handler(partial(_refuse, error))

        def answer(request: Any, context: Any) -> Any:
            _caller.set(envelope)
            try:
                return handler.unary_unary(request, context)
            except ConvoyError as error:
                _abort(context, error)

        return grpc.unary_unary_rpc_method_handler(answer, handler.request_deserializer, handler.response_serializer)


def _admit(check: Check, context: Any) -> None:
    _caller.set(_admitted(check, context.invocation_metadata()))


def _admitted(check: Check, metadata: Any) -> Envelope:
    envelope = Envelope.from_metadata(metadata or ())
    try:
        check(envelope)
    except ConvoyError as error:
        log.warning("call refused", reason=error.reason, sender=envelope.sender, version=envelope.version)
        raise
    return envelope


def _refuse(error: ConvoyError, _messages: Any, context: Any) -> None:
    _abort(context, error)


def _abort(context: Any, error: ConvoyError) -> None:
    context.set_trailing_metadata(((status.REASON_KEY, error.reason),))
    context.abort(status.code(error), str(error))


async def _abort_async(context: Any, error: ConvoyError) -> None:
    context.set_trailing_metadata(((status.REASON_KEY, error.reason),))
    await context.abort(status.code(error), str(error))
