"""One client's connection: frames in, answers out, in order.

A frame is a size (int32) and that many bytes: a request header and a request. No asyncio transport: the
event loop watches the descriptor, and `_on_readable` receives, handles and usually answers within one call,
without a task.

    readable -> recv into the shared buffer -> complete frames are handled in place
                                            -> what is left moves to the connection's own ReceiveBuffer

The connection stops handling frames (is *muted*) while

- a request waits for its answer and is not Pipelined, as Apache Kafka's channels are;
- too many pipelined requests wait;
- the client does not read: more than OUTBOUND_MARK is unsent.

A muted connection reads ahead READ_AHEAD bytes, so that it sees a client going away, then no more: neither
slow readers nor eager writers take memory. Answers are sent in the order of the requests, whatever order
they are ready in. When a client half-closes, what it asked for before is still answered.

Broken input (DecodeError, a size beyond the limit, an API or version that is not supported) closes the
connection with one log line, as Apache Kafka's Processor does; there is no answer that such a client would
understand.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkapy import handlers
from kafkapy.context import ANONYMOUS, Pipelined, RequestContext
from kafkapy.outbound import OutboundQueue, discard
from kafkapy.protocol.codec import decode_from, schema_of
from kafkapy.protocol.errors import DecodeError, ErrorCode, KafkaError
from kafkapy.protocol.frames import RequestHeader, parse_request_header, response_parts
from kafkapy.protocol.types import ApiKey
from kafkapy.receive_buffer import ReceiveBuffer

if TYPE_CHECKING:
    from kafkapy.listeners import Listener
    from kafkapy.server import Server

OUTBOUND_MARK: Final = 256 << 10
"""Unsent bytes above which no further request is handled."""

READ_AHEAD: Final = 64 << 10
"""What a muted connection reads, to notice a client that goes away."""

MAX_PIPELINED: Final = 256
"""Requests of one connection that may wait for their answers at once."""

MAX_PIPELINED_BYTES: Final = 64 << 20
"""Their bytes, at most."""

TIME_SLICE: Final = 0.005
"""Seconds after which one connection's buffered requests give way to other connections."""

_RETAINED_CAPACITY: Final = 64 << 10
"""An empty buffer of at least this size is kept for the next request: its client sends large frames."""

_SIZE: Final = struct.Struct(">i")

logger = logging.getLogger(__name__)


class _Answer:
    """A request in flight: its place in the order of answers."""

    __slots__ = ("endpoint", "future", "header", "nbytes", "pipelined", "ready", "response")

    def __init__(self, header: RequestHeader, endpoint: handlers.Endpoint, nbytes: int) -> None:
        self.header = header
        self.endpoint = endpoint
        self.nbytes = nbytes
        self.future: asyncio.Future[Any] | None = None
        self.pipelined = False
        self.ready = False
        self.response: Any = None


class Connection:
    """A connected client; made by the server when it accepts."""

    __slots__ = (
        "_answers",
        "_buffer",
        "_ended",
        "_fd",
        "_frame_is_shared",
        "_frame_kept",
        "_local",
        "_loop",
        "_muting",
        "_outbound",
        "_pipelined_bytes",
        "_reading",
        "_received_before",
        "_resuming",
        "_server",
        "_socket",
        "_writing",
        "closed",
        "last_active",
        "listener",
        "peer_host",
        "peer_port",
        "principal",
        "receiving_since",
    )

    def __init__(
        self, server: Server, listener: Listener, sock: socket.socket, peer_host: str, peer_port: int
    ) -> None:
        self.listener = listener
        self.peer_host = peer_host
        self.peer_port = peer_port
        self.principal = ANONYMOUS
        self.closed = False
        self.last_active: float = server.now
        """When bytes last came or went, as the server's coarse clock had it."""
        self.receiving_since = self.last_active
        """Since when an incomplete frame's progress is watched, while the server lists it as incomplete."""
        self._server = server
        self._loop = server.loop
        self._socket = sock
        self._fd = sock.fileno()
        self._local: tuple[str, int] | None = None
        self._outbound = OutboundQueue(sock)
        self._buffer: ReceiveBuffer | None = None
        self._answers: deque[_Answer] = deque()
        self._muting: _Answer | None = None
        """The request that must be answered before the next is handled."""
        self._pipelined_bytes = 0
        self._reading = True
        self._writing = False
        self._received_before = 0
        """How much of the incomplete frame was there at `receiving_since`."""
        self._resuming = False
        """`_resume` is scheduled, to go on with buffered frames."""
        self._ended = False
        """The client has sent all it will."""
        self._frame_is_shared = False
        self._frame_kept = False
        self._loop.add_reader(self._fd, self._on_readable)

    def __str__(self) -> str:
        return f"{self.peer_host}:{self.peer_port}"

    @property
    def local_host(self) -> str:
        """The address by which the client came in."""
        return self._local_address()[0]

    @property
    def local_port(self) -> int:
        return self._local_address()[1]

    @property
    def waits_for_answer(self) -> bool:
        """Whether the client has asked something and is not answered yet."""
        return bool(self._answers)

    @property
    def has_unsent(self) -> bool:
        return self._outbound.nbytes > 0

    def keep_frame(self) -> None:
        """Give the bytes of the request being handled to its handler, for as long as it holds views of
        them.

        To be called by a handler before it returns; see `kafkapy.context`.
        """
        self._frame_kept = True
        if self._frame_is_shared:
            self._server.replace_receive_buffer()

    # --- reading ------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        """Receive once, and handle the frames that are complete."""
        buffer = self._buffer
        if buffer is None:
            view, start, room = self._server.receive_view, 0, self._server.receive_view
        else:
            room = buffer.view[buffer.end :]
        try:
            nbytes = self._socket.recv_into(room)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(f"reading failed: {error.strerror}", level=logging.DEBUG)
            return
        if nbytes == 0:
            self._on_end()
            return
        self.last_active = self._server.now
        if buffer is None:
            self._frame_is_shared = True
            end = nbytes
        else:
            buffer.end += nbytes
            view, start, end = buffer.view, buffer.start, buffer.end
        self._go_on(view, start, end)

    def _go_on(self, view: memoryview, start: int, end: int) -> None:
        """Handle the frames of `view[start:end]` and look after what is left."""
        try:
            left = self._handle_frames(view, start, end)
        except Exception:
            logger.exception("Closing the connection of %s: a request could not be handled", self)
            self.close()
            return
        finally:
            shared, self._frame_is_shared = self._frame_is_shared, False
        if self.closed:
            return
        if shared:
            if left < end:
                self._own(ReceiveBuffer(view[left:end], 0))
        else:
            self._after_own_buffer(left)
        self._watch_frame(handled=left > start)
        if self._ended and not self._buffer:
            self._close_when_sent()

    def _after_own_buffer(self, left: int) -> None:
        buffer = self._buffer
        assert buffer is not None
        buffer.start = left
        if self._frame_kept:
            self._frame_kept = False
            self._disown()
            if left < buffer.end:
                self._own(ReceiveBuffer(buffer.view[left : buffer.end], 0))
        elif left == buffer.end:
            buffer.start = buffer.end = 0
            if buffer.capacity < _RETAINED_CAPACITY or not self._server.may_retain:
                self._disown()

    def _handle_frames(self, view: memoryview, start: int, end: int) -> int:
        """Handle complete frames from `start` on; where the first unhandled byte is."""
        stop_at = self._loop.time() + TIME_SLICE
        while end - start >= 4 and not self._is_muted():
            (size,) = _SIZE.unpack_from(view, start)
            if not 0 <= size <= self._server.max_frame_bytes:
                self.close(
                    f"a request of {size} bytes (socket.request.max.bytes is {self._server.max_frame_bytes})"
                )
                return end
            body = start + 4
            if end - body < size:
                break
            start = body + size
            self._handle_frame(view[body:start])
            if self.closed:
                return end
            if start < end and self._loop.time() > stop_at:
                self._resume_soon()
                break
        return start

    def _is_muted(self) -> bool:
        return (
            self._muting is not None
            or self._outbound.nbytes > OUTBOUND_MARK
            or len(self._answers) >= MAX_PIPELINED
            or self._pipelined_bytes > MAX_PIPELINED_BYTES
        )

    def _watch_frame(self, *, handled: bool) -> None:
        """After reading: watch an incomplete frame; make room to read on, or pause reading."""
        buffer, incomplete = self._buffer, self._server.incomplete
        if buffer is None or buffer.start == buffer.end or self._resuming or self._is_muted():
            incomplete.discard(self)
            if self._unhandled >= READ_AHEAD:
                self._pause_reading()
                return
            wanted = READ_AHEAD
        else:
            if handled or self not in incomplete:
                incomplete.add(self)
                self.receiving_since, self._received_before = self._server.now, 0
            wanted = 4
            if self._unhandled >= 4:
                wanted += _SIZE.unpack_from(buffer.view, buffer.start)[0]
        if buffer is None or buffer.start == buffer.end:
            return
        if self._server.has_memory:
            self._server.buffered_bytes += buffer.make_room(wanted)
        elif buffer.end == buffer.capacity:
            self._pause_reading()
            self._server.wait_for_memory(self)

    def watch_progress(self) -> None:
        """From now on, watch how fast the incomplete frame comes."""
        self.receiving_since = self._server.now
        self._received_before = self._unhandled

    def received_since(self) -> int:
        """Bytes of the incomplete frame that came since `receiving_since`."""
        return self._unhandled - self._received_before

    @property
    def _unhandled(self) -> int:
        return 0 if self._buffer is None else self._buffer.end - self._buffer.start

    def release_idle_buffer(self) -> None:
        """Let go of a buffer that was kept for a next large frame."""
        if self._buffer is not None and self._buffer.start == self._buffer.end:
            self._disown()

    def resume_reading(self) -> None:
        """Read on after a pause for memory."""
        if not self.closed and not self._reading and not self._ended:
            self._watch_frame(handled=False)
            if self._buffer is None or self._buffer.end < self._buffer.capacity:
                self._reading = True
                self._loop.add_reader(self._fd, self._on_readable)

    def _own(self, buffer: ReceiveBuffer) -> None:
        self._buffer = buffer
        self._server.buffered_bytes += buffer.capacity

    def _disown(self) -> None:
        if self._buffer is not None:
            self._server.release_memory(self._buffer.capacity)
            self._buffer = None

    def _pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def _on_end(self) -> None:
        """The client has half-closed or gone."""
        for answer in self._answers:
            if answer.endpoint.api.abandon and answer.future is not None:
                answer.future.cancel()
        self.finish()

    def finish(self) -> None:
        """Answer what was asked for, then close."""
        self._ended = True
        self._pause_reading()
        if not self._is_muted() and not self._resuming:
            self._disown()
            self._server.incomplete.discard(self)
        self._close_when_sent()

    def _close_when_sent(self) -> None:
        if not self._answers and not self._outbound.nbytes and not self._resuming:
            self.close()

    # --- handling -----------------------------------------------------------------------------------------

    def _handle_frame(self, frame: memoryview) -> None:
        try:
            header, body = parse_request_header(frame)
            api = handlers.BY_KEY.get(header.api_key)
            if api is None or not api.min_version <= header.api_version <= api.max_version:
                self._refuse(header)
                return
            endpoint = handlers.endpoint(header.api_key)
            request, _ = decode_from(endpoint.request_class, frame, body, header.api_version)
        except DecodeError as error:
            self.close(f"a request that cannot be read: {error}")
            return
        context = RequestContext(
            self._server.broker,
            self,
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id,
        )
        try:
            response = endpoint.handle(context, request)
        except Exception as error:
            response = self._failed(header, endpoint, error)
            if response is None:
                return
        if type(response) is endpoint.response_class:
            if self._answers:
                answer = _Answer(header, endpoint, 0)
                answer.response, answer.ready = response, True
                self._answers.append(answer)
            else:
                self._send(header, response)
        elif response is not None:
            answer = _Answer(header, endpoint, len(frame))
            self._answers.append(answer)
            self._await(answer, response)

    def _refuse(self, header: RequestHeader) -> None:
        """An API or version that is not in the table."""
        if header.api_key == ApiKey.API_VERSIONS:
            # KIP-511: whatever version was asked, the client understands version 0 and learns what to ask.
            from kafkapy.handlers.api_versions import unsupported_version

            answer = _Answer(header._replace(api_version=0), handlers.endpoint(ApiKey.API_VERSIONS), 0)
            answer.response, answer.ready = unsupported_version(), True
            self._answers.append(answer)
            self._send_ready()
        else:
            self.close(f"API key {header.api_key} version {header.api_version} is not supported")

    def _await(self, answer: _Answer, response: Pipelined | Awaitable[Any]) -> None:
        """Have the request answered when `response` is there."""
        if isinstance(response, Pipelined):
            answer.pipelined = True
            self._pipelined_bytes += answer.nbytes
            response = response.answer
        elif not self.closed:
            self._muting = answer
        future = asyncio.ensure_future(response, loop=self._loop)
        answer.future = future
        future.add_done_callback(partial(self._answered, answer))

    def _answered(self, answer: _Answer, future: asyncio.Future[Any]) -> None:
        """A request that waited has its answer, or the first part of its work behind it."""
        if self._muting is answer:
            self._muting = None
        answer.future = None
        try:
            response = future.result()
        except asyncio.CancelledError:
            response = None
            if not self._ended:
                self.close("its request was cancelled")
        except Exception as error:
            response = self._failed(answer.header, answer.endpoint, error)
        if isinstance(response, Pipelined):
            self._await(answer, response)
        else:
            if answer.pipelined:
                self._pipelined_bytes -= answer.nbytes
            answer.response, answer.ready = response, True
            if self.closed:
                self._discard(answer)
                return
            self._send_ready()
        self._unmuted()

    def _failed(self, header: RequestHeader, endpoint: handlers.Endpoint, error: Exception) -> Any:
        """The answer to a request whose handler failed; None, and a closed connection, where none can be."""
        if isinstance(error, KafkaError):
            code = error.code
        else:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            logger.error(
                "%s v%d from %s (client id %s) failed",
                ApiKey(header.api_key).name,
                header.api_version,
                self,
                header.client_id,
                exc_info=error,
            )
        response = endpoint.response_class()
        fields = schema_of(endpoint.response_class).root.fields
        if not any(field.name == "error_code" and header.api_version in field.versions for field in fields):
            self.close(f"{ApiKey(header.api_key).name} has no answer for {code.name}")
            return None
        response.error_code = code
        return response

    # --- writing ------------------------------------------------------------------------------------------

    def _send_ready(self) -> None:
        """Send the answers whose turn it is."""
        answers = self._answers
        while answers and answers[0].ready and not self.closed:
            answer = answers.popleft()
            if answer.response is not None:
                self._send(answer.header, answer.response)

    def _send(self, header: RequestHeader, response: Any) -> None:
        try:
            parts = response_parts(header.api_key, header.api_version, header.correlation_id, response)
            done = self._outbound.send(parts)
        except OSError as error:
            self.close(f"sending failed: {error}", level=logging.DEBUG)
            return
        if not done and not self._writing:
            self._writing = True
            self._loop.add_writer(self._fd, self._on_writable)

    def _on_writable(self) -> None:
        self.last_active = self._server.now
        try:
            done = self._outbound.flush()
        except OSError as error:
            self.close(f"sending failed: {error}", level=logging.DEBUG)
            return
        if done:
            self._writing = False
            self._loop.remove_writer(self._fd)
        self._unmuted()

    def _unmuted(self) -> None:
        """Something that muted the connection has passed: go on, if that was all."""
        if self.closed or self._is_muted():
            return
        if self._buffer is not None and self._buffer.start < self._buffer.end and not self._resuming:
            self._resume_soon()
        elif self._ended:
            self._close_when_sent()
        elif not self._reading:
            self.resume_reading()

    def _resume_soon(self) -> None:
        self._resuming = True
        self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._resuming = False
        buffer = self._buffer
        if self.closed or buffer is None:
            return
        self._go_on(buffer.view, buffer.start, buffer.end)
        if not self.closed and not self._resuming and not self._is_muted() and not self._reading:
            self.resume_reading()

    # --- closing ------------------------------------------------------------------------------------------

    def close(self, why: str | None = None, *, level: int = logging.WARNING) -> None:
        """Close now; what is not sent is dropped. `why` is logged."""
        if self.closed:
            return
        self.closed = True
        if why is not None:
            logger.log(level, "Closing the connection of %s: %s", self, why)
        self._pause_reading()
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)
        self._disown()
        self._server.incomplete.discard(self)
        self._outbound.close()
        for answer in self._answers:
            if answer.ready:
                self._discard(answer)
            elif answer.future is not None and answer.endpoint.api.abandon:
                answer.future.cancel()
        self._answers.clear()
        self._socket.close()
        self._server.forget(self)

    @staticmethod
    def _discard(answer: _Answer) -> None:
        """Let go of the log files that an unsent answer holds."""
        if answer.response is not None:
            header = answer.header
            discard(
                response_parts(header.api_key, header.api_version, header.correlation_id, answer.response)
            )
            answer.response = None

    def _local_address(self) -> tuple[str, int]:
        if self._local is None:
            host, port, *_ = self._socket.getsockname()
            self._local = host.removeprefix("::ffff:"), port
        return self._local
