"""One client's connection: frames in, answers out.

A frame is a size (int32) and that many bytes: a request header and a request. No asyncio transport: the
event loop watches the descriptor, and `_on_readable` receives, handles and usually answers within one call,
without a task.

    readable -> recv into the server's shared buffer -> complete frames are handled in place (in_flight.py)
                                                     -> the rest moves to the connection's ReceiveBuffer

The connection stops handling frames (is *muted*) while a request must be answered before the next one
(network/in_flight.py), and while its client does not read: more than OUTBOUND_MARK bytes are unsent. A muted
connection reads at most READ_AHEAD bytes, so that it notices a client that goes away. Thus neither slow
readers nor fast writers use much memory. One whose client is throttled reads nothing.

After a client has half-closed the connection, its earlier requests are still answered. Broken input closes
the connection with one log line.

Before all this, an encrypted connection does its handshake (network/handshakes.py). The sweep watches its
time as that of an incomplete request. Then the connection gets its principal. With a listener that demands a
login, it has a `login` besides, which decides which requests are allowed (security/sasl/login.py), and as
much time again to log in.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kafkapy.network.channel import Channel, Handshake
from kafkapy.network.entrance import ANONYMOUS, Entrance, Login
from kafkapy.network.in_flight import RequestsInFlight
from kafkapy.network.outbound import OutboundQueue
from kafkapy.network.receive_buffer import ReceiveBuffer
from kafkapy.network.shared import Shared
from kafkapy.network.unknown_protocols import protocol_of, why_no_handshake
from kafkapy.protocol.types import Part

if TYPE_CHECKING:
    from kafkapy.configs.listeners import Listener

OUTBOUND_MARK: Final = 256 << 10
"""Unsent bytes above which no further request is handled."""

READ_AHEAD: Final = 64 << 10
"""The bytes that a muted connection reads, to notice a client that goes away."""

_RETAINED_CAPACITY: Final = 64 << 10
"""The least size of an empty buffer that is kept for the next request of a client with large frames."""

_SIZE: Final = struct.Struct(">i")

logger = logging.getLogger(__name__)


class Connection:
    """The connection of a client.

    The server creates it when it accepts a socket.
    """

    __slots__ = (
        "_buffer",
        "_channel",
        "_ended",
        "_entrance",
        "_fd",
        "_frame_is_shared",
        "_handle",
        "_handling",
        "_loading",
        "_local_host",
        "_loop",
        "_on_close",
        "_outbound",
        "_received_before",
        "_shaking",
        "_shared",
        "_stalled",
        "_waits_for_turn",
        "_when_closed",
        "_writing",
        "by_token",
        "charged",
        "closed",
        "frame_is_kept",
        "incomplete_since",
        "is_incomplete",
        "last_active",
        "listener",
        "login",
        "login_since",
        "max_frame_bytes",
        "paused_since",
        "peer_host",
        "peer_port",
        "principal",
        "read_at",
        "reading",
        "receiving_since",
        "requests",
        "software",
        "unsent_since",
        "validation_paid_at",
    )

    is_this_broker: Final = False

    def __init__(
        self,
        shared: Shared,
        listener: Listener,
        entrance: Entrance,
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
        """The identity of the client."""
        self.by_token = False
        """Whether it has logged in by a delegation token."""
        self.max_frame_bytes = shared.max_frame_bytes
        """The largest request that it may send now."""
        self.login: Login | None = None
        """The client's login; None on a listener without one."""
        self.login_since: float | None = None
        """The time from which the client could log in, until it has; None on a listener without a login."""
        self.closed = False
        self.frame_is_kept = False
        """Whether a handler has kept the bytes of the present frame, or of another one in the buffer."""
        self.last_active: float = shared.now
        """The time of the last bytes received or sent, by the server's coarse clock."""
        self.read_at = 0.0
        """The time of the last bytes received, by `time.monotonic`, while metrics are on."""
        self.receiving_since = self.last_active
        """The time from which the progress of the incomplete frame is measured, while `is_incomplete`."""
        self.incomplete_since = self.last_active
        """The time at which the incomplete frame began, while `is_incomplete`.

        Time in which the connection waited for memory is left out, here and in `receiving_since`.
        """
        self.paused_since: float | None = None
        """The time from which the connection has waited for memory, or None: the client cannot send."""
        self.unsent_since = self.last_active
        """The time from which the client has not read all its answers, while some are unsent."""
        self.validation_paid_at = 0.0
        """The time at which its debt for validation is paid (loop/validation.py)."""
        self.software: tuple[str, str] | None = None
        """The name and the version of the client's software, if told; kept while metrics are on."""
        self.is_incomplete = False
        """Whether a request is partly received. The sweep watches its progress."""
        self._shared = shared
        self._entrance = entrance
        self._on_close = on_close
        self._loop = shared.loop
        self._channel = channel
        self._fd = channel.fileno
        self._local_host: str | None = None
        self._outbound = OutboundQueue(channel)
        self.requests = RequestsInFlight(self, shared)
        """Those that are not answered yet."""
        self._handle: Callable[[memoryview], None] = self.requests.handle
        self._when_closed: list[Callable[[], object]] = []
        self._buffer: ReceiveBuffer | None = None
        """The bytes that are not handled yet. With large frames, an empty buffer is kept for a while."""
        self.charged = 0
        """The values of answers that are being made or not read (network/answer_budget.py)."""
        self._received_before = 0
        """The bytes of the incomplete frame that had arrived at `receiving_since`."""
        self.reading = True
        """Whether the loop watches for bytes to receive."""
        self._writing = False
        """Whether the loop watches for room to send."""
        self._loading = False
        """Whether a thread is loading the next bytes to send into the page cache."""
        self._waits_for_turn = False
        """Whether it has complete frames, and waits for a turn to handle them (network/rounds.py)."""
        self._stalled = False
        """Whether there may be complete frames that were not handled because the connection is muted."""
        self._ended = False
        """Whether no more bytes are received: the client has half-closed, or the broker takes no more."""
        self._handling = False
        """Whether a frame is being handled."""
        self._frame_is_shared = False
        """Whether the frame being handled is in the server's shared buffer."""
        self._shaking = False
        """Whether a thread continues the handshake, and nobody else may use the channel."""
        self._loop.add_reader(self._fd, self._on_readable)
        if channel.handshake_pending:
            self.is_incomplete = True
        else:
            self._enter()

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
        """The most log files that the unsent answers keep open."""
        return self._outbound.files

    @property
    def file_seconds(self) -> float:
        """For how long the unsent answers have kept log files open, times their number."""
        return self._outbound.files * (self._shared.now - self.unsent_since)

    @property
    def unread_values(self) -> int:
        """The values of answers that the client has not read."""
        return self.charged if self._outbound.nbytes else 0

    @property
    def value_seconds(self) -> float:
        """For how long the client has not read its answers, times their values."""
        return self.unread_values * (self._shared.now - self.unsent_since)

    @property
    def waits_for_answer(self) -> bool:
        """Whether a request of the client is not answered yet."""
        return len(self.requests) > 0

    @property
    def waits_for_other_answers(self) -> bool:
        """Whether another request than the last one is not answered yet."""
        return len(self.requests) > 1

    def login_began_before(self, moment: float) -> bool:
        """Whether the client has had since before `moment` to log in, and has not.

        While the broker checks what it has shown, which may take long, it is given its time.
        """
        since = self.login_since
        return since is not None and since < moment and not self.waits_for_answer

    def unanswered(self) -> tuple[list[int], int]:
        """The API keys of requests that wait, and how many answers wait for earlier ones."""
        return self.requests.unanswered()

    def keep_frame(self) -> None:
        """Let the handler keep the bytes of its request after it returns.

        They stay valid as long as the handler holds views of them. It must call this before it returns;
        further calls do nothing. See `kafkapy.handlers.context`.
        """
        if not self._handling:
            return
        self.frame_is_kept = True
        if self._frame_is_shared:
            self._shared.replace_receive_buffer()

    def charge(self, values: int) -> bool:
        """Count values of the answer that is being made; False if there is no room for them."""
        if self.closed or not self._shared.answers.take(values, self.charged):
            return False
        self.charged += values
        return True

    def release_read(self) -> None:
        """Give back what is charged, once all answers are made and read."""
        if self.charged and (self.closed or not (self.requests or self._outbound.nbytes)):
            self._shared.answers.give_back(self.charged)
            self.charged = 0

    # --- coming in ----------------------------------------------------------------------------------------

    def _shake_hands(self) -> None:
        """Have a thread continue the handshake."""
        self._shaking = True
        self._pause_reading()
        self._stop_writing()
        self._shared.handshakes.proceed(self._channel, self._shaken)

    def _shaken(self, outcome: Handshake | OSError) -> None:
        self._shaking = False
        if self.closed:
            self._channel.close()
        elif isinstance(outcome, OSError):
            self.close(why_no_handshake(outcome))
        elif outcome is Handshake.WANTS_TO_SEND:
            self._writing = True
            self._loop.add_writer(self._fd, self._shake_hands)
        else:
            if outcome is Handshake.DONE:
                self._channel.handshake_pending = False
                self.is_incomplete = False
                self._enter()
            if not self.closed:
                self._watch()

    def _enter(self) -> None:
        """Give the client its principal, or let it log in."""
        why_not = self._entrance.admit(self, self._channel)
        if why_not is not None:
            self.close(why_not)
        elif self.login is not None:
            self.login_since = self._shared.now

    def let_in(self) -> None:
        """Allow requests of any size: the client has logged in."""
        self.login_since = None
        self.max_frame_bytes = self._shared.max_frame_bytes

    def take_frames(self, handle: Callable[[memoryview], None] | None) -> None:
        """Have `handle` called with each frame; None: frames are requests again."""
        self._handle = handle or self.requests.handle

    def mute(self) -> None:
        """Handle no more frames until `unmute`; those that arrive wait."""
        self.requests.mute()

    def unmute(self) -> None:
        """Continue with the frames that wait."""
        self.requests.unmute()

    # --- reading ------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        """Receive once, and handle the frames that are complete."""
        buffer = self._buffer
        room = self._shared.receive_view if buffer is None else buffer.view[buffer.end :]
        try:
            if self._channel.handshake_pending:
                self._shake_hands()
                return
            nbytes = self._channel.receive_into(room) if buffer is None else self._channel.fill(room)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(f"reading failed: {error.strerror}", level=logging.DEBUG)
            return
        if nbytes == 0:
            self.requests.abandon()
            self.finish()
            return
        self.last_active = self._shared.now
        if self._shared.metrics is not None:
            self.read_at = time.monotonic()
        if buffer is None:
            self._handle_shared(room, nbytes)
        else:
            room.release()  # while a view of the buffer exists, its memory cannot grow in place
            buffer.end += nbytes
            if self._waits_for_turn:
                self._after_handling(some=False)
            else:
                self._handle_own(buffer)
        if self._channel.has_pending and self.reading:
            self._loop.call_soon(self._read_pending)

    def look_again(self) -> None:
        """Receive again, to notice a client that has gone.

        If a reset comes with bytes, uvloop's reader is called once, for the bytes: libuv no longer watches a
        socket that has an error.
        """
        if self.reading:
            self._on_readable()

    def _read_pending(self) -> None:
        """Receive what the channel holds already."""
        if self.reading and self._channel.has_pending:
            self._on_readable()

    def _watch(self) -> None:
        """Have the loop watch for bytes to receive."""
        self.reading = True
        self._loop.add_reader(self._fd, self._on_readable)
        if self._channel.has_pending:
            self._loop.call_soon(self._read_pending)

    def _handle_shared(self, view: memoryview, end: int) -> None:
        """Handle the frames in the shared buffer, and move the rest to the connection's own buffer."""
        self._frame_is_shared = True
        left = self._handle_frames(view, 0, end)
        self._frame_is_shared = self.frame_is_kept = False
        if left < end and not self.closed:
            self._own(ReceiveBuffer(view[left:end]))
            self._after_handling(some=left > 0)

    def _handle_own(self, buffer: ReceiveBuffer, turn: float | None = None) -> None:
        """Handle the frames in the connection's own buffer, and free it if it is no longer needed."""
        start, end = buffer.start, buffer.end
        buffer.start = left = self._handle_frames(buffer.view, start, end, turn)
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

    def _handle_frames(self, view: memoryview, start: int, end: int, turn: float | None = None) -> int:
        """Handle the complete frames of `view[start:end]`.

        A single one is handled at once. Several are handled for `turn` seconds, or for the rest of the round
        (network/rounds.py). Return the position of the first unhandled byte.
        """
        rounds, now = self._shared.rounds, time.monotonic  # uvloop's clock counts whole milliseconds
        may_handle, outbound = self.requests.may_handle, self._outbound
        first, began, stop_at = start, 0.0, 0.0
        while end - start >= 4 and outbound.nbytes <= OUTBOUND_MARK and may_handle():
            (size,) = _SIZE.unpack_from(view, start)
            if not 0 <= size <= self.max_frame_bytes:
                self._refuse(bytes(view[start : start + 4]), size)
                break
            body = start + 4
            if end - body < size:
                break
            if began:
                is_over = now() >= stop_at and start > first
            elif turn is None and body + size == end:
                is_over = False
            else:
                seconds = rounds.left if turn is None else turn
                is_over = seconds <= 0
                began = now()
                stop_at = began + seconds
            if is_over:
                self._wait_for_turn()
                break
            start = body + size
            self._handling = True
            try:
                self._handle(view[body:start])
            except Exception:
                logger.exception("A request of %s could not be handled", self)
                self.close()
            self._handling = False
            if self.closed:
                break
        if began:
            rounds.spend(now() - began)
        return start

    def _refuse(self, first_bytes: bytes, size: int) -> None:
        """Close, since these bytes are not the size of a request that is allowed."""
        protocol = protocol_of(first_bytes)
        if protocol is None:
            why = f"a request of {size} bytes (socket.request.max.bytes={self.max_frame_bytes})"
            if self.login is not None and self.max_frame_bytes != self._shared.max_frame_bytes:
                why = f"a request of {size} bytes (sasl.server.max.receive.size={self.max_frame_bytes})"
        else:
            why = f"the client speaks {protocol}, and this listener only Kafka's protocol, unencrypted"
        self.close(why)

    def complaint_level(self, why: str) -> int:
        """The level at which to log that the client comes in the wrong way."""
        return self._shared.complaints.level(self.peer_host, why, self._shared.now)

    def _is_muted(self) -> bool:
        return self._outbound.nbytes > OUTBOUND_MARK or not self.requests.may_handle()

    def _after_handling(self, *, some: bool) -> None:
        """Watch an incomplete frame, and make room for more bytes or pause reading.

        `some` says whether frames were handled.
        """
        buffer, shared = self._buffer, self._shared
        unhandled = self._unhandled
        self._stalled = unhandled > 0 and self._is_muted()
        if buffer is None or not unhandled:
            self.is_incomplete = False
            return
        if self._stalled or self._waits_for_turn:
            self.is_incomplete = False
            if unhandled >= READ_AHEAD or self.requests.is_throttled:
                self._pause_reading()
                return
            wanted = READ_AHEAD
        else:
            if some or not self.is_incomplete:
                self.is_incomplete = True
                self.receiving_since = self.incomplete_since = shared.now
                self._received_before = 0
            wanted = 4
            if unhandled >= 4:
                wanted += _SIZE.unpack_from(buffer.view, buffer.start)[0]
        if shared.has_memory:
            shared.buffered_bytes += buffer.make_room(wanted)
        elif buffer.end == buffer.capacity:
            self._pause_reading()
            if self.paused_since is None:
                self.paused_since = shared.now
            shared.wait_for_memory(self)

    def watch_progress(self) -> None:
        """Measure the progress of the incomplete frame from now on."""
        self.receiving_since = self._shared.now
        self._received_before = self._unhandled

    def received_since(self) -> int:
        """The bytes of the incomplete frame that arrived after `receiving_since`."""
        return self._unhandled - self._received_before

    @property
    def incomplete_bytes(self) -> int:
        """The memory that an incomplete frame holds."""
        return self._buffer.capacity if self.is_incomplete and self._buffer is not None else 0

    @property
    def byte_seconds(self) -> float:
        """For how long the incomplete frame has arrived, times the memory that it holds."""
        now = self._shared.now if self.paused_since is None else self.paused_since
        return self.incomplete_bytes * (now - self.incomplete_since)

    @property
    def _unhandled(self) -> int:
        return 0 if self._buffer is None else self._buffer.end - self._buffer.start

    def release_idle_buffer(self) -> None:
        """Free an empty buffer that was kept for the next large frame."""
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
        if self.reading:
            self.reading = False
            self._loop.remove_reader(self._fd)

    def pause(self) -> None:
        """Read nothing while the client is throttled, not even the rest of a request."""
        if self.requests.is_throttled and not self.closed and self.paused_since is None:
            self._stalled = self._unhandled > 0
            self.is_incomplete = False
            self._pause_reading()

    def resume_reading(self) -> None:
        """Continue reading after a pause, unless there is still no memory for a buffer."""
        if self.closed or self.reading or self._ended:
            return
        self._after_handling(some=False)
        if self._buffer is None or self._buffer.end < self._buffer.capacity:
            if self.paused_since is not None:
                waited = self._shared.now - self.paused_since
                self.incomplete_since += waited
                self.receiving_since += waited
                self.last_active += waited
                self.paused_since = None
            self._watch()

    # --- going on -----------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Continue handling and reading, unless something else still mutes the connection."""
        if self.reading and not self._stalled:
            return  # Nothing has stopped.
        if self.closed or self._waits_for_turn or self._is_muted():
            return
        if self._stalled:
            self._wait_for_turn()
        elif self._ended:
            self._close_when_answered()
        elif not self.reading:
            self.resume_reading()

    def _wait_for_turn(self) -> None:
        self._waits_for_turn = True
        self._shared.rounds.wait(self)

    def take_turn(self, seconds: float) -> None:
        """Handle one buffered request, and more of them for so long."""
        self._waits_for_turn = False
        if not self.closed and self._buffer is not None:
            self._handle_own(self._buffer, seconds)
            self.go_on()

    def finish(self) -> None:
        """Take no more requests, answer those that are complete, then close."""
        self._ended = True
        self._pause_reading()
        self._close_when_answered()

    def _close_when_answered(self) -> None:
        if (
            not self.requests
            and not self._outbound.nbytes
            and (not self._stalled or self.requests.is_throttled)
            and not self._waits_for_turn
        ):
            self.close()

    # --- writing ------------------------------------------------------------------------------------------

    def send(self, parts: list[Part]) -> None:
        """Send the parts of a response, and queue those that the socket does not take."""
        if not self._outbound.nbytes:
            self.unsent_since = self._shared.now
        try:
            done = self._outbound.send(parts)
        except OSError as error:
            self.close(f"sending failed: {error}", level=logging.DEBUG)
            return
        if not done and not self._loading:
            self._send_later()

    def _send_later(self) -> None:
        """Continue sending when the socket has room, or when the next bytes are in the page cache."""
        cold = self._outbound.cold
        if cold is not None:
            self._stop_writing()
            self._loading = True
            self._shared.cold_reads.load(cold, self._on_loaded)
        elif not self._writing:
            self._writing = True
            self._loop.add_writer(self._fd, self._on_writable)

    def _on_loaded(self, _is_loaded: bool) -> None:
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
            self.release_read()
        else:
            self._send_later()
        self.go_on()

    # --- closing ------------------------------------------------------------------------------------------

    def when_closed(self, call: Callable[[], object]) -> None:
        """Call `call()` when the connection has closed."""
        if self.closed:
            call()
        else:
            self._when_closed.append(call)

    def close(self, why: str | None = None, *, level: int | None = None) -> None:
        """Close now and drop unsent bytes.

        `why` is logged, shortened if it is long. Without a level it is the client's fault, which is a warning
        once a minute for each address and reason.
        """
        if self.closed:
            return
        self.closed = True
        if why is not None:
            logged_at = self.complaint_level(why) if level is None else level
            logger.log(logged_at, "Closing the connection of %s: %.300s", self, why)
        self._pause_reading()
        self._stop_writing()
        self._disown()
        self.is_incomplete = False
        self._outbound.close()
        self.requests.close()
        self.release_read()
        if not self._shaking:
            self._channel.close()
        self._shared.forget(self)
        self._on_close(self)
        for call in self._when_closed:
            call()
