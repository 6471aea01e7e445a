"""One client's connection: frames in, answers out.

A frame is a size (int32) and that many bytes: a request header and a request. No asyncio transport: the
event loop watches the descriptor, and `_on_readable` receives, handles and usually answers within one call,
without a task.

    readable -> recv into the server's shared buffer -> complete frames are handled in place (in_flight.py)
                                                     -> what is left moves to an own ReceiveBuffer

The connection stops handling frames (is *muted*) while a request waits that must be answered before the
next (network/in_flight.py), and while its client does not read: more than OUTBOUND_MARK is unsent. A muted
connection reads READ_AHEAD bytes ahead, so that it sees a client going away, then no more: neither slow
readers nor eager writers take memory.

When a client half-closes, what it asked for before is still answered. Broken input closes the connection
with one log line.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kafkapy.network.channel import Channel
from kafkapy.network.in_flight import RequestsInFlight
from kafkapy.network.outbound import OutboundQueue
from kafkapy.network.receive_buffer import ReceiveBuffer
from kafkapy.network.shared import Shared
from kafkapy.protocol.frames import RequestHeader, response_parts

if TYPE_CHECKING:
    from kafkapy.configs.listeners import Listener

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of an unauthenticated client, as Apache Kafka names it."""

OUTBOUND_MARK: Final = 256 << 10
"""Unsent bytes above which no further request is handled."""

READ_AHEAD: Final = 64 << 10
"""What a muted connection reads, to notice a client that goes away."""

TIME_SLICE: Final = 0.005
"""Seconds after which one connection's buffered requests give way to other connections."""

_RETAINED_CAPACITY: Final = 64 << 10
"""An empty buffer of at least this size is kept for the next request: its client sends large frames."""

_SIZE: Final = struct.Struct(">i")

logger = logging.getLogger(__name__)


class Connection:
    """A connected client; made by the server when it accepts."""

    __slots__ = (
        "_buffer",
        "_channel",
        "_ended",
        "_fd",
        "_frame_is_shared",
        "_handling",
        "_loading",
        "_local_host",
        "_loop",
        "_on_close",
        "_outbound",
        "_reading",
        "_received_before",
        "_requests",
        "_resuming",
        "_shared",
        "_stalled",
        "_writing",
        "closed",
        "frame_is_kept",
        "is_incomplete",
        "last_active",
        "listener",
        "peer_host",
        "peer_port",
        "principal",
        "receiving_since",
        "validation_paid_at",
    )

    def __init__(
        self,
        shared: Shared,
        listener: Listener,
        channel: Channel,
        peer_host: str,
        peer_port: int,
        on_close: Callable[[Connection], None],
    ) -> None:
        """`on_close` is called once, when the connection has closed."""
        self.listener = listener
        self.peer_host = peer_host
        self.peer_port = peer_port
        self.principal = ANONYMOUS
        self.closed = False
        self.frame_is_kept = False
        """The handler has kept the bytes of the frame being handled, or of one beside it in its buffer."""
        self.last_active: float = shared.now
        """When bytes last came or went, as the server's coarse clock had it."""
        self.receiving_since = self.last_active
        """Since when an incomplete frame's progress is watched, while `is_incomplete`."""
        self.validation_paid_at = 0.0
        """When the validation of its batches has cost no more than its share (process/validation.py)."""
        self.is_incomplete = False
        """A request has begun to come and is not there: the sweep watches its progress."""
        self._shared = shared
        self._on_close = on_close
        self._loop = shared.loop
        self._channel = channel
        self._fd = channel.fileno
        self._local_host: str | None = None
        self._outbound = OutboundQueue(channel)
        self._requests = RequestsInFlight(self, shared)
        self._buffer: ReceiveBuffer | None = None
        """Bytes that are not handled yet; an empty one is kept for a while where frames are large."""
        self._received_before = 0
        """How much of the incomplete frame was there at `receiving_since`."""
        self._reading = True
        """The loop watches for bytes."""
        self._writing = False
        """The loop watches for room to send."""
        self._loading = False
        """A thread reads from the disk what is to be sent next."""
        self._resuming = False
        """`_resume` is scheduled, to go on with buffered frames."""
        self._stalled = False
        """There may be complete frames that were not handled because the connection is muted."""
        self._ended = False
        """The client has sent all it will, or all that is taken."""
        self._handling = False
        """A frame is being handled."""
        self._frame_is_shared = False
        """The frame being handled lies in the server's shared buffer."""
        self._loop.add_reader(self._fd, self._on_readable)

    def __str__(self) -> str:
        return f"{self.peer_host}:{self.peer_port}"

    @property
    def local_host(self) -> str:
        """The address by which the client came in."""
        if self._local_host is None:
            self._local_host = self._channel.local_host
        return self._local_host

    @property
    def held_files(self) -> int:
        """How many files of logs the unsent answers keep open, at most."""
        return self._outbound.files

    @property
    def waits_for_answer(self) -> bool:
        """Whether the client has asked something and is not answered yet."""
        return len(self._requests) > 0

    def keep_frame(self) -> None:
        """Give the bytes of the request being handled to its handler.

        They are the handler's for as long as it holds views of them. It calls this before it returns; later
        calls find them kept already. See `kafkapy.handlers.context`.
        """
        if not self._handling:
            return
        self.frame_is_kept = True
        if self._frame_is_shared:
            self._shared.replace_receive_buffer()

    # --- reading ------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        """Receive once, and handle the frames that are complete."""
        buffer = self._buffer
        room = self._shared.receive_view if buffer is None else buffer.view[buffer.end :]
        try:
            if self._channel.handshake_pending:
                self._channel.handshake()
                return
            nbytes = self._channel.receive_into(room)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(f"reading failed: {error.strerror}", level=logging.DEBUG)
            return
        if nbytes == 0:
            self._requests.abandon()
            self.finish()
            return
        self.last_active = self._shared.now
        if buffer is None:
            self._handle_shared(room, nbytes)
        else:
            buffer.end += nbytes
            self._handle_own(buffer)

    def _handle_shared(self, view: memoryview, end: int) -> None:
        """Handle what came into the shared buffer; the rest moves to a buffer of our own."""
        self._frame_is_shared = True
        left = self._handle_frames(view, 0, end)
        self._frame_is_shared = self.frame_is_kept = False
        if left < end and not self.closed:
            self._own(ReceiveBuffer(view[left:end]))
            self._after_handling(some=left > 0)

    def _handle_own(self, buffer: ReceiveBuffer) -> None:
        """Handle what is in our own buffer, and let go of it if it is not needed any more."""
        start, end = buffer.start, buffer.end
        buffer.start = left = self._handle_frames(buffer.view, start, end)
        if self.closed:
            return
        if self.frame_is_kept:
            self.frame_is_kept = False
            self._disown()
            if left < end:
                self._own(ReceiveBuffer(buffer.view[left:end]))
        elif left == end:
            buffer.start = buffer.end = 0
            if buffer.capacity < _RETAINED_CAPACITY or not self._shared.may_retain:
                self._disown()
        self._after_handling(some=left > start)

    def _handle_frames(self, view: memoryview, start: int, end: int) -> int:
        """Handle the complete frames of `view[start:end]`; where the first unhandled byte is."""
        shared, stop_at = self._shared, self._loop.time() + TIME_SLICE
        while end - start >= 4 and not self._is_muted():
            (size,) = _SIZE.unpack_from(view, start)
            if not 0 <= size <= shared.max_frame_bytes:
                self.close(f"a request of {size} bytes (socket.request.max.bytes={shared.max_frame_bytes})")
                break
            body = start + 4
            if end - body < size:
                break
            start = body + size
            self._handling = True
            try:
                self._requests.handle(view[body:start])
            except Exception:
                logger.exception("A request of %s could not be handled", self)
                self.close()
            self._handling = False
            if self.closed:
                break
            if start < end and self._loop.time() > stop_at:
                if not self._resuming:
                    self._resume_soon()
                break
        return start

    def _is_muted(self) -> bool:
        return self._outbound.nbytes > OUTBOUND_MARK or not self._requests.may_handle()

    def _after_handling(self, *, some: bool) -> None:
        """Watch an incomplete frame; make room to read on, or pause reading.

        `some`: frames were handled.
        """
        buffer, shared = self._buffer, self._shared
        unhandled = self._unhandled
        self._stalled = unhandled > 0 and self._is_muted()
        if buffer is None or not unhandled:
            self.is_incomplete = False
            return
        if self._stalled or self._resuming:
            self.is_incomplete = False
            if unhandled >= READ_AHEAD:
                self._pause_reading()
                return
            wanted = READ_AHEAD
        else:
            if some or not self.is_incomplete:
                self.is_incomplete = True
                self.receiving_since, self._received_before = shared.now, 0
            wanted = 4
            if unhandled >= 4:
                wanted += _SIZE.unpack_from(buffer.view, buffer.start)[0]
        if shared.has_memory:
            shared.buffered_bytes += buffer.make_room(wanted)
        elif buffer.end == buffer.capacity:
            self._pause_reading()
            shared.wait_for_memory(self)

    def watch_progress(self) -> None:
        """From now on, watch how fast the incomplete frame comes."""
        self.receiving_since = self._shared.now
        self._received_before = self._unhandled

    def received_since(self) -> int:
        """Bytes of the incomplete frame that came since `receiving_since`."""
        return self._unhandled - self._received_before

    @property
    def _unhandled(self) -> int:
        return 0 if self._buffer is None else self._buffer.end - self._buffer.start

    def release_idle_buffer(self) -> None:
        """Let go of a buffer that was kept for a next large frame."""
        if not self._unhandled:
            self._disown()

    def _own(self, buffer: ReceiveBuffer) -> None:
        self._buffer = buffer
        self._shared.buffered_bytes += buffer.capacity

    def _disown(self) -> None:
        if self._buffer is not None:
            self._shared.release_memory(self._buffer.capacity)
            self._buffer = None

    def _pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        """Read on after a pause, unless there still is no memory to read into."""
        if self.closed or self._reading or self._ended:
            return
        self._after_handling(some=False)
        if self._buffer is None or self._buffer.end < self._buffer.capacity:
            self._reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    # --- going on -----------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Something that muted the connection has passed: handle and read on, if that was all."""
        if self.closed or self._resuming or self._is_muted():
            return
        if self._stalled:
            self._resume_soon()
        elif self._ended:
            self._close_when_answered()
        else:
            self.resume_reading()

    def _resume_soon(self) -> None:
        self._resuming = True
        self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._resuming = False
        if not self.closed and self._buffer is not None:
            self._handle_own(self._buffer)
            self.go_on()

    def finish(self) -> None:
        """Take no more requests, answer those that came whole, then close."""
        self._ended = True
        self._pause_reading()
        self._close_when_answered()

    def _close_when_answered(self) -> None:
        if not self._requests and not self._outbound.nbytes and not self._stalled and not self._resuming:
            self.close()

    # --- writing ------------------------------------------------------------------------------------------

    def send(self, header: RequestHeader, response: Any) -> None:
        """Send a response, or the parts of an encoded one; queue what the socket does not take."""
        try:
            if isinstance(response, list):
                parts = response
            else:
                parts = response_parts(header.api_key, header.api_version, header.correlation_id, response)
            done = self._outbound.send(parts)
        except OSError as error:
            self.close(f"sending failed: {error}", level=logging.DEBUG)
            return
        except Exception:
            logger.exception("The answer to %s (API key %d) could not be sent", self, header.api_key)
            self.close()
            return
        if not done and not self._loading:
            self._send_later()

    def _send_later(self) -> None:
        """Send on when the socket has room, or when the disk has given what is next."""
        cold = self._outbound.cold
        if cold is not None:
            self._stop_writing()
            self._loading = True
            self._shared.cold_reads.load(cold, self._on_loaded)
        elif not self._writing:
            self._writing = True
            self._loop.add_writer(self._fd, self._on_writable)

    def _on_loaded(self) -> None:
        self._loading = False
        if not self.closed:
            self._outbound.loaded()
            self._on_writable()

    def _stop_writing(self) -> None:
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)

    def _on_writable(self) -> None:
        self.last_active = self._shared.now
        try:
            done = self._outbound.flush()
        except OSError as error:
            self.close(f"sending failed: {error}", level=logging.DEBUG)
            return
        if done:
            self._stop_writing()
        else:
            self._send_later()
        self.go_on()

    # --- closing ------------------------------------------------------------------------------------------

    def close(self, why: str | None = None, *, level: int = logging.WARNING) -> None:
        """Close now; what is not sent is dropped.

        `why` is logged, shortened to a sensible length.
        """
        if self.closed:
            return
        self.closed = True
        if why is not None:
            logger.log(level, "Closing the connection of %s: %.300s", self, why)
        self._pause_reading()
        self._stop_writing()
        self._disown()
        self.is_incomplete = False
        self._outbound.close()
        self._requests.close()
        self._channel.close()
        self._shared.forget(self)
        self._on_close(self)
