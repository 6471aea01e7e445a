"""A network that delays, loses and holds back what hosts send to each other.

A connection is a pair of ends, each with an owner: the loop of a broker or of the clients. What one end
sends reaches the other in order and after a random delay, as a stream of bytes. Connections are independent:
what is sent later by another connection may arrive earlier. Between hosts that are separated nothing arrives;
what was sent waits, and arrives when they are joined again, even if its sender has closed the connection or
died by then. That is what TCP allows: a request that nobody waits for any more may still have its effect,
after the one that was sent in its place. What is lost comes later, as TCP sends it again (way.py).
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.listeners import Listener
from kafkapy.loop.cold_reads import ColdReads
from kafkapy.loop.validation import Validation
from kafkapy.network.channel import Handshake
from kafkapy.network.connection import Connection
from kafkapy.network.dispatcher import Dispatcher
from kafkapy.network.entrance import OpenEntrance
from kafkapy.network.handshakes import Handshakes
from kafkapy.network.server import Server
from kafkapy.protocol.types import ApiKey, Part
from kafkapy.storage.disk.files import FileSlice
from kafkapy.virtual.loop import VirtualLoop
from kafkapy.virtual.transport import END, SimulatedTransport
from kafkapy.virtual.way import Way
from kafkapy.virtual.world import World

PORT: Final = 9092
"""Where every broker listens."""

FIRST_FD: Final = 1_000_000
"""The numbers of simulated sockets begin here: no file has such a descriptor."""

FAST: Final = (0.0001, 0.002)
SLOW: Final = (0.002, 0.15)
"""The ranges of the delay in seconds; which of them holds changes from time to time."""

QUEUED_SECONDS: Final = 0.01
"""How soon it is seen that a broker has started, by those that wait for that."""

DOUBLED: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA})
"""The requests that may arrive a second time, by another connection and later than they were sent.

A sender that gets no answer sends its request again by another connection; this is what the receiver sees if
the first one was not lost but late. One of several requests in flight does not come alone, since a connection
brings them in order.
"""
_START_OF_REQUEST: Final = struct.Struct(">ih")
"""The size without itself, and the API key."""


class End:
    """One end of a connection."""

    def __init__(self, network: Network, fd: int, host: str, loop: VirtualLoop) -> None:
        self.network = network
        self.fd = fd
        self.host = host
        self.loop = loop
        self.other: End
        self.received: deque[bytes] = deque()
        """What arrived and was not read yet."""
        self.is_closed = False
        self.is_reset = False
        """Whether it was closed by a reset, not by an owner."""
        self.arrives: Callable[[], None] = self._wake_reader
        """Called on the owner's loop when something has arrived."""
        self.on_the_way: deque[tuple[float, bytes]] = deque()
        """What was sent to this end and has not arrived, and when it may at the earliest."""
        self.asks = False
        """Whether this is the end that sends requests."""
        self.in_flight = 0
        """About how many requests of this end are not answered."""
        self._moving: asyncio.TimerHandle | None = None
        """Lets the next of what is on the way arrive."""

    @property
    def address(self) -> tuple[str, int]:
        """The host, and a number that no other end has."""
        return self.host, self.fd

    def send(self, data: bytes) -> None:
        """Send bytes to the other end."""
        if self.is_closed or self.other.is_closed:
            raise ConnectionResetError("the connection is closed")
        if not self.network.is_cut_off(self.host):
            self.other.take(data)
            if self.asks:
                self.in_flight += 1
                self.network.sent(self, data)

    def close(self) -> None:
        """Close this end; the other learns of it after what was sent before."""
        if not self.is_closed:
            self.is_closed = True
            self.network.ends.pop(self.fd, None)
            if not self.network.is_cut_off(self.host):
                self.other.take(END)

    def take(self, data: bytes) -> None:
        """Take what the other end sends now, or its host in place of it."""
        at = self.network.earliest(self.other.host, self.host, len(data))
        if slept := self.other.loop.slept:  # the sender is as late as the slow calls before made it
            at = max(at, self.network.world.now) + slept
        self.on_the_way.append((at, data))
        self.move()

    def reset(self) -> None:
        """Close this end by a reset; what is on its way is lost."""
        if not self.is_closed:
            self.is_closed = self.is_reset = True
            self.network.ends.pop(self.fd, None)
            self.on_the_way.clear()
            self.received.clear()
            if not self.loop.is_dead:
                self.loop.call_soon(self.arrives)

    def move(self) -> None:
        """Let the next of what is on the way arrive after a while."""
        if self.on_the_way and self._moving is None:
            world = self.network.world
            seconds = max(self.network.delay(), self.on_the_way[0][0] - world.now)
            self._moving = world.later(seconds, self._arrive)

    def hurry(self) -> None:
        """Let what is on the way arrive as on a way without faults."""
        self.on_the_way = deque((0.0, data) for _, data in self.on_the_way)
        if self._moving is not None:
            self._moving.cancel()
            self._moving = None
        self.move()

    def _arrive(self) -> None:
        self._moving = None
        if self.is_closed or not self.on_the_way:
            return
        if not self.network.are_joined(self.host, self.other.host):
            self.network.held.append(self)
            return
        _, data = self.on_the_way.popleft()
        self.received.append(data)
        self.in_flight = max(0, self.in_flight - 1)
        way = f"{self.other.host}->{self.host}"
        world = self.network.world
        # An error message for a client may name a file.
        world.note("network", way, self.fd, len(data), hash_of(data.replace(world.folder.encode(), b"")))
        if not self.loop.is_dead:
            self.loop.call_soon(self.arrives)
        self.move()

    def _wake_reader(self) -> None:
        self.loop.is_ready(self.fd, "read", lambda: bool(self.received) or self.is_reset)


def hash_of(data: bytes) -> str:
    """A few digits that tell one message from another."""
    return f"{zlib.crc32(data):08x}"


class SimulatedChannel:
    """One end as a server's connection sees it (kafkapy/network/channel.py)."""

    handshake_pending = False
    has_pending = False
    certificate = None
    flush_bytes = 1 << 20

    def __init__(self, end: End) -> None:
        self._end = end
        self.fileno = end.fd

    @property
    def local_host(self) -> str:
        return self._end.host

    def handshake(self) -> Handshake:
        """Nothing."""
        return Handshake.DONE

    def receive_into(self, room: memoryview) -> int:
        received = self._end.received
        if self._end.is_reset:
            raise ConnectionResetError("the connection was reset")
        if not received:
            raise BlockingIOError
        if received[0] == END:
            return 0
        data = received.popleft()
        count = min(len(data), len(room))
        room[:count] = data[:count]
        if count < len(data):
            received.appendleft(data[count:])
        return count

    fill = receive_into

    def send(self, data: bytes) -> int:
        self._end.send(bytes(data))
        return len(data)

    def send_gathered(self, parts: Sequence[Part], *, more: bool) -> int:
        data = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
        self._end.send(data)
        return len(data)

    def send_slice(self, part: FileSlice, offset: int, nbytes: int) -> int:
        data = part.read()[offset : offset + nbytes]
        self._end.send(data)
        return len(data)

    def close(self) -> None:
        self._end.close()


class SimulatedServer(Server):
    """A server whose clients come by the simulated network."""

    def __init__(
        self,
        network: Network,
        host: str,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        validation: Validation,
        cold_reads: ColdReads,
        handshakes: Handshakes,
    ) -> None:
        super().__init__(config, loop, validation, cold_reads, handshakes)
        self._network = network
        self._host = host

    def bind(self, entrances: Any) -> None:
        self.listening = tuple(listener for listener, _ in entrances)
        self._network.bound.update((self._host, listener.port) for listener in self.listening)

    def accept(self, dispatcher: Dispatcher) -> None:
        self.shared.dispatcher = dispatcher
        self._sweep()
        for listener in self.listening:
            self._network.listeners[self._host, listener.port] = partial(self._connected, listener)

    def stop_accepting(self) -> None:
        for listener in self.listening:
            self._network.bound.discard((self._host, listener.port))
            self._network.listeners.pop((self._host, listener.port), None)

    def _connected(self, listener: Listener, network: Network, other: End, fd: int) -> End:
        assert isinstance(self.loop, VirtualLoop)
        end = End(network, fd, self._host, self.loop)
        end.other = other
        assert self.limits.add(listener.name, other.host) is None
        asyncio._set_running_loop(self.loop)
        try:
            channel = SimulatedChannel(end)
            made = Connection(self.shared, listener, OpenEntrance(), channel, other.host, fd, self._forget)
            self.connections[made] = None
        finally:
            asyncio._set_running_loop(None)
        return end


class Network:
    """The hosts, what separates them, and the connections between them."""

    def __init__(self, world: World, *, queues: bool = False) -> None:
        """`queues` says whether who connects to a broker that starts waits for it, or is refused."""
        self.world = world
        self._queues = queues
        self.bound: set[tuple[str, int]] = set()
        """Where brokers that run listen, or will when they have started."""
        self.listeners: dict[tuple[str, int], Callable[[Network, End, int], End]] = {}
        self.ends: dict[int, End] = {}
        self.held: list[End] = []
        """The ends whose next bytes wait until the hosts are joined."""
        self.range = FAST
        self.doubled = 0.0
        """The share of the requests in DOUBLED that arrive twice."""
        self.heard: list[Callable[[str, str, int], None]] = []
        """Called with the sender, the receiver and the API key of each request that is on its way."""
        self._ways: dict[tuple[str, str], Way] = {}
        """By sender and receiver, the ways that are not as all others."""
        self._without_power: set[str] = set()
        self._last_fd = FIRST_FD
        world.readable = self._look

    def delay(self) -> float:
        """The seconds that the next bytes take."""
        low, high = self.range
        return low + (high - low) * self.world.chance.random() ** 3

    def way(self, sender: str, to: str) -> Way:
        """The way from one host to another, whose state may be changed."""
        return self._ways.setdefault((sender, to), Way())

    @property
    def changed_ways(self) -> list[tuple[str, str]]:
        """By sender and receiver, the ways whose state was ever changed."""
        return list(self._ways)

    def earliest(self, sender: str, to: str, nbytes: int) -> float:
        """When so many bytes arrive at the earliest that a host sends to another one now."""
        way = self._ways.get((sender, to))
        return 0.0 if way is None else way.earliest(self.world.now, nbytes, self.world.chance)

    def are_joined(self, to: str, sender: str) -> bool:
        """Whether what `sender` sends reaches `to`."""
        way = self._ways.get((sender, to))
        return way is None or not way.is_cut

    def is_cut_off(self, host: str) -> bool:
        """Whether the host has no power, so that nothing leaves it."""
        return host in self._without_power

    def separate(self, sender: str, to: str) -> None:
        """Hold back what one host sends to another."""
        self.way(sender, to).is_cut = True

    def join(self, sender: str, to: str) -> None:
        """Let what was held back arrive."""
        self.way(sender, to).is_cut = False
        held, self.held = self.held, []
        for end in held:
            end.move()

    def heal(self, sender: str, to: str) -> None:
        """Let everything go as usual that one host sends to another, and arrive what is late."""
        self._ways[sender, to] = Way()
        for end in [end for end in self.ends.values() if (end.other.host, end.host) == (sender, to)]:
            if end in self.held:
                self.held.remove(end)
            end.hurry()

    def reset(self, one: str, other: str) -> None:
        """Reset all connections between two hosts, at both ends."""
        for end in [end for end in self.ends.values() if {end.host, end.other.host} == {one, other}]:
            end.reset()

    def connector(self, host: Callable[[], str]) -> Callable[[VirtualLoop, Any, str, int], Any]:
        """What opens connections from the host that `host` tells then."""

        async def connect(loop: VirtualLoop, factory: Any, to: str, port: int) -> Any:
            connected: asyncio.Future[End] = loop.create_future()
            self._ask(loop, host(), to, port, connected)
            end = await connected
            protocol = factory()
            transport = SimulatedTransport(end, protocol)
            protocol.connection_made(transport)
            return transport, protocol

        return connect

    def power_lost(self, host: str) -> None:
        """Nothing leaves the host from now on."""
        self._without_power.add(host)

    def power_returned(self, host: str) -> None:
        """The host has power again, whether it had a process or not."""
        self._without_power.discard(host)

    def forget(self, host: str, loop: VirtualLoop) -> None:
        """The process of `loop` is gone.

        Its host closes its connections, at once or when it is up again.
        """
        after = 0.0 if host not in self._without_power else self.world.chance.uniform(0.1, 3.0)
        self._without_power.discard(host)
        for end in [end for end in self.ends.values() if end.loop is loop]:
            end.is_closed = True
            del self.ends[end.fd]
            self.world.buried.append(end)
            self.world.later(after, end.other.take, END)
        for address in [address for address in self.bound if address[0] == host]:
            self.bound.remove(address)
            self.listeners.pop(address, None)

    def _ask(self, loop: VirtualLoop, host: str, to: str, port: int, connected: asyncio.Future[End]) -> None:
        """Send the request for a connection, and again while nothing reaches the other host."""
        there, back = self.earliest(host, to, 0), self.earliest(to, host, 0)
        seconds = max(there - self.world.now, 0.0) + max(back - self.world.now, 0.0)
        self.world.later(max(self.delay(), seconds), self._asked, loop, host, to, port, connected)

    def _asked(
        self, loop: VirtualLoop, host: str, to: str, port: int, connected: asyncio.Future[End]
    ) -> None:
        if loop.is_dead or connected.done():
            return
        if not self.are_joined(to, host) or not self.are_joined(host, to) or self.is_cut_off(to):
            self.world.later(0.5, self._asked, loop, host, to, port, connected)
            return
        listener = self.listeners.get((to, port))
        if listener is None and self._queues and (to, port) in self.bound:
            self.world.later(QUEUED_SECONDS, self._asked, loop, host, to, port, connected)
            return
        if listener is None:
            loop.call_soon(_set_exception, connected, ConnectionRefusedError(f"{to}:{port}"))
            return
        end = self._connect(listener, host, loop)
        end.asks = True
        self.world.note("network", f"{host} connects to {to}", end.fd)
        loop.call_soon(_set_result, connected, end)

    def _connect(self, listener: Callable[[Network, End, int], End], host: str, loop: VirtualLoop) -> End:
        self._last_fd += 2
        end = End(self, self._last_fd - 1, host, loop)
        end.other = listener(self, end, self._last_fd)
        self.ends[end.fd], self.ends[end.other.fd] = end, end.other
        return end

    def sent(self, end: End, data: bytes) -> None:
        """Report a request, and let some arrive a second time."""
        if len(data) >= _START_OF_REQUEST.size:
            size, key = _START_OF_REQUEST.unpack_from(data)
            if size != len(data) - 4:
                return
            for heard in self.heard:
                heard(end.host, end.other.host, key)
            may_be_doubled = key in DOUBLED and end.in_flight == 1
            if may_be_doubled and self.doubled and self.world.chance.random() < self.doubled:
                after = 3 * self.world.chance.random() ** 3
                self.world.later(after, self._double, end.host, end.other.host, PORT, data)

    def _double(self, host: str, to: str, port: int, data: bytes) -> None:
        if not self.are_joined(to, host) or self.is_cut_off(to):
            self.world.later(0.5, self._double, host, to, port, data)
            return
        listener = self.listeners.get((to, port))
        if listener is not None:
            self.world.fault("doubled", ApiKey(_START_OF_REQUEST.unpack_from(data)[1]).name)
            end = self._connect(listener, host, self.world.outside)
            end.arrives = end.received.clear
            end.send(data)
            self.world.later(5.0, end.close)

    def _look(self, loop: VirtualLoop, fd: int) -> None:
        end = self.ends.get(fd)
        if end is not None and end.received:
            loop.call_soon(end.arrives)


def _set_result(future: asyncio.Future[End], end: End) -> None:
    if future.done():
        end.close()
    else:
        future.set_result(end)


def _set_exception(future: asyncio.Future[End], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
