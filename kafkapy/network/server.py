"""The listening sockets, the limits of connections, and the sweep over them.

One coarse timer replaces a timer per connection. Every SWEEP_SECONDS (more often if a limit is shorter) it
closes

- connections whose incomplete request is overdue. The limit is request.receive.timeout.ms from the first
  byte, plus a second for each RECEIVE_RATE bytes, so that a slow line can send a large batch, but a client
  that trickles bytes cannot hold a connection;
- connections that have not logged in within request.receive.timeout.ms, where the listener demands it,
  whatever they have sent;
- connections without traffic for connections.max.idle.ms whose client does not wait for an answer;

and frees empty buffers that were kept for a next request. A connection that waits for memory (shared.py) is
not timed, because the broker has stopped reading it. If connections have waited for a complete interval
between two sweeps, and incomplete requests hold three quarters of the memory, the largest and slowest of
these requests are closed.

If unsent answers hold as many log files as may be open, each sweep closes the connection that has held the
most for the longest: its client does not read, and it keeps others from reading and writing. A client that
reads is spared, as its answers are sent soon.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import heapq
import logging
import socket
import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.listeners import Listener, format_address
from kafkapy.loop.cold_reads import ColdReads
from kafkapy.loop.timers import STALL_SECONDS
from kafkapy.loop.validation import Validation
from kafkapy.network.connection import Connection
from kafkapy.network.connection_limits import ConnectionLimits
from kafkapy.network.dispatcher import Dispatcher
from kafkapy.network.entrance import Entrance
from kafkapy.network.handshakes import Handshakes
from kafkapy.network.shared import Shared
from kafkapy.storage.disk.errors import is_exhausted, what_is_lacking

SWEEP_SECONDS: Final = 0.5
RECEIVE_RATE: Final = 16 << 10
ACCEPTS_AT_ONCE: Final = 64
MOST_HELD: Final = 256
"""The most connections beyond the rate of their address that are held; more are closed at once."""

_FREED_FRACTION: Final = 16
"""The part of queued.max.request.bytes that a sweep frees, if connections wait for memory."""

_RESET: Final = struct.pack("ii", 1, 0)
"""The option SO_LINGER with which a close resets a connection."""

logger = logging.getLogger(__name__)


class ListenError(OSError):
    """A listener's address cannot be used; the message is one line for the operator."""


class Server:
    """All connections of one broker."""

    refusals_seconds: float = 60.0
    """How often the log says how many connections were refused."""

    pause_seconds: float = 0.1
    """How long clients wait when a connection could not be accepted."""

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        validation: Validation,
        cold_reads: ColdReads,
        handshakes: Handshakes,
    ) -> None:
        self.loop = loop
        self.shared = Shared(loop, validation, cold_reads, handshakes)
        self.connections: dict[Connection, None] = {}
        """The connections, oldest first."""
        self.listening: tuple[Listener, ...] = ()
        """The listeners, with the ports that they were assigned."""
        self._config = config
        self._sockets: list[socket.socket] = []
        self._entrances: dict[str, Entrance] = {}
        """By the name of the listener."""
        self.limits = ConnectionLimits(config, self.shared.now)
        self.held: list[tuple[float, int, socket.socket]] = []
        """Connections that are beyond the rate of their address: when each is closed; a heap."""
        self._hold_timer: asyncio.TimerHandle | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._accept_timers: dict[str, asyncio.TimerHandle] = {}
        """By the name of a listener that accepts nobody for a while."""
        self.accepted = 0
        """How many connections were accepted, without those that were refused."""
        self._refused = 0
        """The connections refused since the log spoke of it last."""
        self._refusing_since = 0.0
        self._is_accepting = False
        self._cannot_accept = False
        """That is in the log, and the clients wait."""
        self.lacks_files: Callable[[], bool] = lambda: False
        """Whether unsent answers hold more files of logs than they may."""
        self.refuses: Callable[[str, str], bool] = lambda listener, host: False
        """Whether a new connection to a listener, by its name, from a host is reset."""
        self._gone: asyncio.Event | None = None
        """Set when draining has closed the last connection."""
        self.configure()

    def configure(self) -> None:
        """Apply the settings, at the start and after each change."""
        config = self._config
        self.limits.configure(config)
        self.shared.max_frame_bytes = config["socket.request.max.bytes"]
        limit: int = config["queued.max.request.bytes"]
        self.shared.max_buffered = limit if limit > 0 else 1 << 62
        self._idle_seconds: float = config["connections.max.idle.ms"] / 1000
        self._receive_seconds: float = config["request.receive.timeout.ms"] / 1000

    # --- listening ----------------------------------------------------------------------------------------

    def bind(self, entrances: Iterable[tuple[Listener, Entrance]]) -> None:
        """Open the listeners, each with its entrance.

        Clients queue until `accept` is called.

        Raises:
            ListenError: an address cannot be used.
        """
        try:
            for listener, entrance in entrances:
                sock = listening_socket(listener, self._config)
                self._sockets.append(sock)
                self._entrances[listener.name] = entrance
                self.listening = (*self.listening, replace(listener, port=sock.getsockname()[1]))
        except ListenError:
            self.stop_accepting()
            raise

    def accept(self, dispatcher: Dispatcher) -> None:
        """Begin to accept clients.

        `dispatcher` handles their requests.
        """
        self.shared.dispatcher = dispatcher
        self._is_accepting = True
        self._sweep()
        for sock, listener in zip(self._sockets, self.listening, strict=True):
            self._watch_listener(sock, listener)

    @property
    def is_accepting(self) -> bool:
        """Whether clients are accepted: after the start, and before the stop."""
        return self._is_accepting and bool(self._sockets)

    def stop_accepting(self) -> None:
        """Close the listeners, but not the connections."""
        for timer in self._accept_timers.values():
            timer.cancel()
        self._accept_timers.clear()
        for sock in self._sockets:
            self.loop.remove_reader(sock.fileno())
            sock.close()
        self._sockets.clear()

    def _watch_listener(self, sock: socket.socket, listener: Listener) -> None:
        self._accept_timers.pop(listener.name, None)
        self.loop.add_reader(sock.fileno(), partial(self._accept, sock, listener))

    def _pause_accepting(self, seconds: float, only: Listener | None = None) -> None:
        """Accept nobody for so long: on all listeners, or on one."""
        for sock, listener in zip(self._sockets, self.listening, strict=True):
            if only is None or listener is only:
                self.loop.remove_reader(sock.fileno())
                if (timer := self._accept_timers.get(listener.name)) is not None:
                    timer.cancel()
                self._accept_timers[listener.name] = self.loop.call_later(
                    seconds, self._watch_listener, sock, listener
                )

    def _accept(self, listening: socket.socket, listener: Listener) -> None:
        now = self.loop.time()
        for _ in range(ACCEPTS_AT_ONCE):
            of_broker, of_listener = self.limits.seconds_to_wait(listener.name, now)
            if of_broker > 0 or of_listener > 0:
                if of_broker > 0:
                    self._pause_accepting(of_broker)
                if of_listener > of_broker:
                    self._pause_accepting(of_listener, listener)
                return
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Typically EMFILE: the client stays in the queue, so try again later, not at once.
                if not self._cannot_accept:
                    self._cannot_accept = True
                    why = what_is_lacking(error) if is_exhausted(error) else f"{error.strerror}."
                    logger.error("Cannot accept connections: %s They wait.", why)
                self._pause_accepting(self.pause_seconds)
                return
            if self._cannot_accept:
                self._cannot_accept = False
                logger.info("Connections are accepted again")
            host = address[0].removeprefix("::ffff:")
            if self.refuses(listener.name, host):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                sock.close()
                continue
            if (seconds := self.limits.seconds_to_hold(listener.name, host, now)) > 0:
                self._hold(sock, now + seconds)
                continue
            why_not = self.limits.add(listener.name, host)
            if why_not is not None:
                if not self._refused:
                    self._refusing_since = self.loop.time()
                    logger.warning("Refusing connections, first of %s: %s", host, why_not)
                self._refused += 1
                sock.close()
                continue
            try:
                sock.setblocking(False)
                entrance = self._entrances[listener.name]
                channel = entrance.open(sock)
                made = Connection(self.shared, listener, entrance, channel, host, address[1], self._forget)
                self.connections[made] = None
                self.accepted += 1
            except OSError:  # the client is gone, or the kernel cannot watch another descriptor
                self.limits.remove(listener.name, host)
                sock.close()

    def _hold(self, sock: socket.socket, until: float) -> None:
        """Close a connection that is beyond the rate of its address, after a while."""
        if len(self.held) >= MOST_HELD:
            sock.close()
            return
        heapq.heappush(self.held, (until, sock.fileno(), sock))
        if self._hold_timer is None or until < self._hold_timer.when():
            if self._hold_timer is not None:
                self._hold_timer.cancel()
            self._hold_timer = self.loop.call_at(until, self._let_go)

    def _let_go(self) -> None:
        """Close the connections that were held for long enough."""
        now = self.loop.time()
        while self.held and self.held[0][0] <= now:
            heapq.heappop(self.held)[2].close()
        self._hold_timer = self.loop.call_at(self.held[0][0], self._let_go) if self.held else None

    def _forget(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self.limits.remove(connection.listener.name, connection.peer_host)
        if self._gone is not None and not self.connections:
            self._gone.set()

    # --- the sweep ----------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        before = self.shared.now
        self.shared.now = now = self.loop.time()
        shortest = min(self._receive_seconds, self._idle_seconds if self._idle_seconds > 0 else 1e9)
        interval = min(SWEEP_SECONDS, shortest / 10)
        self._sweep_timer = self.loop.call_later(interval, self._sweep)
        if now - before > SWEEP_SECONDS + STALL_SECONDS:
            return  # bytes that arrived during a stall are not read yet
        enough = self._receive_seconds * RECEIVE_RATE
        starved = False
        for connection in tuple(self.connections):
            if connection.paused_since is not None:
                starved = starved or connection.paused_since < before
                continue
            if connection.login_began_before(now - self._receive_seconds):
                why = f"it has not logged in within {self._receive_seconds:g} s"
                connection.close(why)
                continue
            if connection.is_incomplete and connection.receiving_since < now - self._receive_seconds:
                if connection.received_since() < enough:
                    connection.close(f"its request did not arrive within {self._receive_seconds:g} s")
                    continue
                connection.watch_progress()
            quiet = now - connection.last_active
            if quiet >= SWEEP_SECONDS:
                connection.release_idle_buffer()
                if before - connection.last_active < SWEEP_SECONDS:
                    connection.look_again()
                    if connection.closed:
                        continue
                if quiet > self._idle_seconds > 0 and not connection.waits_for_answer:
                    connection.close("idle", level=logging.DEBUG)
        if starved:
            self._free_memory()
        if self.shared.answers.ran_out:
            self._free_answers()
        if self.connections and self.lacks_files():
            hog = max(self.connections, key=lambda each: each.file_seconds)
            if hog.held_files:
                why = f"its unsent answers hold {hog.held_files} files, and others need some"
                hog.close(why, level=logging.WARNING)
        if self._refused and now - self._refusing_since >= self.refusals_seconds:
            if self._refused > 1:
                logger.warning("Refused %d connections in the last minute", self._refused)
            self._refused = 0

    def _free_memory(self) -> None:
        """Close the largest and slowest incomplete requests.

        Do nothing unless they hold three quarters of the memory: otherwise handlers hold much of it, and
        return it soon.
        """
        limit = self.shared.max_buffered
        holders = [connection for connection in self.connections if connection.incomplete_bytes]
        if sum(connection.incomplete_bytes for connection in holders) < limit // 4 * 3:
            return
        enough = self.shared.buffered_bytes - limit // _FREED_FRACTION
        for hog in sorted(holders, key=lambda each: (each.byte_seconds, each.incomplete_bytes), reverse=True):
            nbytes = hog.incomplete_bytes
            why = f"its incomplete request holds {nbytes} bytes, and other connections wait for memory"
            hog.close(why, level=logging.WARNING)
            if self.shared.buffered_bytes <= enough:
                return

    def _free_answers(self) -> None:
        """Close those that read their answers slowest, until half of the budget is free."""
        answers = self.shared.answers
        answers.ran_out = False
        holders = [connection for connection in self.connections if connection.value_seconds]
        for hog in sorted(holders, key=lambda each: each.value_seconds, reverse=True):
            if answers.values <= answers.most // 2:
                return
            why = f"its unread answers hold {hog.unread_values} values, and other connections need room"
            hog.close(why, level=logging.WARNING)

    # --- stopping -----------------------------------------------------------------------------------------

    async def drain(self, seconds: float) -> None:
        """Close each connection after its requests are answered; wait `seconds` at most."""
        self._gone = asyncio.Event()
        for connection in tuple(self.connections):
            connection.finish()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), seconds)

    def close(self) -> None:
        """Close everything at once."""
        self.stop_accepting()
        for timer in (self._sweep_timer, self._hold_timer):
            if timer is not None:
                timer.cancel()
        for _, _, sock in self.held:
            sock.close()
        self.held.clear()
        for connection in tuple(self.connections):
            connection.close()


def listening_socket(listener: Listener, config: BrokerConfig) -> socket.socket:
    """A socket that listens at the address of `listener`, with the settings for sockets.

    Raises:
        ListenError: the address cannot be used.
    """
    where = format_address(listener.host or "*", listener.port)
    try:
        if listener.host:
            # For text, Python would load its tables of international names first.
            host = listener.host.encode() if listener.host.isascii() else listener.host
            found = socket.getaddrinfo(host, listener.port, type=socket.SOCK_STREAM)
            # As Java does: if a name such as localhost has addresses of both families, take the IPv4 one.
            family, _, _, _, address = min(found, key=lambda info: info[0] != socket.AF_INET)
        elif socket.has_dualstack_ipv6():
            family, address = socket.AF_INET6, ("::", listener.port)
        else:
            family, address = socket.AF_INET, ("", listener.port)
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(bool(listener.host)))
            # Accepted sockets inherit all of these, which saves calls for each connection.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, setting in (
                (socket.SO_RCVBUF, "socket.receive.buffer.bytes"),
                (socket.SO_SNDBUF, "socket.send.buffer.bytes"),
            ):
                if config[setting] > 0:
                    sock.setsockopt(socket.SOL_SOCKET, option, config[setting])
            sock.setblocking(False)
            sock.bind(address)
            sock.listen(config["socket.listen.backlog.size"])
        except BaseException:
            sock.close()
            raise
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ListenError(
                f"cannot listen on {where}: the port is in use; stop what uses it or choose another"
            ) from None
        remedy = (
            "choose a port above 1023" if error.errno == errno.EACCES else "give an address of this machine"
        )
        if is_exhausted(error):
            raise ListenError(f"cannot listen on {where}: {what_is_lacking(error)}") from None
        raise ListenError(f"cannot listen on {where}: {error.strerror or error}; {remedy}") from None
    return sock
