"""A broker inside the process that uses it, for tests, notebooks and examples.

    with kafkapy.Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

It runs on an event loop of its own, in a thread of its own, so that neither a blocking client nor a busy test
loop stops it. Its data is in a temporary directory, unless `data_dir` names a directory. `config` overrides
the settings in `TEST_DEFAULTS`.

A broker that is stopped or killed can be started again: it has its data and its ports, so that clients see an
outage. At the end of the `with` block, or when nothing refers to the broker, the temporary directory is
deleted.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, get_args

from kafkapy.observe.broker import AskedBroker, AwaitedBroker, Data, Headers, create_topics, producing

if TYPE_CHECKING:
    from kafkapy.broker.core import BrokerCore
    from kafkapy.configs.config import BrokerConfig
    from kafkapy.configs.listeners import Listener
    from kafkapy.faults.fault import AsyncFault, Fault
    from kafkapy.faults.faults import Faults
    from kafkapy.faults.switched_on import SwitchedOn
    from kafkapy.loop.manual_clock import ManualClock
    from kafkapy.observe.clock import AsyncTestClock, TestClock
    from kafkapy.observe.record import Record
    from kafkapy.snapshot import Snapshot

REAL_CLOCK: Final = 'the broker has the machine\'s clock; make it with clock="manual" to advance it'
_NOT_RUNNING: Final = "the broker is not running; use it in a with statement or call start()"

TEST_DEFAULTS: Final[Mapping[str, str]] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    # A test's data need not survive a power cut.
    "durability": "os",
    # A test's consumers should get their partitions at once.
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}

_PLACES: Final = ("listeners", "advertised.listeners", "log.dir", "log.dirs", "metrics.port")
"""The settings that two brokers of a machine cannot share."""

T = TypeVar("T")
ClockName = Literal["real", "manual"]


class Broker(AskedBroker):
    """A broker in a thread of this process; a context manager.

    Args:
        config: Kafka's settings; values may be str, int, float or bool.
        data_dir: the directory to keep the data in, for later starts.
        snapshot: what to start with, if not with nothing: a snapshot, the path of one, or of an archive of
            one. The directory of the data must be new or empty.
        clock: "manual" for a `clock` that can be advanced.

    Raises:
        SnapshotError: the path is that of no snapshot.
    """

    def __init__(
        self,
        *,
        config: Mapping[str, object] | None = None,
        data_dir: str | Path | None = None,
        snapshot: Snapshot | str | Path | None = None,
        clock: ClockName = "real",
    ) -> None:
        self._clock = new_clock(clock)
        self._config = {name: setting_text(value) for name, value in (config or {}).items()}
        self._origin = _found(snapshot)
        """What it starts with, before it has data."""
        self._owned: Snapshot | None = None
        """A snapshot that nobody else knows, which ends with the broker."""
        self._folder = None if data_dir is None else Path(data_dir)
        self._temporary: weakref.finalize[..., Any] | None = None
        """Deletes the temporary directory `_folder`, at the latest when the process ends."""
        self._is_filled = False
        """Whether `_folder` has the data of the broker."""
        self._has_history = False
        """Whether it had data before the first start."""
        self._listening: Sequence[Listener] = ()
        """Where it listens, or did before it was stopped: it comes back there."""
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._core: BrokerCore | None = None
        self._stopping: asyncio.Event | None = None
        self._is_killed = False
        self._resumed: threading.Event | None = None
        """Set to let a paused broker continue; None while it is not paused."""
        self._keep_data = True
        self._switched_on: SwitchedOn | None = None
        """Its faults; None as long as nobody has asked for them."""
        self._calls: set[asyncio.Task[Any]] = set()
        """What runs on its loop for calls from outside."""

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the first listener, for clients; a stopped broker comes back there.

        Raises:
            RuntimeError: the broker has not been started.
        """
        from kafkapy.configs.listeners import format_address

        if not self._listening:
            raise RuntimeError(_NOT_RUNNING)
        listener = self._listening[0]
        return format_address(listener.host or "127.0.0.1", listener.port)

    @property
    def is_running(self) -> bool:
        """Whether it serves clients, or is paused."""
        return self._core is not None

    @property
    def is_paused(self) -> bool:
        """Whether it is held until `resume`."""
        return self._resumed is not None

    @property
    def core(self) -> BrokerCore:
        """The broker itself, which only code on its own loop may use (`call`).

        Raises:
            RuntimeError: the broker is not running.
        """
        if self._core is None:
            raise RuntimeError(_NOT_RUNNING)
        return self._core

    def start(self) -> None:
        """Start the broker, or start it again, and return when it serves clients.

        Raises:
            kafkapy.ConfigError: a setting is wrong, or its name looks misspelt.
            kafkapy.StartError: a port or a directory cannot be used.
        """
        if self._thread is not None:
            raise RuntimeError("the broker is running already")
        _import_broker()
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="kafkapy-broker", daemon=True)
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self._join()
            if not self._listening:
                self._forget()
            raise

    def stop(self) -> None:
        """Stop the broker as SIGTERM does, until `start`; do nothing if it is not running."""
        if self._thread is None:
            return
        self.resume()
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._join()

    def kill(self) -> None:
        """End the broker nearly as SIGKILL does, until `start`.

        Nothing is answered, synced or marked as clean.
        """
        self._is_killed = True
        self.stop()
        self._is_killed = False

    def snapshot(self, path: str | Path | None = None) -> Snapshot:
        """Keep the data of this moment: records, offsets, topics, settings, transactions, groups.

        Files of closed segments are shared on disk, so it takes about as long for a gigabyte as for a byte.
        Clients continue meanwhile.

        Args:
            path: a directory to make, which stays; else it goes when the snapshot is closed or forgotten.

        Raises:
            SnapshotError: `path` exists; a disk failed or is full; or the broker is one of a cluster.
        """
        from kafkapy.broker.snapshots import take_snapshot
        from kafkapy.snapshot import Snapshot, new_path

        taken = new_path(self.core.config.log_dirs[0]) if path is None else Path(path)
        self.call(partial(take_snapshot, target=str(taken.absolute())))
        return Snapshot(taken, is_kept=path is not None)

    def reset(self, snapshot: Snapshot | None = None) -> None:
        """Go back to a snapshot; without one, to what the broker started with.

        It ends as by `kill`, and starts with other data at the same ports: clients that are connected lose
        their connections, and what they know of offsets and members may be gone. Faults are switched off.

        Raises:
            SnapshotError: the snapshot was closed. Or none is given, and the broker was started on the data
                of an earlier one, which were not kept.
            kafkapy.StartError: as `start`.
        """
        from kafkapy.snapshot import SnapshotError

        origin = self._origin if snapshot is None else snapshot
        if snapshot is None and self._has_history:
            raise SnapshotError(
                f"{self._folder} had data when the broker was started, and nobody has kept them: take a"
                " snapshot first, and name it"
            )
        if origin is not None:
            origin.check()
        was_running = self._thread is not None
        self.kill()
        if self._switched_on is not None:
            self._switched_on.remove(self._switched_on.faults)
        self._fill(origin)
        if was_running:
            self.start()

    def fork(self, snapshot: Snapshot | None = None) -> Broker:
        """A second broker with the same settings and time, and the data of a snapshot or of now.

        It has other ports, and is not started yet: `with broker.fork() as fork`.

        Raises:
            SnapshotError: as `snapshot`.
        """
        taken = self.snapshot() if snapshot is None else snapshot
        config = {name: value for name, value in self._config.items() if name not in _PLACES}
        fork = Broker(config=config, snapshot=taken, clock="real" if self._clock is None else "manual")
        if self._clock is not None and fork._clock is not None:
            fork._clock.turn(self._clock.ahead)
        fork._owned = taken if snapshot is None else None
        return fork

    def pause(self) -> None:
        """Hold the broker as SIGSTOP does, until `resume`.

        Its connections stay, and nothing is answered. Its requests to other brokers wait too. A stop or a
        kill resumes it first.

        Raises:
            RuntimeError: it is not running.
        """
        if self._resumed is None:
            resumed, holding = threading.Event(), threading.Event()

            def hold() -> None:
                holding.set()
                resumed.wait()

            loop = self.core.server.loop
            loop.call_soon_threadsafe(hold)
            holding.wait()
            self._resumed = resumed

    def resume(self) -> None:
        """Let a paused broker continue; do nothing if it is not paused."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            resumed.set()
            if self._switched_on is not None:
                self.lead_to_faults()

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Create topics of so many partitions each, with the broker's settings.

        Raises:
            ValueError: the broker refuses some, and says why. The others are there.
        """
        self.call(partial(create_topics, topics=topics))

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
        """Write a record without a client; return it with its offset, acknowledged as for acks=all.

        Args:
            key: text is written as UTF-8.
            partition: by default that which Java's producers choose for the key; 0 without a key.
            timestamp: in milliseconds since 1970; now by default.

        Raises:
            ValueError: the broker refuses it, and says why.
        """
        return self.call(producing(topic, key, value, headers, partition, timestamp))

    @property
    def clock(self) -> TestClock:
        """Its clock, to advance it.

        Raises:
            RuntimeError: it has the machine's clock.
        """
        from kafkapy.observe.clock import TestClock

        return TestClock(self.manual_clock(), self.advance)

    def manual_clock(self) -> ManualClock:
        """The clock that tests advance; raises RuntimeError if it has the machine's."""
        if self._clock is None:
            raise RuntimeError(REAL_CLOCK)
        return self._clock

    def advance(self, seconds: float, *, members_stay: bool) -> None:
        """Advance its clock, and do what is due meanwhile."""
        from kafkapy.observe.clock import advance

        clock = self.manual_clock()
        if self._core is None:
            clock.turn(seconds)
        else:
            self.call(partial(advance, clock=clock, seconds=seconds, members_stay=members_stay))

    @property
    def faults(self) -> Faults[Fault]:
        """What it does wrong on purpose; what is switched on stays so when it is started again."""
        from kafkapy.faults.faults import blocking

        return blocking(self.switched_on())

    def switched_on(self) -> SwitchedOn:
        """The faults that are switched on."""
        from kafkapy.faults.switched_on import SwitchedOn

        if self._switched_on is None:
            self._switched_on = SwitchedOn(self.lead_to_faults)
        return self._switched_on

    def lead_to_faults(self) -> None:
        """Have a running broker meet its faults as they are now.

        A paused one does when it is resumed.
        """
        if self._core is not None and self._resumed is None:
            self.call(self.switched_on().lead)

    def call(self, function: Callable[[BrokerCore], Coroutine[Any, Any, T]]) -> T:
        """Run `function(core)` on the broker's loop and return its result."""
        return self.submit(function).result()

    def _call(self, function: Callable[[BrokerCore], Coroutine[Any, Any, T]]) -> T:
        return self.call(function)

    def submit(self, function: Callable[[BrokerCore], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run `function(core)` on the broker's loop; return its result, which comes later.

        Raises:
            RuntimeError: the broker is not running or paused, or is stopped meanwhile.
        """
        if self._resumed is not None:
            raise RuntimeError("the broker is paused; call resume() first")
        core, loop = self.core, self._loop
        assert loop is not None
        return asyncio.run_coroutine_threadsafe(self._call_on_loop(function, core), loop)

    async def _call_on_loop(
        self, function: Callable[[BrokerCore], Coroutine[Any, Any, T]], core: BrokerCore
    ) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            return await function(core)
        except (Exception, asyncio.CancelledError) as error:
            if self._core is core:
                raise
            raise RuntimeError("the broker was stopped meanwhile") from error
        finally:
            self._calls.discard(task)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keep_data = self._temporary is None
        try:
            self.stop()
        finally:
            self._keep_data = True
            self._forget()

    def _join(self) -> None:
        assert self._thread is not None
        self._thread.join()
        self._thread = None

    def _run(self, started: Future[None]) -> None:
        from kafkapy.loop.event_loop import new_event_loop

        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self._serve(started))

    async def _serve(self, started: Future[None]) -> None:
        from kafkapy.configs.config import BrokerConfig

        try:
            defaults = {**TEST_DEFAULTS, "log.dirs": str(self._directory())}
            settings = dict(self._config)
            if self._listening:
                settings["listeners"] = self._same_listeners(BrokerConfig(defaults | settings).listeners)
            config = BrokerConfig.from_properties(defaults, settings)
            core = self._new_core(config)
            await core.start()
            if self._switched_on is not None:
                await self._switched_on.lead(core)
        except BaseException as error:
            started.set_exception(error)
            return
        self._listening = core.server.listening
        self._core, self._loop, self._stopping = core, asyncio.get_running_loop(), asyncio.Event()
        started.set_result(None)
        try:
            await self._stopping.wait()
        finally:
            self._core = self._loop = self._stopping = None
            keep_data = self._keep_data or self._folder not in config.log_dirs
            await (core.kill() if self._is_killed else core.stop(keep_data=keep_data))
            for call in (calls := tuple(self._calls)):
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)  # what calls a broker gets the errors

    def _new_core(self, config: BrokerConfig) -> BrokerCore:
        from kafkapy.broker.core import BrokerCore
        from kafkapy.broker.machine import Machine

        keeps_data = self._temporary is None or self._folder not in config.log_dirs
        machine = Machine(self._clock, keeps_data=keeps_data)
        return BrokerCore(config, machine)

    def _directory(self) -> Path:
        """The directory of the data; at the first start it is filled."""
        if self._is_filled and self._folder is not None:
            return self._folder
        if self._folder is not None and self._folder.is_dir() and any(self._folder.iterdir()):
            if self._origin is not None:
                from kafkapy.snapshot import SnapshotError

                raise SnapshotError(f"{self._folder} is not empty: a snapshot needs a new directory")
            self._has_history = self._is_filled = True
            return self._folder
        self._fill(self._origin)
        assert self._folder is not None
        return self._folder

    def _fill(self, origin: Snapshot | None) -> None:
        """Give the broker, which is stopped, the data of a snapshot in place of its own, or none."""
        if self._temporary is not None:
            self._temporary()
            self._temporary = self._folder = None
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="kafkapy-"))
            self._temporary = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        else:
            from kafkapy.storage.disk.files import FileSystem
            from kafkapy.storage.snapshots.stopped import clear_directory

            self._folder.mkdir(parents=True, exist_ok=True)
            clear_directory(FileSystem(), str(self._folder))
        if origin is not None:
            origin.copy_to(self._folder)
        self._is_filled = True

    def _forget(self) -> None:
        """Delete the temporary data, and let the next start choose its ports."""
        self._listening = ()
        if self._temporary is not None:
            self._temporary()
            self._temporary = self._folder = None
            self._is_filled = False
        if self._owned is not None:
            self._owned.close()

    def _same_listeners(self, configured: Iterable[Listener]) -> str:
        """The listeners with the ports that they had before, where they took free ones."""
        ports = {listener.name: listener.port for listener in self._listening}
        return ",".join(
            str(replace(listener, port=listener.port or ports[listener.name])) for listener in configured
        )


class AsyncBroker(AwaitedBroker):
    """A `Broker` for asyncio: `async with kafkapy.AsyncBroker() as broker`.

    It too has a thread and a loop of its own, so that a test that blocks its loop does not block the broker.
    """

    def __init__(
        self,
        *,
        config: Mapping[str, object] | None = None,
        data_dir: str | Path | None = None,
        snapshot: Snapshot | str | Path | None = None,
        clock: ClockName = "real",
    ) -> None:
        self._broker = Broker(config=config, data_dir=data_dir, snapshot=snapshot, clock=clock)

    @classmethod
    def of(cls, broker: Broker) -> Self:
        """The same broker, for asyncio."""
        made = cls()
        made._broker = broker
        return made

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the first listener, for clients; a stopped broker comes back there."""
        return self._broker.bootstrap_servers

    async def start(self) -> None:
        """Start the broker, or start it again, and return when it serves clients.

        Raises:
            kafkapy.ConfigError, kafkapy.StartError: as `Broker.start`.
        """
        await asyncio.to_thread(self._broker.start)

    async def stop(self) -> None:
        """Stop the broker as SIGTERM does, until `start`; do nothing if it is not running."""
        await asyncio.to_thread(self._broker.stop)

    async def snapshot(self, path: str | Path | None = None) -> Snapshot:
        """Keep the data of this moment, as `Broker.snapshot`."""
        return await asyncio.to_thread(self._broker.snapshot, path)

    async def reset(self, snapshot: Snapshot | None = None) -> None:
        """Go back to a snapshot, or to what the broker started with, as `Broker.reset`."""
        await asyncio.to_thread(self._broker.reset, snapshot)

    async def fork(self, snapshot: Snapshot | None = None) -> AsyncBroker:
        """A second broker on the data of a snapshot, or of this moment, as `Broker.fork`."""
        return AsyncBroker.of(await asyncio.to_thread(self._broker.fork, snapshot))

    @property
    def clock(self) -> AsyncTestClock:
        """Its clock, as `Broker.clock`."""
        from kafkapy.observe.clock import AsyncTestClock

        return AsyncTestClock(self._broker.clock)

    @property
    def faults(self) -> Faults[AsyncFault]:
        """What it does wrong on purpose, as `Broker.faults`."""
        from kafkapy.faults.faults import awaitable

        return awaitable(self._broker.switched_on())

    async def _call(self, function: Callable[[BrokerCore], Coroutine[Any, Any, T]]) -> T:
        return await asyncio.wrap_future(self._broker.submit(function))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._broker.__exit__, kind, error, trace)


def _found(snapshot: Snapshot | str | Path | None) -> Snapshot | None:
    if not isinstance(snapshot, str | Path):
        return snapshot
    from kafkapy.snapshot import Snapshot

    return Snapshot.at(snapshot)


def new_clock(name: ClockName) -> ManualClock | None:
    """The clock of a broker; None: the machine's.

    Raises:
        ValueError: there is no such clock.
    """
    if name not in get_args(ClockName):
        names = ", ".join(map(repr, get_args(ClockName)))
        raise ValueError(f"clock={name!r}: expected one of {names}, or 'virtual' for a cluster")
    if name == "real":
        return None
    from kafkapy.loop.manual_clock import ManualClock

    return ManualClock()


def _import_broker() -> None:
    """Import the broker at its first use, in some 230 modules."""
    from kafkapy.loop.collector import without_collections

    with without_collections():
        import kafkapy.broker.core  # noqa: F401


def setting_text(value: object) -> str:
    """The value of a setting as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
