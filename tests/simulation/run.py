"""What the runs have in common: the world around the brokers, the clients, and the verdict."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kafkapy.inter_broker.peers import PeerAddress
from kafkapy.virtual.broker import SimulatedBroker
from kafkapy.virtual.determinism import deterministic
from kafkapy.virtual.loop import VirtualLoop
from kafkapy.virtual.metadata_tree import MemoryTree
from kafkapy.virtual.network import PORT, Network
from kafkapy.virtual.world import SimulationError, World
from tests.promises.history import Partition
from tests.simulation.clients import SimulatedCommitter, SimulatedProducer, SimulatedReader
from tests.simulation.clock import SimulatedClock
from tests.simulation.settings import SETTINGS
from tests.simulation.witness import Witness

CLIENTS_HOST: Final = "clients"

SETTLING_SECONDS: Final = 120.0
"""How long it may take after the last fault until every record is acknowledged."""

ZOOKEEPERS: Final = 3

FARTHEST_BEHIND: Final = 0.5
"""How much later than the others a ZooKeeper may learn of a change, in seconds."""

FAULT_SECONDS: Final = 15.0
"""How long faults continue, unless a run says otherwise."""


@dataclass
class Outcome:
    """What came of a run."""

    fingerprint: str
    events: int
    seconds: float
    """Virtual ones."""
    acked: int
    commits: int
    lives: int
    cuts: int
    faults: dict[str, int]


@dataclass
class Run:
    """One run: a world with brokers and clients."""

    world: World
    folder: Path
    fault_seconds: float
    network: Network = field(init=False)
    tree: MemoryTree = field(init=False)
    clients: VirtualLoop = field(init=False)
    witness: Witness = field(init=False)
    brokers: list[SimulatedBroker] = field(default_factory=list)
    producers: list[SimulatedProducer] = field(default_factory=list)
    readers: list[SimulatedReader] = field(default_factory=list)
    committers: list[SimulatedCommitter] = field(default_factory=list)
    _background: list[asyncio.Task[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.network = Network(self.world)
        self.tree = MemoryTree(self.world.note, servers=ZOOKEEPERS, later=self._after_the_others)
        self.witness = Witness(self.world)
        self.clients = self.world.loop("clients")
        self.clients.connector = self.network.connector(lambda: CLIENTS_HOST)

    def _after_the_others(self, call: Callable[[], None]) -> None:
        """Call when a ZooKeeper learns of a change: soon, or a little later than others."""
        self.world.later(FARTHEST_BEHIND * self.world.chance.random() ** 6, call)

    def add_broker(
        self, node_id: int, settings: Mapping[str, str], *, in_cluster: bool = False
    ) -> SimulatedBroker:
        """Add a broker, and start it."""
        clock = SimulatedClock(self.world, self.world.chance.randrange(-500, 500))
        broker = SimulatedBroker(
            self.world,
            self.network,
            self.tree,
            node_id,
            self.folder,
            settings,
            new_clock=lambda: clock,
            defaults=SETTINGS,
            in_cluster=in_cluster,
        )
        self.brokers.append(broker)
        broker.start()
        return broker

    @property
    def addresses(self) -> dict[int, PeerAddress]:
        """Where clients reach the brokers."""
        return {each.node_id: PeerAddress(each.node_id, each.host, PORT) for each in self.brokers}

    def in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a client until `end_background`."""
        self._background.append(self.client_task(work))

    def end_background(self) -> None:
        """Stop the clients in the background."""
        for task in self._background:
            task.cancel()
        self.wait_for(lambda: all(task.done() for task in self._background), "the end of the clients")

    def client_task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a client; the run fails with it."""
        task = self.clients.create_task(work)
        task.add_done_callback(self._client_ended)
        return task

    def finish(self, work: Coroutine[Any, Any, Any], what: str, seconds: float = SETTLING_SECONDS) -> None:
        """Run until a client's work is done.

        Raises:
            SimulationError: it takes longer than `seconds`.
        """
        self.wait_for(self.client_task(work).done, what, seconds)

    def wait_for(self, done: Callable[[], bool], what: str, seconds: float = SETTLING_SECONDS) -> None:
        """Run until `done()`.

        Raises:
            SimulationError: it takes longer than `seconds`.
        """
        if not self.world.run_until(done, self.world.now + seconds):
            self.world.failed(f"{what} takes longer than {seconds:g} s")
            assert self.world.failure is not None
            raise self.world.failure

    def outcome(self) -> Outcome:
        return Outcome(
            self.world.fingerprint,
            self.world.events,
            self.world.now,
            sum(each.acked for each in self.producers),
            sum(each.commits for each in self.committers),
            sum(each.lives for each in self.brokers),
            sum(each.cuts for each in self.brokers),
            dict(sorted(self.world.faults.items())),
        )

    def _client_ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.world.failed(f"a client failed: {error!r}", error)


Scene = Callable[[Run], None]
"""What happens in a run. It raises SimulationError if a promise is broken."""


def simulate(
    scene: Scene,
    seed: int,
    watch: Callable[[str], None] | None = None,
    *,
    fault_seconds: float = FAULT_SECONDS,
) -> Outcome:
    """Run a scene with a seed; `watch` gets every event.

    Raises:
        SimulationError: a promise was broken; the message has the seed and the last events.
    """
    world = World(seed, is_strict=True)
    world.watch = watch
    with (
        tempfile.TemporaryDirectory(prefix="kafkapy-simulation-", dir=_memory()) as folder,
        deterministic(world),
        _errors_are_failures(world, Path(folder)),
    ):
        world.folder = folder
        outcome = _play(scene, Run(world, Path(folder), fault_seconds))
    if isinstance(outcome, str):
        raise SimulationError(outcome)
    return outcome


def _play(scene: Scene, run: Run) -> Outcome | str:
    """The outcome, or why the run failed.

    Nothing of the run is left then, no traceback either.
    """
    try:
        scene(run)
        return run.outcome()
    except SimulationError as error:
        cause = error.__cause__
        why = [] if cause is None else traceback.format_exception(cause)
        return "\n".join([str(error), *why, "The last events:", *list(run.world.notes)[-40:]])
    finally:
        for broker in run.brokers:
            broker.should_run = False
            broker.kill()


def partitions_of(topic: str, count: int) -> list[Partition]:
    """The partitions of a topic."""
    return [(topic, index) for index in range(count)]


def _memory() -> str | None:
    """A folder in memory, where there is one: the simulated disks are small."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


class _ErrorsAreFailures(logging.Handler):
    """Ends the run when a broker logs an exception that it did not expect."""

    def __init__(self, world: World, folder: Path) -> None:
        """`folder` holds the brokers' directories; its name differs from run to run."""
        super().__init__(logging.INFO)
        self._world = world
        self._folder = str(folder)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception as error:
            message = f"{record.msg!r} {error}"
        self._world.note("log", record.levelname, message.replace(self._folder, ""))
        if record.exc_info is not None and record.exc_info[1] is not None and record.levelno >= logging.ERROR:
            self._world.failed(message, record.exc_info[1])


@contextmanager
def _errors_are_failures(world: World, folder: Path) -> Iterator[None]:
    handler = _ErrorsAreFailures(world, folder)
    broker_logger = logging.getLogger("kafkapy")
    level, propagate = broker_logger.level, broker_logger.propagate
    broker_logger.addHandler(handler)
    broker_logger.setLevel(logging.INFO)
    broker_logger.propagate = False
    try:
        yield
    finally:
        broker_logger.removeHandler(handler)
        broker_logger.setLevel(level)
        broker_logger.propagate = propagate
