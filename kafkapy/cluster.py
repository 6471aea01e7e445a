"""A cluster of brokers inside the process that uses it, for tests in which brokers go away.

    with kafkapy.Cluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        cluster.kill(1)

Each broker has a thread and an event loop of its own. They share one metadata tree, elect a controller and
replicate over TCP, as on machines of their own. Their data is in a temporary directory that is deleted at the
end of the `with` block, unless `data_dir` names a directory.

With `clock="virtual"` they run in a time, a network and on disks of their own (kafkapy/virtual), in the
thread that calls `run`, and so does the test.

A broker that is started again has its data and its port. With `data_dir`, that holds for a later cluster too:
`ports.json` there has the port of each broker by its id.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

from kafkapy.inprocess import REAL_CLOCK, Broker, ClockName, new_clock, setting_text
from kafkapy.observe.broker import AskedBroker, Data, Headers, producing, when_possible

if TYPE_CHECKING:
    from kafkapy.broker.core import BrokerCore
    from kafkapy.broker.machine import Machine
    from kafkapy.configs.config import BrokerConfig
    from kafkapy.faults.fault import Fault
    from kafkapy.faults.faults import Faults
    from kafkapy.faults.switched_on import SwitchedOn
    from kafkapy.inter_broker.peers import Peer, PeerAddress, Peers
    from kafkapy.loop.clock import Clock
    from kafkapy.loop.manual_clock import ManualClock
    from kafkapy.observe.brokers import Ask, Brokers
    from kafkapy.observe.clock import TestClock
    from kafkapy.observe.record import Record
    from kafkapy.protocol.message import TopMessage
    from kafkapy.security.links import LinkSecurity
    from kafkapy.snapshot import Snapshot
    from kafkapy.virtual.cluster import VirtualCluster

_METADATA: Final = "metadata.db"
_PORTS: Final = "ports.json"
"""In the directory of a cluster: `{"1": 43417, "2": 43418}`, the ports of its brokers."""
MOST_REPLICAS: Final = 3
KNOWN_SECONDS: Final = 30

VIRTUAL_SECONDS: Final = 3600.0
"""How long a run in virtual time may take by default."""

_VIRTUAL: Final = (
    "the time of this cluster is virtual: call run(main) with a coroutine function, which gets the cluster;"
    ' with clock="real" it has threads, and calls that block'
)
_NOT_VIRTUAL: Final = (
    'the cluster has the machine\'s time; make it with clock="virtual" to run code in its time'
)
_NOT_RUNNING: Final = "no broker of the cluster is running; use it in a with statement or call start()"

T = TypeVar("T")

_OWN_SETTINGS: Final = ("broker.id", "node.id", "listeners", "advertised.listeners", "log.dir", "log.dirs")
"""The settings that are another for each broker."""


class Cluster(AskedBroker):
    """Brokers 1, 2, 3 … in threads of this process; a context manager.

    Args:
        brokers: how many.
        first_id: the id of the first of them, which counts up from there.
        config: Kafka's settings for all of them; values may be str, int, float or bool.
        data_dir: the directory to keep the data in, for later starts.
        clock: "manual" for a `clock` that can be advanced, for all brokers together; "virtual" for a cluster
            that only `run` starts.
        seed: with virtual time, what decides the order of all that happens.

    Raises:
        ValueError: a directory or a seed where it has no meaning.
        ConfigError: `config` has a setting that the cluster gives each broker itself.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        first_id: int = 1,
        config: Mapping[str, object] | None = None,
        data_dir: str | Path | None = None,
        clock: ClockName | Literal["virtual"] = "real",
        seed: int | None = None,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster of {brokers} brokers: expected 1 or more")
        if first_id < 0:
            raise ValueError(f"the first id is {first_id}: expected 0 or more")
        _require_common(config or {})
        replicas = min(brokers, MOST_REPLICAS)
        self._config: dict[str, object] = {
            "default.replication.factor": replicas,
            "min.insync.replicas": (replicas + 1) // 2,
            "offsets.topic.replication.factor": replicas,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": (replicas + 1) // 2,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": (replicas + 1) // 2,
            **(config or {}),
        }
        self._numbers = range(first_id, first_id + brokers)
        self._is_virtual = clock == "virtual"
        self._seed = seed or 0
        if self._is_virtual and data_dir is not None:
            raise ValueError(
                f"data_dir={str(data_dir)!r}: in virtual time the disks are simulated; leave it out"
            )
        if not self._is_virtual and seed is not None:
            raise ValueError(f'seed={seed}: only clock="virtual" has a seed')
        self._clocks = {number: None if clock == "virtual" else new_clock(clock) for number in self._numbers}
        """The clocks of the brokers, which outlive their stops; None: the machine's."""
        self._folder = None if data_dir is None else Path(data_dir)
        self._temporary: weakref.finalize[..., Any] | None = None
        """Deletes the temporary directory `_folder`, at the latest when the process ends."""
        self._made: dict[int, _ClusterBroker] = {}
        """The brokers that have run, with their faults."""
        self._brokers: dict[int, _ClusterBroker] = {}
        """Those that are running."""
        self._ports: dict[int, int] = {}
        """The ports of brokers that have run: they come back to them."""
        self._cuts: set[frozenset[int]] = set()
        """The pairs of brokers that cannot reach each other."""
        self._switched_on: SwitchedOn | None = None
        """The faults of all brokers; None as long as nobody has asked for them."""

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of each broker, running or not, for clients."""
        self._require_real()
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def __iter__(self) -> Iterator[int]:
        """The ids of the brokers that are running."""
        self._require_real()
        return iter(list(self._brokers))

    def __getitem__(self, broker: int) -> Broker:
        """A broker that is running; KeyError for any other."""
        self._require_real()
        return self._brokers[broker]

    @property
    def controller(self) -> int:
        """The id of the controller; -1 while there is none."""
        self._require_real()
        for broker in self._brokers.values():
            return broker.core.metadata.image.controller_id
        return -1

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Create topics of so many partitions each, as `Broker.create_topics`; raises ValueError."""
        self[self.controller].create_topics(topics)

    def produce(
        self,
        topic: str,
        *,
        key: Data = None,
        value: Data = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Record:
        """Write a record without a client, as `Broker.produce`, when the partition can be written.

        Raises:
            NotSeenError: it has no leader, or too few replicas in sync, for ten seconds.
            ValueError: its leader refuses the record, and says why.
        """
        write = producing(topic, key, value, headers, partition, timestamp)
        return self._call(when_possible(topic, write))

    def _call(self, function: Callable[[Brokers], Coroutine[Any, Any, T]]) -> T:
        """Run `function` with all brokers, on the loop of one.

        If that one goes meanwhile, it runs again on another's.

        Raises:
            RuntimeError: none is running.
        """
        from kafkapy.observe.brokers import Brokers

        while True:
            running = [each for each in dict(self._brokers).items() if not each[1].is_paused]
            if not running:
                raise RuntimeError(_NOT_RUNNING)
            number, broker = running[0]
            try:
                return broker.call(lambda core: function(Brokers(core, self._asks)))
            except RuntimeError:
                if self._brokers.get(number) is broker and not broker.is_paused:
                    raise

    def _asks(self) -> Mapping[int, Ask]:
        return {number: _asking(broker) for number, broker in dict(self._brokers).items()}

    @property
    def clock(self) -> TestClock:
        """The clock of its brokers, to advance it for all of them.

        Raises:
            RuntimeError: they have the machine's clock.
        """
        from kafkapy.observe.clock import TestClock

        self._require_real()
        if (first := self._clocks[self._numbers[0]]) is None:
            raise RuntimeError(REAL_CLOCK)
        return TestClock(first, self._advance)

    @property
    def faults(self) -> Faults[Fault]:
        """What its brokers do wrong on purpose, whichever of them is asked, counted together.

        What is switched on stays so when they are started again. `cluster[2].faults` are those of broker 2.
        """
        from kafkapy.faults.faults import blocking
        from kafkapy.faults.switched_on import SwitchedOn

        self._require_real()
        if self._switched_on is None:
            self._switched_on = SwitchedOn(self._lead_to_faults)
            for broker in dict(self._made).values():
                broker.switched_on().of_cluster = self._switched_on
        return blocking(self._switched_on)

    def _lead_to_faults(self) -> None:
        """Have all brokers meet their faults as they are now."""
        for broker in dict(self._made).values():
            try:
                broker.lead_to_faults()
            except RuntimeError:  # it ends, or is paused, and meets them later
                if broker.is_running and not broker.is_paused:
                    raise

    def _advance(self, seconds: float, *, members_stay: bool) -> None:
        """Advance all brokers at a time: each may need the others for what is due."""
        running = dict(self._brokers)
        for number, broker in running.items():
            if broker.is_paused:
                raise RuntimeError(f"broker {number} is paused; resume it first")
        for number, clock in self._clocks.items():
            if number not in running and clock is not None:
                clock.turn(seconds)
        with ThreadPoolExecutor(len(self._clocks)) as threads:
            advancing = [
                threads.submit(broker.advance, seconds, members_stay=members_stay)
                for broker in running.values()
            ]
        for each in advancing:
            each.result()

    def start(self, broker: int | None = None) -> None:
        """Start a broker, or all that are not running.

        It returns when they serve clients and all brokers know each other.

        Raises:
            kafkapy.ConfigError, kafkapy.StartError: as `kafkapy.Broker.start`.
        """
        self._require_real()
        for number in self._numbers if broker is None else [self._known(broker)]:
            if number not in self._brokers:
                self._start(number)
        self._wait_until_known()

    def stop(self, broker: int | None = None) -> None:
        """Stop a broker, or all, as SIGTERM does: first other brokers take over what it leads."""
        for number in self._running(broker):
            self._brokers.pop(number).stop()

    def kill(self, broker: int) -> None:
        """End a broker as SIGKILL does: nothing is handed over, synced or marked as clean.

        The other brokers know at once that its session with the metadata is over.
        """
        for number in self._running(broker):
            self._brokers.pop(number).kill()

    def partition(self, broker: int, other: int) -> None:
        """Let requests between two brokers fail, in both directions.

        Clients and the metadata reach both.

        Raises:
            ValueError: the cluster has no such broker, or both are the same one.
        """
        pair = frozenset((self._known(broker), self._known(other)))
        if len(pair) == 1:
            raise ValueError(f"broker {broker} cannot be cut off from itself: expected two brokers")
        self._cuts.add(pair)

    def cut_off(self, broker: int) -> None:
        """Let requests between a broker and all others fail, until `heal`.

        Clients and the metadata reach it.

        Raises:
            ValueError: the cluster has no such broker.
        """
        self._cuts.update(
            frozenset((self._known(broker), other)) for other in self._numbers if other != broker
        )

    def pause(self, broker: int) -> None:
        """Hold a running broker as SIGSTOP does, until `resume`.

        It keeps its session with the metadata.
        """
        for number in self._running(broker):
            self._brokers[number].pause()

    def resume(self, broker: int) -> None:
        """Let a paused broker continue; do nothing if it is not paused."""
        if (paused := self._brokers.get(self._known(broker))) is not None:
            paused.resume()

    def heal(self, broker: int | None = None) -> None:
        """Let a broker and all others, or all brokers, reach each other again.

        Raises:
            ValueError: the cluster has no such broker.
        """
        if broker is None:
            self._require_real()
            self._cuts.clear()
        else:
            self._known(broker)
            self._cuts.difference_update([pair for pair in self._cuts if broker in pair])

    def cut_off_from(self, broker: int) -> set[int]:
        """The brokers that a broker cannot reach."""
        return {other for pair in list(self._cuts) if broker in pair for other in pair - {broker}}

    def run(
        self,
        main: Callable[[VirtualCluster], Coroutine[Any, Any, T]],
        *,
        within: float = VIRTUAL_SECONDS,
        trace: str | Path | None = None,
    ) -> T:
        """Run `main(cluster)` in virtual time, with new brokers that serve, and return its result.

        It runs as by `asyncio.run`. Nothing is left of the brokers then, and another run does the same again.

        Args:
            main: gets a `VirtualCluster`. Its clients are those of asyncio.
            within: the virtual seconds that the run may take.
            trace: a file to write all events to, one a line; equal for runs in which the same happened.

        Raises:
            RuntimeError: the clock is another one, or an event loop is running.
            kafkapy.virtual.run.TimeIsOverError: `main` has not ended in time.
            kafkapy.ConfigError, kafkapy.StartError: as `kafkapy.Broker.start`.
        """
        if not self._is_virtual:
            raise RuntimeError(_NOT_VIRTUAL)
        from kafkapy.virtual.run import run

        return run(
            main,
            seed=self._seed,
            numbers=self._numbers,
            config={name: setting_text(value) for name, value in self._config.items()},
            within=within,
            trace=trace,
        )

    def __enter__(self) -> Self:
        with ExitStack() as started:
            started.callback(self._end)
            self.start()
            started.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _require_real(self) -> None:
        if self._is_virtual:
            raise RuntimeError(_VIRTUAL)

    def _end(self) -> None:
        self.stop()
        if self._temporary is not None:
            self._temporary()
            self._temporary = self._folder = None
            self._ports.clear()
            self._made.clear()

    def _known(self, broker: int) -> int:
        self._require_real()
        if broker not in self._numbers:
            first, last = self._numbers[0], self._numbers[-1]
            raise ValueError(f"there is no broker {broker}: expected {first} to {last}")
        return broker

    def _running(self, broker: int | None) -> Iterable[int]:
        self._require_real()
        if broker is None:
            return list(self._brokers)
        return [broker] if self._known(broker) in self._brokers else []

    def _start(self, number: int) -> None:
        folder = self._open_folder()
        if number not in self._made:
            config = {
                **self._config,
                "broker.id": number,
                "listeners": f"PLAINTEXT://127.0.0.1:{self._ports.get(number, 0)}",
            }
            self._made[number] = _ClusterBroker(
                config, folder / f"broker-{number}", folder / _METADATA, self._cuts, self._clocks[number]
            )
        broker = self._made[number]
        if self._switched_on is not None:
            broker.switched_on().of_cluster = self._switched_on
        broker.start()
        self._brokers[number] = broker
        port = broker.core.server.listening[0].port
        if self._ports.get(number) != port:
            self._ports[number] = port
            (folder / _PORTS).write_text(json.dumps(self._ports))

    def _wait_until_known(self) -> None:
        """Return when all brokers know each other as far as the controller can tell them.

        Each can then create topics with as many replicas.
        """
        from kafkapy.broker.core import StartError

        deadline = time.monotonic() + KNOWN_SECONDS
        for number, broker in self._brokers.items():
            while self._hears_of_others(number) and (
                unknown := self._brokers.keys() - broker.core.metadata.image.brokers.keys()
            ):
                if time.monotonic() > deadline:
                    raise StartError(
                        f"broker {number} has not heard of {sorted(unknown)} within {KNOWN_SECONDS} s"
                    )
                time.sleep(0.001)

    def _hears_of_others(self, number: int) -> bool:
        """Whether the controller can tell a broker of the others."""
        controller = self.controller
        return not (
            self._brokers[number].is_paused
            or (controller in self._brokers and self._brokers[controller].is_paused)
            or controller in self.cut_off_from(number)
        )

    def _open_folder(self) -> Path:
        """The directory of the cluster, and the ports that an earlier cluster had there."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="kafkapy-"))
            self._temporary = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        elif not self._ports:
            self._folder.mkdir(parents=True, exist_ok=True)
            if (ports := self._folder / _PORTS).exists():
                self._ports.update(_read_ports(ports, self._numbers))
        return self._folder


def _read_ports(file: Path, numbers: Iterable[int]) -> dict[int, int]:
    """The ports in a cluster's `ports.json` of those brokers that it has now.

    Raises:
        ConfigError: somebody has changed the file.
    """
    from kafkapy.configs.keys import ConfigError

    try:
        ports = {int(number): int(port) for number, port in json.loads(file.read_text()).items()}
        return {number: ports[number] for number in numbers if number in ports}
    except (AttributeError, TypeError, ValueError):
        message = f'{file}: expected the ports of brokers, such as {{"1": 9092}}; correct or remove it'
        raise ConfigError(message) from None


def _require_common(config: Mapping[str, object]) -> None:
    """Refuse settings that cannot be the same for all brokers of a process."""
    from kafkapy.configs.keys import ConfigError

    for name in _OWN_SETTINGS:
        if name in config:
            raise ConfigError(
                f"{name}: a cluster in one process gives each broker its own; remove the setting"
            )
    if config.get("zookeeper.connect"):
        raise ConfigError(
            "zookeeper.connect: a cluster in one process keeps its metadata itself; remove the setting, or"
            " run each broker with kafkapy serve"
        )


def _asking(broker: Broker) -> Ask:
    """How a broker is asked from the loop of another one."""

    async def ask(request: TopMessage) -> Any:
        from kafkapy.observe.asking import ANSWER_SECONDS
        from kafkapy.observe.brokers import answered

        submitted = broker.submit(partial(answered, request=request, seconds=ANSWER_SECONDS))
        return await asyncio.wrap_future(submitted)

    return ask


class _ClusterBroker(Broker):
    """A broker of a cluster."""

    def __init__(
        self,
        config: Mapping[str, object],
        data_dir: Path,
        metadata: Path,
        cuts: set[frozenset[int]],
        clock: ManualClock | None,
    ) -> None:
        super().__init__(config=config, data_dir=data_dir)
        self._clock = clock
        self._metadata = metadata
        self._cuts = cuts

    def reset(self, snapshot: Snapshot | None = None) -> None:
        """Refuse: what the other brokers have would not fit.

        Raises:
            SnapshotError: always.
        """
        from kafkapy.snapshot import SnapshotError

        raise SnapshotError("a broker of a cluster cannot be reset: make a new cluster")

    def _new_core(self, config: BrokerConfig) -> BrokerCore:
        from kafkapy.broker.core import BrokerCore
        from kafkapy.metadata.embedded import EmbeddedStore

        async def open_store() -> EmbeddedStore:
            return await EmbeddedStore.open(self._metadata, sync=False)

        machine = _cut_machine(self._cuts, self._clock)
        return BrokerCore(config, machine, cluster_store=open_store)


def _cut_machine(cuts: set[frozenset[int]], clock: Clock | None) -> Machine:
    """A machine whose connections to other brokers may be cut."""
    from kafkapy.broker.machine import Machine

    class CutMachine(Machine):
        def peers(self, node_id: int, security: LinkSecurity | None) -> Peers:
            return _CutPeers(super().peers(node_id, security), node_id, cuts)

    return CutMachine(clock)


class _CutPeers:
    """Connections to other brokers, some of which cannot be reached."""

    def __init__(self, peers: Peers, node_id: int, cuts: set[frozenset[int]]) -> None:
        self._peers = peers
        self._node_id = node_id
        self._cuts = cuts

    def connect(self, address: PeerAddress, purpose: str) -> Peer:
        pair = frozenset((self._node_id, address.id))
        return _CutPeer(self._peers.connect(address, purpose), pair, self._cuts)


class _CutPeer:
    """A connection to another broker, which fails while the two cannot reach each other."""

    def __init__(self, peer: Peer, pair: frozenset[int], cuts: set[frozenset[int]]) -> None:
        self._peer = peer
        self._pair = pair
        self._cuts = cuts

    @property
    def address(self) -> PeerAddress:
        return self._peer.address

    async def version(self, api_key: int) -> int:
        self._require_uncut()
        return await self._peer.version(api_key)

    async def ask(self, request: Any, *, seconds: float) -> Any:
        self._require_uncut()
        response = await self._peer.ask(request, seconds=seconds)
        self._require_uncut()
        return response

    def close(self) -> None:
        self._peer.close()

    def _require_uncut(self) -> None:
        from kafkapy.inter_broker.peers import PeerError

        if self._pair in self._cuts:
            raise PeerError(f"broker {self.address.id} cannot be reached: the network is partitioned")
