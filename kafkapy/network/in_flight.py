"""The requests of one connection that are not answered yet.

They are handled in order and answered in order.

`handle` parses a frame and calls its handler. An answer that is there at once, with no other before it, is
sent without further ado; all others take their place here. One that is not Pipelined keeps the connection
from handling the next request until it is answered.

A request or an answer of more than VALUES_AT_ONCE values is decoded or encoded in a thread, where
connections have their turn as for validation. How many there are is known only when they are read: a request
is begun on the event loop, and begun again in a thread where it turns out to be long.

A request that cannot be read, or that no handler serves, closes the connection with one log line, as Apache
Kafka's Processor does: there is no answer that such a client would understand. Who handles a request is the
dispatcher's to say (kafkapy/handlers/dispatch.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable
from functools import partial
from typing import Any, Final, Protocol

from kafkapy.network.answers import Pipelined
from kafkapy.network.dispatcher import Endpoint
from kafkapy.network.outbound import discard
from kafkapy.network.shared import Shared
from kafkapy.process.turns import VALUES_AT_ONCE
from kafkapy.process.validation import Payer
from kafkapy.process.waiters import Watch
from kafkapy.protocol.codec import decode_from, holds_more
from kafkapy.protocol.errors import DecodeError, OverBudgetError
from kafkapy.protocol.frames import RequestHeader, parse_request_header, response_parts

MAX_PIPELINED: Final = 256
"""Requests of one connection that may wait for their answers at once."""

MAX_PIPELINED_BYTES: Final = 64 << 20
"""Their bytes, at most."""

logger = logging.getLogger(__name__)


class Client(Payer, Protocol):
    """A connection, as far as its requests know it."""

    closed: bool
    frame_is_kept: bool

    def send(self, header: RequestHeader, response: Any) -> None:
        """Send a response, or the parts of one that is encoded."""

    def keep_frame(self) -> None:
        """Leave the bytes of the request being handled to those who hold views of them."""

    def go_on(self) -> None:
        """Handle what has waited for an answer."""

    def close(self, why: str | None = None) -> None:
        """Close now, and log why."""


class _Request:
    """A request in flight.

    `response` is None until it is `ready`, or when nothing is to be sent.
    """

    __slots__ = (
        "encoding",
        "endpoint",
        "future",
        "header",
        "kept_bytes",
        "nbytes",
        "pipelined",
        "ready",
        "response",
    )

    def __init__(self, header: RequestHeader, endpoint: Endpoint, nbytes: int) -> None:
        self.header = header
        self.endpoint = endpoint
        self.nbytes = nbytes
        self.kept_bytes = 0
        """What its handler keeps of the receive buffer until it is answered."""
        self.future: asyncio.Future[Any] | Watch | None = None
        self.pipelined = False
        self.encoding = False
        """Its response is there, and is encoded in a thread."""
        self.ready = False
        self.response: Any = None
        """A response, or the parts of one that is encoded."""

    def abandon(self) -> None:
        """The client is gone: end what changes nothing."""
        if self.future is not None and self.endpoint.abandon and not self.encoding:
            self.future.cancel()


class RequestsInFlight:
    """The unanswered requests of a connection, oldest first."""

    __slots__ = ("_connection", "_muting", "_pipelined_bytes", "_requests", "_shared")

    def __init__(self, connection: Client, shared: Shared) -> None:
        self._connection = connection
        self._shared = shared
        self._requests: deque[_Request] = deque()
        self._muting: _Request | None = None
        """The request that must be answered before the next is handled."""
        self._pipelined_bytes = 0

    def __len__(self) -> int:
        return len(self._requests)

    def may_handle(self) -> bool:
        """Whether another request may be handled now."""
        return (
            self._muting is None
            and len(self._requests) < MAX_PIPELINED
            and self._pipelined_bytes < MAX_PIPELINED_BYTES
        )

    def abandon(self) -> None:
        """The client has gone, or half-closed: end the waits that change nothing."""
        for request in tuple(self._requests):
            request.abandon()

    def close(self) -> None:
        """The connection is closed: answers are dropped when they come."""
        for request in self._requests:
            if request.ready:
                _drop_answer(request)
            else:
                request.abandon()
        self._requests.clear()

    # --- handling -----------------------------------------------------------------------------------------

    def handle(self, frame: memoryview) -> None:
        """Handle one request."""
        connection = self._connection
        try:
            header, body = parse_request_header(frame)
            endpoint = self._shared.dispatcher.endpoint(header)
            if endpoint is None:
                self._refuse(header)
                return
            response = self._read_and_call(header, endpoint, frame, body)
        except DecodeError as error:
            connection.close(f"a request that cannot be read: {error}")
            return
        if response is None:
            return
        if type(response) is endpoint.response_class:
            self._answer_now(header, endpoint, response)
        else:
            waiting = _Request(header, endpoint, len(frame))
            if connection.frame_is_kept:
                waiting.kept_bytes = len(frame)
                self._shared.buffered_bytes += len(frame)
            self._requests.append(waiting)
            self._await(waiting, response)

    def _read_and_call(self, header: RequestHeader, endpoint: Endpoint, frame: memoryview, body: int) -> Any:
        """What the handler returns; for a long request, a coroutine that decodes it first."""
        version = header.api_version
        try:
            request, _ = decode_from(endpoint.request_class, frame, body, version, budget=VALUES_AT_ONCE)
        except OverBudgetError:
            self._connection.keep_frame()
            return self._handle_long(header, endpoint, frame, body)
        return self._shared.dispatcher.call(self._connection, header, endpoint, request)

    async def _handle_long(
        self, header: RequestHeader, endpoint: Endpoint, frame: memoryview, body: int
    ) -> Any:
        """Decode a request in a thread, then handle it."""
        decode = partial(decode_from, endpoint.request_class, frame, body, header.api_version)
        try:
            request, _ = await self._shared.validation.run(self._connection, decode)
        except DecodeError as error:
            self._connection.close(f"a request that cannot be read: {error}")
            return None
        response = self._shared.dispatcher.call(self._connection, header, endpoint, request)
        return await response if isinstance(response, Awaitable) else response

    def _answer_now(self, header: RequestHeader, endpoint: Endpoint, response: Any) -> None:
        is_long = holds_more(response, VALUES_AT_ONCE)
        if not self._requests and not is_long:
            self._connection.send(header, response)
            return
        request = _Request(header, endpoint, 0)
        self._requests.append(request)
        if is_long:
            self._encode(request, response)
        else:
            request.response, request.ready = response, True

    def _refuse(self, header: RequestHeader) -> None:
        """Answer, or close, where nobody handles the request."""
        refusal = self._shared.dispatcher.refusal(header)
        if refusal is None:
            self._connection.close(f"API key {header.api_key} version {header.api_version} is not supported")
        else:
            self._answer_now(*refusal)

    # --- waiting ------------------------------------------------------------------------------------------

    def _await(self, request: _Request, response: Pipelined | Awaitable[Any] | Watch) -> None:
        """Have the request answered when `response` is there."""
        if isinstance(response, Pipelined):
            request.pipelined = True
            self._pipelined_bytes += request.nbytes
            response = response.answer
        else:
            self._muting = request
        self._watch(request, response)

    def _watch(self, request: _Request, response: Awaitable[Any] | Watch) -> None:
        if not isinstance(response, Watch):
            response = asyncio.ensure_future(response, loop=self._shared.loop)
        request.future = response
        response.add_done_callback(partial(self._answered, request))

    def _encode(self, request: _Request, response: Any) -> None:
        """Have a long response encoded in a thread."""
        request.encoding = True
        if not request.pipelined:
            self._muting = request
        header = request.header
        encode = partial(response_parts, header.api_key, header.api_version, header.correlation_id, response)
        self._watch(request, self._shared.validation.run(self._connection, encode))

    def _answered(self, request: _Request, future: asyncio.Future[Any] | Watch) -> None:
        """A request that waited has its answer, or has done the first part of its work."""
        if self._muting is request:
            self._muting = None
        request.future = None
        try:
            response = future.result()
        except asyncio.CancelledError:
            response = None
        except Exception as error:
            response = self._shared.dispatcher.failed(
                self._connection, request.header, request.endpoint, error
            )
        if isinstance(response, Pipelined):
            self._await(request, response)
        elif not request.encoding and response is not None and holds_more(response, VALUES_AT_ONCE):
            self._encode(request, response)
        else:
            if request.pipelined:
                self._pipelined_bytes -= request.nbytes
            if request.kept_bytes:
                self._shared.release_memory(request.kept_bytes)
            request.response, request.ready = response, True
            if self._connection.closed:
                _drop_answer(request)
                return
            self._send_ready()
        self._connection.go_on()

    def _send_ready(self) -> None:
        """Send the answers whose turn it is."""
        requests, connection = self._requests, self._connection
        while requests and requests[0].ready and not connection.closed:
            request = requests.popleft()
            if request.response is not None:
                connection.send(request.header, request.response)


def _drop_answer(request: _Request) -> None:
    """Let go of the log files that an unsent answer holds."""
    if request.response is not None:
        header, parts = request.header, request.response
        if not isinstance(parts, list):
            parts = response_parts(header.api_key, header.api_version, header.correlation_id, parts)
        discard(parts)
        request.response = None
