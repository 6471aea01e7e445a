"""A simulated broker: the real BrokerCore on a simulated machine.

It crashes and starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from kafkapy.broker.core import BrokerCore, StartError
from kafkapy.configs.config import BrokerConfig
from kafkapy.faults.disks import DiskFault
from kafkapy.loop.clock import Clock
from kafkapy.metadata.store import MetadataStore, OutcomeUnknownError
from kafkapy.virtual.disk import FaultyDisk
from kafkapy.virtual.loop import VirtualLoop
from kafkapy.virtual.machine import SimulatedMachine
from kafkapy.virtual.metadata_tree import MemoryStore, MemoryTree
from kafkapy.virtual.network import PORT, Network
from kafkapy.virtual.world import World

RETRY_SECONDS: Final = 0.7
"""After which a broker that could not start is started again."""

METADATA: Final = "metadata"
"""The host of the metadata tree."""

METADATA_BYTES: Final = 200
"""About the size of a request to the tree, and of an answer."""


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
        new_clock: Callable[[], Clock],
        defaults: Mapping[str, str],
        in_cluster: bool = False,
        domain: str = "",
    ) -> None:
        """The broker is not started.

        Args:
            folder: has its directory.
            settings: of Kafka, which override `defaults`; a name that looks misspelt is refused.
            new_clock: makes the clock of one life.
            in_cluster: whether it shares `tree` with others.
            domain: the end of its host's name.
        """
        self.world = world
        self.network = network
        self.tree = tree
        self.node_id = node_id
        self.host = f"broker-{node_id}{domain}"
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
        self.serves: Callable[[BrokerCore], object] = lambda core: None
        """Called when a process begins to serve clients, on its loop."""
        self.ended: Callable[[], object] = lambda: None
        """Called when a process has ended, on no loop of its own."""
        self.lives = 0
        self.cuts = 0
        self.start_error: StartError | None = None
        """Why the last start has failed; None if it did not."""
        self._settings = {**settings}
        self._defaults = {**defaults}
        self._new_clock = new_clock
        self._in_cluster = in_cluster
        self._store: MemoryStore | None = None
        self._tree_is_cut = False
        self._pauses = 0
        self._room: int | None = None
        self._disk_faults: tuple[DiskFault, ...] = ()
        self._disk = self._new_disk()
        self.lost_power = False
        """Whether the power has failed in the present callback."""

    def _new_disk(self) -> FaultyDisk:
        disk = FaultyDisk(self.root, self.world, self.host, self._power_failed, self._sleep)
        disk.room = self._room
        disk.faults = self._disk_faults
        return disk

    def _sleep(self, seconds: float) -> None:
        """Let the present callback take longer, or the thread whose work it does."""
        if self.loop is not None:
            self.loop.slept += seconds

    # --- lives ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a process, and later another one if that cannot start.

        Raises:
            ConfigError: a setting is wrong, or its name looks misspelt.
        """
        if self.core is not None or not self.should_run:
            return
        self.lives += 1
        self.world.note(self.host, "starts", self.lives)
        loop = self.loop = self.world.loop(self.host)
        loop.connector = self.network.connector(lambda: self.host)
        machine = SimulatedMachine(
            loop,
            self.host,
            self._new_clock(),
            self._disk,
            self.network,
            self._open_session,
            sync_seconds=lambda: self.sync_seconds,
        )
        listener = f"PLAINTEXT://{self.host}:{PORT}"
        config = BrokerConfig.from_properties(
            {
                **self._defaults,
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
        self.ended()

    def pause(self) -> None:
        """Hold the process, as SIGSTOP does, until `resume`; its session expires if that lasts."""
        loop = self.loop
        if loop is not None and not loop.is_paused:
            loop.is_paused = True
            self._pauses += 1
            self.world.note(self.host, "pauses")
            self.world.later(self.session_seconds, self._expire_if_paused, loop, self._pauses)

    def resume(self) -> None:
        """Let a paused process continue."""
        if self.loop is not None and self.loop.is_paused:
            self.loop.is_paused = False
            self.world.note(self.host, "continues")

    def _expire_if_paused(self, loop: VirtualLoop, pause: int) -> None:
        if loop is self.loop and loop.is_paused and pause == self._pauses:
            self.expire_session_after(0)

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

    def break_disk(self, faults: tuple[DiskFault, ...]) -> None:
        """Let calls of the disk meet these faults, whichever process makes them."""
        self._disk.faults = self._disk_faults = faults

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
            self.start_error = error
            if self.world.is_strict and isinstance(error.__context__, OutcomeUnknownError):
                self.world.failed(f"{self.host} cannot start without its tree: {error}")
            # The folder's name differs from run to run.
            self.world.note(self.host, "cannot start", str(error).replace(str(self.root.parent), ""))
            self.world.later(0, self._stopped, loop, lambda: self.start_later(RETRY_SECONDS))
            return
        self.world.note(self.host, "serves")
        self.is_serving, self.start_error = True, None
        self.serves(core)
        await core.failed.wait()
        if self.world.is_strict:
            self.world.failed(f"{self.host} has no log directory left")
        self.should_run = False
        self.world.later(0, self._stopped, loop, lambda: None)

    def start_later(self, seconds: float) -> None:
        """Start a process after a while."""
        self.world.later(seconds, self.start)

    def _stopped(self, loop: VirtualLoop, then: Callable[[], object]) -> None:
        if loop is self.loop:
            self.kill()
            then()

    # --- power ----------------------------------------------------------------------------------------------

    def _power_failed(self) -> None:
        """Called by the disk, inside of a callback of the broker, which still continues to its end."""
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
        store = self._store = MemoryStore(
            self.tree, SimulatedLine(self.world, self.network, self.host, self.loop)
        )
        if self._tree_is_cut:
            store.is_connected = False
            self._let_expire(store)
        return store

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
                loop.call_later(self.world.chance.random(), self._connect_again, store)

        self.world.later(seconds, expire)

    def lose_tree(self, seconds: float) -> None:
        """Lose the connection to the metadata tree for a while; the session expires if that lasts."""
        if (store := self._disconnected()) is None:
            return
        assert self.loop is not None
        if seconds > self.session_seconds:
            self.world.later(self.session_seconds, self.tree.end, store.session_id)
        self.loop.call_later(seconds, self._connect_again, store)

    def cut_tree(self) -> None:
        """Have no connection to the metadata tree until `join_tree`.

        The session expires if that lasts.
        """
        self._tree_is_cut = True
        self._disconnected()
        if self._store is not None:
            self._let_expire(self._store)

    def join_tree(self) -> None:
        """Connect to the metadata tree again."""
        self._tree_is_cut = False
        if self._store is not None and self.loop is not None:
            self.loop.call_soon(self._store.connect_again)

    def _connect_again(self, store: MemoryStore) -> None:
        if not self._tree_is_cut:
            store.connect_again()

    def _disconnected(self) -> MemoryStore | None:
        """Lose the connection to the tree; return whose it was, None if there was none."""
        store, loop = self._store, self.loop
        if store is None or loop is None or not store.is_connected:
            return None
        self.world.note(self.host, "loses the tree")
        store.is_connected = False
        loop.call_soon(store.lose_connection)
        return store

    def _let_expire(self, store: MemoryStore) -> None:
        session = store.session_id

        def expire() -> None:
            if not store.is_connected:
                self.tree.end(session)

        self.world.later(self.session_seconds, expire)


class SimulatedLine:
    """Carries calls between a broker's store and the tree, in order, with delays."""

    def __init__(self, world: World, network: Network, host: str, loop: VirtualLoop) -> None:
        self._world = world
        self._network = network
        self._host = host
        self._loop = loop
        self._free_at = {"tree": 0.0, "store": 0.0}

    def to_tree(self, call: Callable[[], None]) -> None:
        self._world.outside.call_at(self._when("tree", self._host, METADATA), call)

    def to_store(self, call: Callable[[], None]) -> None:
        def arrive() -> None:
            if not self._loop.is_dead:
                self._loop.call_soon(call)

        self._world.outside.call_at(self._when("store", METADATA, self._host), arrive)

    def _when(self, way: str, sender: str, to: str) -> float:
        at = self._world.now + 0.0002 + 0.01 * self._world.chance.random() ** 3
        at = max(at, self._network.earliest(sender, to, METADATA_BYTES))
        # A later call must not overtake: two timers of one time need not run in order.
        self._free_at[way] = max(at, self._free_at[way] + 1e-6)
        return self._free_at[way]
