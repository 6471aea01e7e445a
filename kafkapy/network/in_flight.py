"""The unanswered requests of one connection, which are handled and answered in order.

`handle` parses a frame and calls its handler. An answer that is ready at once, with no other before it, is
sent directly; all others are queued here. A request whose answer is not Pipelined keeps the connection from
handling the next one until it is answered.

A request or an answer of more than VALUES_AT_ONCE values is decoded or encoded in a thread, where connections
take turns as for validation. The number of values is known only after decoding: decoding begins on the event
loop, and begins again in a thread if the request turns out to be long.

With quotas, the answer says for how long its client is throttled, and is sent at once. The connection handles
its next request after that time, and reads nothing until then (KIP-219, kafkapy/quotas).

A request that cannot be decoded, or that has no handler, closes the connection with one log line, as Apache
Kafka's Processor does: such a client would understand no answer. The dispatcher finds the handler of a
request (kafkapy/handlers/dispatch.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkapy.loop.turns import VALUES_AT_ONCE
from kafkapy.loop.validation import Payer
from kafkapy.loop.waiters import Watch
from kafkapy.network.answers import Pipelined
from kafkapy.network.dispatcher import Endpoint
from kafkapy.network.freeing import elements_of, free_response
from kafkapy.network.outbound import discard
from kafkapy.network.requester import Sender
from kafkapy.network.shared import Shared
from kafkapy.protocol.codec import decode_from, holds_more
from kafkapy.protocol.errors import DecodeError, OverBudgetError
from kafkapy.protocol.frames import RequestHeader, parse_request_header, response_parts, with_throttle_time
from kafkapy.protocol.types import ApiKey, Part

if TYPE_CHECKING:
    from kafkapy.network.error_finder import FindErrors
    from kafkapy.quotas.managers import QuotaManagers

MAX_PIPELINED: Final = 256
"""The most unanswered requests of one connection."""

MAX_PIPELINED_BYTES: Final = 64 << 20
"""The most bytes of these requests."""

_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)

logger = logging.getLogger(__name__)


_FRAME: Final = object()
"""Mutes a connection instead of a request."""


class Client(Payer, Sender, Protocol):
    """A connection, as its requests see it."""

    charged: int
    closed: bool
    frame_is_kept: bool
    read_at: float
    """When the bytes of its requests were received; kept while metrics are on."""

    def send(self, parts: list[Part]) -> None:
        """Send the parts of a response."""

    def keep_frame(self) -> None:
        """Keep the bytes of the present request valid for the holders of views."""

    def go_on(self) -> None:
        """Handle the requests that waited for an answer."""

    def pause(self) -> None:
        """Read no more bytes until the client is not throttled any more."""

    def release_read(self) -> None:
        """Give back the memory that answers were charged, once all are made and read."""

    def close(self, why: str | None = None) -> None:
        """Close now, and log why."""


class _Request:
    """A request in flight.

    `response` is None until it is `ready`, and if there is no answer to send.
    """

    __slots__ = (
        "encoded",
        "encoding",
        "endpoint",
        "expected",
        "future",
        "header",
        "held",
        "kept_bytes",
        "pipelined",
        "ready",
        "response",
    )

    def __init__(self, header: RequestHeader, endpoint: Endpoint) -> None:
        self.header = header
        self.endpoint = endpoint
        self.kept_bytes = 0
        """The bytes of the receive buffer that its handler keeps until the answer."""
        self.held: list[Any] | None = None
        """The elements of a long request, which are freed in pieces after it."""
        self.future: asyncio.Future[Any] | Watch | None = None
        self.pipelined = False
        self.encoding = False
        """Whether its response is being encoded in a thread."""
        self.expected: Any = None
        """The response that the answer is likely to be, once it is encoded."""
        self.encoded: list[Part] = []
        """The parts of the expected response."""
        self.ready = False
        self.response: Any = None
        """A response, or the parts of one that is encoded."""

    def abandon(self) -> None:
        """The client is gone: cancel the request if it only reads."""
        if self.future is not None and self.endpoint.abandon and not self.encoding:
            self.future.cancel()


class _Throttle:
    """The time until which a client is throttled."""

    __slots__ = ("timer", "until")

    def __init__(self, until: float, timer: asyncio.TimerHandle) -> None:
        self.until = until
        self.timer = timer


class RequestsInFlight:
    """The unanswered requests of a connection, oldest first."""

    __slots__ = ("_connection", "_muting", "_pipelined_bytes", "_requests", "_shared", "_throttle")

    def __init__(self, connection: Client, shared: Shared) -> None:
        self._connection = connection
        self._shared = shared
        self._requests: list[_Request] = []
        """At most MAX_PIPELINED. A deque would take 760 bytes while it is empty."""
        self._muting: _Request | _Throttle | object | None = None
        """The request or frame to be answered, or the time to pass, before the next is handled."""
        self._throttle: _Throttle | None = None
        """The time until which the client is throttled, if it is."""
        self._pipelined_bytes = 0

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def is_throttled(self) -> bool:
        """Whether the client is throttled now."""
        return self._throttle is not None

    def unanswered(self) -> tuple[list[int], int]:
        """The API keys of requests that wait, and how many answers wait for earlier ones."""
        waiting = [request.header.api_key for request in self._requests if not request.ready]
        return waiting, len(self._requests) - len(waiting)

    def may_handle(self) -> bool:
        """Whether another request may be handled now."""
        return (
            self._muting is None
            and len(self._requests) < MAX_PIPELINED
            and self._pipelined_bytes < MAX_PIPELINED_BYTES
        )

    def mute(self) -> None:
        """Handle nothing until `unmute`: a frame that is no request is being answered."""
        self._muting = _FRAME

    def unmute(self) -> None:
        """The frame is answered."""
        if self._muting is _FRAME:
            self._muting = self._throttle
            self._connection.go_on()

    def abandon(self) -> None:
        """The client is gone or has half-closed: cancel the requests that only read."""
        for request in tuple(self._requests):
            request.abandon()

    def close(self) -> None:
        """The connection is closed: later answers are dropped."""
        for request in self._requests:
            if request.ready:
                _drop_answer(request)
            else:
                request.abandon()
        self._requests.clear()
        if self._throttle is not None:
            self._throttle.timer.cancel()

    # --- handling -----------------------------------------------------------------------------------------

    def handle(self, frame: memoryview) -> None:
        """Handle one request."""
        connection = self._connection
        try:
            header, body = parse_request_header(frame)
            header.arrived_at, header.nbytes = time.monotonic(), len(frame)
            metrics = self._shared.metrics
            if metrics is not None:
                header.read_at = connection.read_at
            endpoint = self._shared.dispatcher.endpoint(connection, header)
            if endpoint is None:
                self._refuse(header)
                return
            version = header.api_version
            try:
                request, _ = decode_from(endpoint.request_class, frame, body, version, budget=VALUES_AT_ONCE)
            except OverBudgetError:
                connection.keep_frame()
                long = self._new_request(header, endpoint)
                self._wait(long, self._handle_long(long, frame, body), frame)
                return
            else:
                response: Any = self._shared.dispatcher.call(connection, header, endpoint, request)
                if metrics is not None:
                    metrics.handled(header, request)
        except DecodeError as error:
            connection.close(f"a request that cannot be read: {error}")
            return
        if response is None:
            self._end(header, None)
        elif type(response) is endpoint.response_class or type(response) is list:
            self._answer_now(header, endpoint, response)
        else:
            self._wait(self._new_request(header, endpoint), response, frame)

    def _wait(self, waiting: _Request, response: Any, frame: memoryview) -> None:
        """Answer a request when `response` is ready."""
        if self._connection.frame_is_kept:
            waiting.kept_bytes = len(frame)
            self._shared.buffered_bytes += len(frame)
        self._requests.append(waiting)
        self._await(waiting, response)

    async def _handle_long(self, waiting: _Request, frame: memoryview, body: int) -> Any:
        """Decode a request in a thread, then handle it."""
        header, endpoint = waiting.header, waiting.endpoint
        decode = partial(_decode_long, endpoint, frame, body, header.api_version)
        try:
            request, waiting.held = await self._shared.validation.run(self._connection, decode)
        except DecodeError as error:
            self._connection.close(f"a request that cannot be read: {error}")
            return None
        metrics = self._shared.metrics
        if metrics is not None:
            header.started_at = time.monotonic()
        response = self._shared.dispatcher.call(self._connection, header, endpoint, request)
        if metrics is not None:
            metrics.handled(header, request)
        return await response if isinstance(response, Awaitable) else response

    def _answer_now(self, header: RequestHeader, endpoint: Endpoint, response: Any) -> None:
        is_long = type(response) is not list and holds_more(response, VALUES_AT_ONCE)
        if not self._requests and not is_long:
            self._end(header, response)
            return
        request = self._new_request(header, endpoint)
        self._requests.append(request)
        if is_long:
            self._encode(request, response)
        else:
            request.response, request.ready = response, True

    def _new_request(self, header: RequestHeader, endpoint: Endpoint) -> _Request:
        """The state of a request that is not answered at once."""
        if self._shared.quotas is not None:
            header.spent = time.monotonic() - header.arrived_at
        return _Request(header, endpoint)

    def _refuse(self, header: RequestHeader) -> None:
        """Answer a request without a handler, or close the connection."""
        refusal = self._shared.dispatcher.refusal(header)
        if refusal is None:
            self._connection.close(f"API key {header.api_key} version {header.api_version} is not supported")
        else:
            self._answer_now(*refusal)

    # --- waiting ------------------------------------------------------------------------------------------

    def _await(self, request: _Request, response: Pipelined | Awaitable[Any] | Watch) -> None:
        """Answer the request when `response` is ready."""
        if isinstance(response, Pipelined):
            request.pipelined = True
            self._pipelined_bytes += request.header.nbytes
            self._watch(request, response.answer)
            if response.expected is not None and self._shared.quotas is None:
                self._shared.loop.call_soon(self._encode_ahead, request, response.expected)
        else:
            self._muting = request
            self._watch(request, response)

    def _watch(self, request: _Request, response: Awaitable[Any] | Watch) -> None:
        if not isinstance(response, Watch):
            if self._shared.quotas is not None and isinstance(response, Coroutine):
                response = self._shared.quotas.timed(response, request.header)
            response = asyncio.ensure_future(response, loop=self._shared.loop)
        request.future = response
        response.add_done_callback(partial(self._answered, request))

    def _encode_ahead(self, request: _Request, expected: Callable[[], Any]) -> None:
        """Encode the response that is expected: now the request waits, later its client does."""
        if request.future is not None:
            header, response = request.header, expected()
            request.encoded = response_parts(
                header.api_key, header.api_version, header.correlation_id, response
            )
            request.expected = response

    def _encode(self, request: _Request, response: Any) -> None:
        """Encode a long response in a thread."""
        if (quotas := self._shared.quotas) is not None:
            response = self._apply_quotas(quotas, request.header, response)
            request.header.is_exempt = True
        request.encoding = True
        if not request.pipelined:
            self._muting = request
        find = None
        if self._shared.metrics is not None:
            from kafkapy.network.error_finder import error_finder

            find = error_finder(type(response))
        encode = partial(_encode_and_free, request.header, response, find)
        self._watch(request, self._shared.validation.run(self._connection, encode))

    def _answered(self, request: _Request, future: asyncio.Future[Any] | Watch) -> None:
        """Take the result of a request that waited: its answer, or another awaitable."""
        if self._muting is request:
            self._muting = self._throttle
        request.future = None
        try:
            response = future.result()
        except asyncio.CancelledError:
            response = None
        except Exception as error:
            response = self._shared.dispatcher.failed(
                self._connection, request.header, request.endpoint, error
            )
        if request.held is not None and not isinstance(response, Pipelined):
            self._shared.freeing.free(request.held)
            request.held = None
        is_expected = response is not None and response is request.expected
        is_encoded = is_expected or request.encoding or type(response) is list
        if isinstance(response, Pipelined):
            self._await(request, response)
        elif not is_encoded and response is not None and holds_more(response, VALUES_AT_ONCE):
            self._encode(request, response)
        else:
            if request.pipelined:
                self._pipelined_bytes -= request.header.nbytes
            if request.kept_bytes:
                self._shared.release_memory(request.kept_bytes)
            request.response = request.encoded if is_expected else response
            request.ready = True
            if self._shared.metrics is not None:
                request.header.ready_at = time.monotonic()
            if self._connection.closed:
                _drop_answer(request)
                return
            self._send_ready()
        self._connection.go_on()

    def _send_ready(self) -> None:
        """Send the answers that are ready and next in order."""
        requests, connection = self._requests, self._connection
        while requests and requests[0].ready and not connection.closed:
            request = requests.pop(0)
            self._end(request.header, request.response)

    # --- the end ------------------------------------------------------------------------------------------

    def _end(self, header: RequestHeader, response: Any) -> None:
        """Send the answer to a request, or nothing for None.

        All requests that were handled end here. `header` has the size of the request and when it arrived;
        `response` has its error, unless it is encoded already.
        """
        quotas = self._shared.quotas
        if quotas is not None:
            response = self._apply_quotas(quotas, header, response)
            began = time.monotonic()
        metrics = self._shared.metrics
        sending_at = 0.0
        if metrics is not None:
            sending_at = time.monotonic()
            if header.api_key == _PRODUCE:
                metrics.clients.of(self._connection.principal, header.client_id).produced += header.nbytes
        if response is None:
            if metrics is not None:
                metrics.ended(self._connection, header, None, sending_at)
            if self._connection.charged:
                self._connection.release_read()
            return
        parts = response
        if type(response) is not list:
            try:
                parts = response_parts(header.api_key, header.api_version, header.correlation_id, response)
            except Exception:
                logger.exception(
                    "The answer to %s (API key %d) could not be encoded", self._connection, header.api_key
                )
                self._connection.close()
                return
        if metrics is not None and header.api_key == _FETCH:
            fetched = sum(len(part) if type(part) is bytes else part.nbytes for part in parts)
            metrics.clients.of(self._connection.principal, header.client_id).fetched += fetched
        self._connection.send(parts)
        if metrics is not None:
            metrics.ended(self._connection, header, response, sending_at)
        if self._connection.charged:
            self._connection.release_read()
        if quotas is not None:
            quotas.note_time(self._connection.principal, header, time.monotonic() - began)

    def _apply_quotas(self, quotas: QuotaManagers, header: RequestHeader, response: Any) -> Any:
        """Throttle the client if it exceeds a quota; return the response, which says for how long."""
        throttle_ms = quotas.throttle_ms(self._connection.principal, header, response)
        if throttle_ms <= 0 or self._connection.closed:
            return response
        self._begin_throttle(throttle_ms / 1000)
        if self._shared.metrics is not None:
            client = self._shared.metrics.clients.of(self._connection.principal, header.client_id)
            client.throttles += 1
            client.throttled_seconds += throttle_ms / 1000
        if type(response) is list:
            return with_throttle_time(response, header.api_key, header.api_version, throttle_ms)
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
        return response

    def _begin_throttle(self, seconds: float) -> None:
        """Handle no request for so long; of several times, the last to end counts."""
        loop, throttle = self._shared.loop, self._throttle
        until = loop.time() + seconds
        if throttle is not None:
            if until <= throttle.until:
                return
            throttle.timer.cancel()
        self._throttle = _Throttle(until, loop.call_later(seconds, self.end_throttle))
        if self._muting is throttle:
            self._muting = self._throttle
        if throttle is None:
            loop.call_soon(self._connection.pause)  # after the bytes that are being handled

    def end_throttle(self) -> None:
        """Handle requests again: the time is over for which the client is throttled."""
        if self._throttle is not None:
            self._throttle.timer.cancel()
        if self._muting is self._throttle:
            self._muting = None
        self._throttle = None
        self._connection.go_on()


def _decode_long(endpoint: Endpoint, frame: memoryview, body: int, version: int) -> tuple[Any, list[Any]]:
    """Return a request and the elements of its arrays."""
    request, _ = decode_from(endpoint.request_class, frame, body, version)
    return request, elements_of(request)


def _encode_and_free(header: RequestHeader, response: Any, find: FindErrors | None) -> list[Part]:
    if find is not None:
        header.errors = Counter(find(response))
    parts = response_parts(header.api_key, header.api_version, header.correlation_id, response)
    free_response(response)
    return parts


def _drop_answer(request: _Request) -> None:
    """Release the log files that an unsent answer holds."""
    if request.response is not None:
        header, parts = request.header, request.response
        if not isinstance(parts, list):
            parts = response_parts(header.api_key, header.api_version, header.correlation_id, parts)
        discard(parts)
        request.response = None
