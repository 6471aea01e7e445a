"""A cluster in virtual time, as the test sees it that runs in that time.

Its ends are the brokers, by their ids, "metadata", the tree that they share in place of a ZooKeeper, and the
hosts of clients. The test's own code runs on the host "clients", and what it does in `on(name)` on another
one. Between each two of them is a link.
"""

from __future__ import annotations

import asyncio
import datetime
import math
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkapy.broker.core import BrokerCore, StartError
from kafkapy.configs.config import BrokerConfig
from kafkapy.faults.fault import AsyncFault
from kafkapy.faults.faults import Faults, awaitable
from kafkapy.faults.switched_on import SwitchedOn
from kafkapy.loop.manual_clock import ManualClock
from kafkapy.metadata import znodes
from kafkapy.metadata.image import NO_LEADER
from kafkapy.metadata.znodes import LeaderAndIsr
from kafkapy.observe.asking import ANSWER_SECONDS
from kafkapy.observe.broker import CREATION_SECONDS, AwaitedBroker, when_possible
from kafkapy.observe.brokers import Ask, Brokers, answered
from kafkapy.observe.clock import advance, seconds_of
from kafkapy.protocol.message import TopMessage
from kafkapy.virtual.broker import METADATA, SimulatedBroker
from kafkapy.virtual.link import Link
from kafkapy.virtual.metadata_tree import MemoryTree
from kafkapy.virtual.network import PORT, Network
from kafkapy.virtual.observed import VirtualBroker, require_one_directory
from kafkapy.virtual.world import World

if TYPE_CHECKING:
    from kafkapy.observe.broker import Write

CLIENTS: Final = "clients"

DOMAIN: Final = ".virtual-time.invalid"
"""The end of the brokers' names: no client that is not in virtual time finds them, and its error says why."""

START_SECONDS: Final = 60.0
"""How long a broker may take to start, in virtual time; what holds it may end meanwhile."""

RECONNECT_SECONDS: Final = 0.1
"""How long a broker has no connection to the metadata whose connection was reset."""

LOOK_SECONDS: Final = 0.005

T = TypeVar("T")

End = int | str
"""The id of a broker, METADATA, or a host of clients."""

_host_of_clients: ContextVar[str] = ContextVar("host of clients", default=CLIENTS)
"""The host that the present task is on, and all that it begins."""


class VirtualCluster(AwaitedBroker):
    """Brokers in virtual time, and the links between them; `kafkapy.Cluster.run` makes it."""

    def __init__(
        self,
        world: World,
        folder: Path,
        numbers: Iterable[int],
        config: Mapping[str, str],
        defaults: Mapping[str, str],
    ) -> None:
        self._world = world
        self._network = Network(world, queues=True)
        self._tree = MemoryTree(world.note, later=partial(world.later, 0))
        self._clocks: dict[int, ManualClock] = {}
        """Those of the last life of each broker."""
        self._brokers = {
            number: SimulatedBroker(
                world,
                self._network,
                self._tree,
                number,
                folder,
                config,
                new_clock=partial(self._new_clock, number),
                defaults=defaults,
                in_cluster=True,
                domain=DOMAIN,
            )
            for number in numbers
        }
        session_ms = BrokerConfig({**defaults, **config})["zookeeper.session.timeout.ms"]
        for broker in self._brokers.values():
            broker.session_seconds = session_ms / 1000
        self._observed = {number: VirtualBroker(broker) for number, broker in self._brokers.items()}
        self._switched_on = SwitchedOn(self._lead_to_faults)
        for observed in self._observed.values():
            observed.switched_on.of_cluster = self._switched_on
        self._cut_from_tree: set[int] = set()
        self.loop = world.loop(CLIENTS)
        """The event loop of the test's code."""
        self.loop.connector = self._network.connector(_host_of_clients.get)
        self._clients = {CLIENTS: None}
        """The hosts of clients that are known."""
        self.clock = VirtualClock(self._brokers, self._observed, self._clocks)
        """The clock of its brokers, to advance it for all of them, and for no client."""

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of each broker, running or not, for clients of asyncio in this virtual time."""
        return ",".join(f"{broker.host}:{PORT}" for broker in self._brokers.values())

    def __iter__(self) -> Iterator[int]:
        """The ids of the brokers that serve clients."""
        return iter([number for number, broker in self._brokers.items() if broker.is_serving])

    def __getitem__(self, broker: int) -> VirtualBroker:
        """A broker, running or not; KeyError if the cluster has none of this id."""
        return self._observed[broker]

    @property
    def controller(self) -> int:
        """The id of the controller, as the metadata have it; -1 while there is none."""
        node = self._tree.read(znodes.CONTROLLER)
        return NO_LEADER if node is None else znodes.decode_controller(node.data)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of a partition's leader, as the metadata have it; -1 while there is none."""
        state = self._state(topic, partition)
        return NO_LEADER if state is None else state.leader

    def in_sync(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """The ids of a partition's replicas in sync (ISR), as the metadata have them."""
        state = self._state(topic, partition)
        return () if state is None else state.isr

    @property
    def faults(self) -> Faults[AsyncFault]:
        """What its brokers do wrong on purpose, counted together, as `Cluster.faults`."""
        return awaitable(self._switched_on)

    @property
    def fingerprint(self) -> str:
        """A digest of all that has happened: the same for two runs in which the same has."""
        return self._world.fingerprint

    async def start(self, broker: int | None = None) -> None:
        """Start a broker, or all that are not running, and wait until all know each other.

        A broker that is paused or cut off from the metadata is not waited for, unless it starts.

        Raises:
            ConfigError: a setting is wrong, or its name looks misspelt.
            StartError: a broker does not serve within START_SECONDS, or is ended meanwhile.
        """
        starting = [self._known(broker)] if broker is not None else list(self._brokers.values())
        for each in starting:
            each.should_run, each.start_error = True, None
            each.start()
        deadline = self._world.now + START_SECONDS
        while waiting := [each for each in starting if not self._is_up(each)]:
            for each in waiting:
                if not each.should_run:
                    raise StartError(f"broker {each.node_id} was ended while it started")
            if self._world.now > deadline:
                late = waiting[0]
                raise StartError(
                    f"broker {late.node_id} does not serve within {START_SECONDS:g} s of virtual time:"
                    f" {late.start_error or 'it waits for others'}"
                )
            await asyncio.sleep(LOOK_SECONDS)

    async def stop(self, broker: int | None = None) -> None:
        """Stop a broker, or all, as SIGTERM does: first other brokers take over what it leads."""
        for each in [self._known(broker)] if broker is not None else list(self._brokers.values()):
            each.should_run = False
            each.resume()
            if not each.is_serving:
                each.kill()
            life = each.core
            each.stop(lambda: None)
            while life is not None and each.core is life:  # noqa: ASYNC110 - it may also be killed
                await asyncio.sleep(LOOK_SECONDS)

    async def create_topics(self, topics: Mapping[str, int]) -> None:
        """Create topics of so many partitions each; return when all brokers know them.

        Raises:
            ValueError: the controller refuses some, and says why.
            RuntimeError: there is no controller that serves.
            TimeoutError: some do not learn of them, as they are cut off.
        """
        if (controller := self.controller) not in self._brokers:
            raise RuntimeError("there is no controller now")
        await self[controller].create_topics(topics)
        async with asyncio.timeout(CREATION_SECONDS):
            while not all(  # noqa: ASYNC110 - no broker says what it learns
                _knows(core, topic) for core in self._learning().values() for topic in topics
            ):
                await asyncio.sleep(LOOK_SECONDS)

    def kill(self, broker: int) -> None:
        """End a broker as SIGKILL does; what it wrote is there at the next `start`.

        Its session with the metadata ends when `zookeeper.session.timeout.ms` have passed.
        """
        killed = self._known(broker)
        killed.should_run = False
        killed.kill()

    def cut_power(self, broker: int) -> None:
        """Cut the power of a broker's machine.

        What was not synced to its disk may be lost, in part. It stays down until `start`.
        """
        dark = self._known(broker)
        dark.should_run = False
        dark.cut_power()

    def pause(self, broker: int) -> None:
        """Hold a running broker as SIGSTOP does, until `resume`; its session expires if that lasts."""
        self._known(broker).pause()

    def resume(self, broker: int) -> None:
        """Let a paused broker continue; do nothing if it is not paused."""
        self._known(broker).resume()

    def fill_disk(self, broker: int, free: int | None = 0) -> None:
        """Leave so many bytes free on the disk of a broker's machine; None for enough.

        Raises:
            ValueError: `free` is negative.
        """
        if free is not None and free < 0:
            raise ValueError(f"fill_disk({broker}, {free}): expected 0 or more bytes")
        self._known(broker).fill_disk(free)

    def slow_disk(self, broker: int, seconds: float) -> None:
        """Let each sync of a broker's disk take up to so many seconds longer; 0 for none.

        Raises:
            ValueError: `seconds` is negative, or no number that has an end.
        """
        if not 0 <= seconds < math.inf:
            raise ValueError(f"slow_disk({broker}, {seconds:g}): expected 0 or more seconds")
        self._known(broker).sync_seconds = seconds

    @contextmanager
    def on(self, host: str) -> Iterator[None]:
        """Let clients and tasks that start in the `with` block be on a host of this name.

        Raises:
            ValueError: brokers or the metadata have this name.
        """
        if host == METADATA or any(host == broker.host for broker in self._brokers.values()):
            raise ValueError(f"{host!r} is no host of clients: choose another name")
        self._clients[host] = None
        token = _host_of_clients.set(host)
        try:
            yield
        finally:
            _host_of_clients.reset(token)

    def link(self, one: End, other: End, *, both_ways: bool = True) -> Link:
        """The link between two ends, or only what `one` sends to `other`.

        Raises:
            ValueError: the cluster has no such broker, both are the same, or nothing is sent between them.
        """
        ends = self._host(one), self._host(other)
        if not self._are_linked(*ends):
            raise ValueError(f"there is no link between {one!r} and {other!r}")
        return self._link([ends, ends[::-1]] if both_ways else [ends])

    def links(self, end: End) -> Link:
        """All links of an end, as one; those with hosts of clients that are known by now."""
        host = self._host(end)
        others = [other for other in self._hosts() if self._are_linked(host, other)]
        return self._link([way for other in others for way in ((host, other), (other, host))])

    def heal(self) -> None:
        """Heal all links."""
        self._link(self._network.changed_ways).heal()

    # --- for the run ----------------------------------------------------------------------------------------

    def end(self) -> None:
        """Let no broker live on."""
        for broker in self._brokers.values():
            broker.should_run = False
            broker.kill()

    def _state(self, topic: str, partition: int) -> LeaderAndIsr | None:
        path = znodes.partition_state_path(topic, partition)
        node = self._tree.read(path)
        return None if node is None else znodes.decode_state(path, node.data)

    def _learning(self) -> dict[int, BrokerCore]:
        """The brokers that serve, and are neither paused nor cut off from the metadata."""
        return {
            number: broker.core
            for number, broker in self._brokers.items()
            if broker.is_serving
            and broker.core is not None
            and broker.loop is not None
            and not broker.loop.is_paused
            and number not in self._cut_from_tree
        }

    def _is_up(self, broker: SimulatedBroker) -> bool:
        """Whether a broker serves, and it and the others that learn of it know each other."""
        learning = self._learning()
        if broker.node_id not in learning:
            return False
        known = learning[broker.node_id].metadata.image.brokers
        return learning.keys() <= known.keys() and all(
            broker.node_id in core.metadata.image.brokers for core in learning.values()
        )

    def _writing(self, topic: str, write: Write) -> Write:
        return when_possible(topic, write)

    async def _call(self, function: Callable[[Brokers], Coroutine[Any, Any, T]]) -> T:
        """Run `function` with all brokers, on the loop of one.

        If that one goes meanwhile, it runs again on another's.

        Raises:
            RuntimeError: none is running.
        """
        while True:
            first = next((number for number in self if not self._observed[number].is_paused), None)
            if first is None:
                raise RuntimeError("no broker of the cluster is running; start one first")
            core = self._brokers[first].core
            try:
                return await self._observed[first].call(lambda core: function(Brokers(core, self._asks)))
            except RuntimeError:
                if self._brokers[first].core is core and not self._observed[first].is_paused:
                    raise

    def _asks(self) -> Mapping[int, Ask]:
        return {number: _asking(self._observed[number]) for number in self}

    def _lead_to_faults(self) -> None:
        """Have all brokers meet their faults as they are now."""
        require_one_directory(self._switched_on)
        for broker in self._observed.values():
            broker.lead_to_faults()

    def _known(self, broker: int) -> SimulatedBroker:
        if broker not in self._brokers:
            first, last = min(self._brokers), max(self._brokers)
            raise ValueError(f"there is no broker {broker}: expected {first} to {last}")
        return self._brokers[broker]

    def _host(self, end: End) -> str:
        if isinstance(end, int):
            return self._known(end).host
        if end != METADATA and end not in self._clients:
            known = ", ".join(map(repr, (*self._clients, METADATA)))
            raise ValueError(f"there is no end {end!r}: expected the id of a broker, or one of {known}")
        return end

    def _hosts(self) -> list[str]:
        return [*(broker.host for broker in self._brokers.values()), *self._clients, METADATA]

    def _are_linked(self, one: str, other: str) -> bool:
        """Whether two hosts may send something to each other: one of them is a broker's."""
        return one != other and any(broker.host in (one, other) for broker in self._brokers.values())

    def _link(self, ways: list[tuple[str, str]]) -> Link:
        return Link(self._network, ways, self._follow_the_tree, self._reset_the_tree)

    def _reset_the_tree(self, ways: Sequence[tuple[str, str]]) -> None:
        """Let brokers lose their connections to the metadata, and make others."""
        hosts = {host for way in ways if METADATA in way for host in way}
        for broker in self._brokers.values():
            if broker.host in hosts and broker.node_id not in self._cut_from_tree:
                broker.lose_tree(RECONNECT_SECONDS)

    def _follow_the_tree(self) -> None:
        """Let brokers lose and find their metadata as the links are now."""
        for number, broker in self._brokers.items():
            joined = self._network.are_joined(METADATA, broker.host)
            joined &= self._network.are_joined(broker.host, METADATA)
            if joined and number in self._cut_from_tree:
                self._cut_from_tree.remove(number)
                broker.join_tree()
            elif not joined and number not in self._cut_from_tree:
                self._cut_from_tree.add(number)
                broker.cut_tree()

    def _new_clock(self, number: int) -> ManualClock:
        """The clock of a new life of a broker, which shows the time of the last one."""
        clock = ManualClock()
        if number in self._clocks:
            clock.turn(self._clocks[number].ahead)
        self._clocks[number] = clock
        return clock


class VirtualClock:
    """The clock of all brokers of a `VirtualCluster`.

    It runs with the virtual time, and ahead of it by what it was advanced.
    """

    def __init__(
        self,
        brokers: Mapping[int, SimulatedBroker],
        observed: Mapping[int, VirtualBroker],
        clocks: Mapping[int, ManualClock],
    ) -> None:
        self._brokers = brokers
        self._observed = observed
        self._clocks = clocks

    def now(self) -> datetime.datetime:
        """The brokers' time, in UTC."""
        clock = next(iter(self._clocks.values()))
        return datetime.datetime.fromtimestamp(clock.now_ms() / 1000, datetime.UTC)

    async def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        members_stay: bool = False,
    ) -> None:
        """Let so much time pass for the brokers, as `kafkapy.observe.clock.TestClock.advance`."""
        wanted = seconds_of(self.now(), days=days, hours=hours, minutes=minutes, seconds=seconds)
        serving = [number for number in self._clocks if self._brokers[number].is_serving]
        for number in serving:
            self._observed[number].require_unpaused()
        for number, clock in self._clocks.items():
            if number not in serving:
                clock.turn(wanted)
        ends = await asyncio.gather(
            *(
                self._observed[number].call(
                    partial(advance, clock=self._clocks[number], seconds=wanted, members_stay=members_stay)
                )
                for number in serving
            ),
            return_exceptions=True,
        )
        for error in ends:
            if error is not None:
                raise error


def _asking(broker: VirtualBroker) -> Ask:
    """How a broker is asked from the loop of another one."""

    async def ask(request: TopMessage) -> Any:
        return await broker.call(partial(answered, request=request, seconds=ANSWER_SECONDS))

    return ask


def _knows(core: BrokerCore, name: str) -> bool:
    """Whether a broker knows a topic, with a leader of each partition."""
    topic = core.metadata.image.topics.get(name)
    return topic is not None and all(each.leader != NO_LEADER for each in topic.partitions)
