"""A simulated broker: the real BrokerCore on a simulated machine.

It crashes and starts again.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from kafkapy.broker.core import BrokerCore, StartError
from kafkapy.configs.config import BrokerConfig
from kafkapy.metadata.store import MetadataStore, OutcomeUnknownError
from tests.simulation.disk import SimulatedDisk
from tests.simulation.machine import SimulatedMachine
from tests.simulation.metadata_tree import MemoryStore, MemoryTree
from tests.simulation.network import PORT, Network
from tests.simulation.world import VirtualLoop, World

SETTINGS: Final[Mapping[str, str]] = {
    "durability": "fsync",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "1",
    "log.cleaner.enable": "false",
    "log.roll.ms": "1500",
    "log.flush.offset.checkpoint.interval.ms": "700",
    "log.flush.start.offset.checkpoint.interval.ms": "900",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.index.interval.bytes": "200",
    "log.index.size.max.bytes": "4096",
    "log.segment.delete.delay.ms": "1000",
    "auto.create.topics.enable": "false",
    "controlled.shutdown.enable": "true",
}

RETRY_SECONDS: Final = 0.7
"""After which a broker that could not start is started again."""


class SimulatedBroker:
    """One broker, through all its lives."""

    def __init__(
        self,
        world: World,
        network: Network,
        tree: MemoryTree,
        node_id: int,
        folder: Path,
        settings: Mapping[str, str],
        *,
        in_cluster: bool = False,
    ) -> None:
        self.world = world
        self.network = network
        self.tree = tree
        self.node_id = node_id
        self.host = f"broker-{node_id}"
        self.root = folder / self.host
        self.root.mkdir()
        self.core: BrokerCore | None = None
        """The broker while its process lives."""
        self.loop: VirtualLoop | None = None
        self.is_serving = False
        self.should_run = True
        """Whether it is started again when it is down."""
        self.sync_seconds = 0.0
        """How much longer a sync of the disk may take now."""
        self.away_seconds: float | None = None
        """How long the power stays away the next time, if that is decided already."""
        self.session_seconds = 0.0
        """How long the session of a dead process lives on."""
        self.lives = 0
        self.cuts = 0
        self._settings = dict(settings)
        self._in_cluster = in_cluster
        self._store: MemoryStore | None = None
        self._clock_is_wrong_ms = world.chance.randrange(-500, 500)
        self._room: int | None = None
        self._disk = self._new_disk()
        self.lost_power = False
        """Whether the power has failed in the present callback."""

    def _new_disk(self) -> SimulatedDisk:
        disk = SimulatedDisk(self.root, self.world, self.host, self._power_failed)
        disk.room = self._room
        return disk

    # --- lives ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a process."""
        if self.core is not None or not self.should_run:
            return
        self.lives += 1
        self.world.note(self.host, "starts", self.lives)
        loop = self.loop = self.world.loop(self.host)
        loop.connector = self.network.connector(self.host)
        machine = SimulatedMachine(
            loop,
            self.host,
            self._disk,
            self.network,
            self._open_session,
            clock_is_wrong_ms=self._clock_is_wrong_ms,
            sync_seconds=lambda: self.sync_seconds,
        )
        listener = f"PLAINTEXT://{self.host}:{PORT}"
        config = BrokerConfig.from_properties(
            {
                **SETTINGS,
                "log.dirs": f"{self.root}/data",
                "node.id": str(self.node_id),
                "listeners": listener,
                "advertised.listeners": listener,
            },
            self._settings,
        )
        core = self.core = BrokerCore(
            config, machine, cluster_store=self._open_cluster if self._in_cluster else None
        )
        loop.create_task(self._run(core, loop))

    def kill(self) -> None:
        """End the process at once, as SIGKILL does: what it wrote stays."""
        loop = self.loop
        if loop is None:
            return
        self.world.note(self.host, "dies")
        self.world.kill(loop)
        self.world.buried.append((self.core, self._store))
        self.core, self.loop, self.is_serving = None, None, False
        self.network.forget(self.host, loop)
        self._disk.close_all()
        self._leave_session()

    def _leave_session(self) -> None:
        """Let the session end that a process has left.

        The process was killed, or stopped without a connection.
        """
        store, self._store = self._store, None
        if store is not None:
            if self.session_seconds:
                self.world.later(self.session_seconds, self.tree.end, store.session_id)
            else:
                self.tree.end(store.session_id)

    def fill_disk(self, room: int | None) -> None:
        """Leave so many bytes free on the disk; None for enough."""
        self._room = room
        self._disk.room = room

    def cut_power_after(self, operations: int) -> None:
        """Cut the power of the machine when it has changed its disk this many times more."""
        self._disk.cut_after = operations

    def cut_power(self) -> None:
        """Cut the power of the machine now."""
        if self._disk.has_power:
            self._disk.cut()

    def stop(self, then: Callable[[], object]) -> None:
        """Stop in order, and call `then`."""
        core, loop = self.core, self.loop
        if core is None or loop is None or not self.is_serving:
            then()
            return
        self.is_serving = False
        self.world.note(self.host, "stops")

        async def stop() -> None:
            await core.stop()
            self._leave_session()
            # Between two callbacks of the world: not in one of the loop that ends.
            self.world.later(0, self._stopped, loop, then)

        loop.create_task(stop())

    def run(self, call: Callable[[BrokerCore], Coroutine[Any, Any, Any]]) -> None:
        """Run something on the broker's loop, if it serves."""
        if self.is_serving and self.core is not None and self.loop is not None:
            self.loop.create_task(call(self.core))

    async def _run(self, core: BrokerCore, loop: VirtualLoop) -> None:
        try:
            await core.start()
        except StartError as error:
            if isinstance(error.__context__, OutcomeUnknownError):
                self.world.failed(f"{self.host} cannot start without its tree: {error}")
            # The folder's name differs from run to run.
            self.world.note(self.host, "cannot start", str(error).replace(str(self.root.parent), ""))
            self.world.later(0, self._stopped, loop, lambda: self.start_later(RETRY_SECONDS))
            return
        self.world.note(self.host, "serves")
        self.is_serving = True
        await core.failed.wait()
        self.world.failed(f"{self.host} has no log directory left")

    def start_later(self, seconds: float) -> None:
        """Start a process after a while."""
        self.world.later(seconds, self.start)

    def _stopped(self, loop: VirtualLoop, then: Callable[[], object]) -> None:
        if loop is self.loop:
            self.kill()
            then()

    # --- power ----------------------------------------------------------------------------------------------

    def _power_failed(self) -> None:
        """Called by the disk, inside of a callback of the broker, which still goes on to its end."""
        self.lost_power = True
        self.world.after_this.append(self._come_back)
        self.cuts += 1
        self.network.power_lost(self.host)
        if self._store is not None:
            self._store.cut_off = True

    def _come_back(self) -> None:
        self.lost_power = False
        self.world.note(self.host, "loses its power")
        self.kill()
        self.network.power_returned(self.host)
        self._disk.lose_power(self.world.chance)
        self._disk = self._new_disk()
        away, self.away_seconds = self.away_seconds, None
        self.start_later(self.world.chance.uniform(0.05, 2.0) if away is None else away)

    # --- the metadata store ---------------------------------------------------------------------------------

    def _open_session(self) -> MemoryStore:
        assert self.loop is not None
        self._store = MemoryStore(self.tree, SimulatedLine(self.world, self.loop))
        return self._store

    async def _open_cluster(self) -> MetadataStore:
        return self._open_session()

    def expire_session_after(self, seconds: float) -> None:
        """Let the present session with the tree expire.

        If it is connected, the tree ends the connection.
        """
        store, loop = self._store, self.loop

        def expire() -> None:
            if store is not None and loop is not None and store.is_connected:
                self.world.note(self.host, "session expires", store.session_id)
                self.tree.end(store.session_id)
                store.is_connected = False
                loop.call_soon(store.lose_connection)
                loop.call_later(self.world.chance.random(), store.connect_again)

        self.world.later(seconds, expire)

    def lose_tree(self, seconds: float) -> None:
        """Lose the connection to the metadata tree for a while; the session expires if that lasts."""
        store, loop = self._store, self.loop
        if store is None or loop is None or not store.is_connected:
            return
        self.world.note(self.host, "loses the tree")
        store.is_connected = False
        loop.call_soon(store.lose_connection)
        if seconds > self.session_seconds:
            self.world.later(self.session_seconds, self.tree.end, store.session_id)
        loop.call_later(seconds, store.connect_again)


class SimulatedLine:
    """Carries calls between a broker's store and the tree, in order, with delays."""

    def __init__(self, world: World, loop: VirtualLoop) -> None:
        self._world = world
        self._loop = loop
        self._free_at = {"tree": 0.0, "store": 0.0}

    def to_tree(self, call: Callable[[], None]) -> None:
        self._world.outside.call_at(self._when("tree"), call)

    def to_store(self, call: Callable[[], None]) -> None:
        def arrive() -> None:
            if not self._loop.is_dead:
                self._loop.call_soon(call)

        self._world.outside.call_at(self._when("store"), arrive)

    def _when(self, way: str) -> float:
        at = self._world.now + 0.0002 + 0.01 * self._world.chance.random() ** 3
        # A later call must not overtake: two timers of one time need not run in order.
        self._free_at[way] = max(at, self._free_at[way] + 1e-6)
        return self._free_at[way]


class ErrorsAreFailures(logging.Handler):
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


def random_settings(chance: random.Random) -> dict[str, str]:
    """Settings that differ from run to run."""
    return {
        "background.threads": str(chance.choice((2, 4))),
        "log.check.on.first.read": chance.choice(("true", "false")),
    }
