"""A broker inside the process that uses it, for tests, notebooks and examples.

    with kafkapy.Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

It runs on an event loop of its own, in a thread of its own, so that neither a blocking client nor a busy test
loop stops it. Its data is in a temporary directory that is deleted when it stops, unless `data_dir` names a
directory. `config` overrides the settings in `TEST_DEFAULTS`.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

if TYPE_CHECKING:
    from kafkapy.broker.core import BrokerCore
    from kafkapy.configs.config import BrokerConfig

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

T = TypeVar("T")


class Broker:
    """A broker in a thread of this process; a context manager.

    Args:
        config: Kafka's settings; values may be str, int, float or bool.
        data_dir: the directory to keep the data in, for later starts.
    """

    def __init__(
        self, *, config: Mapping[str, object] | None = None, data_dir: str | Path | None = None
    ) -> None:
        self._config = {name: _text(value) for name, value in (config or {}).items()}
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._temporary: str | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._core: BrokerCore | None = None
        self._stopping: asyncio.Event | None = None
        self._is_killed = False

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the first listener, for clients."""
        from kafkapy.configs.listeners import format_address

        listener = self.core.server.listening[0]
        return format_address(listener.host or "127.0.0.1", listener.port)

    @property
    def core(self) -> BrokerCore:
        """The broker itself, which only code on its own loop may use (`call`).

        Raises:
            RuntimeError: the broker is not running.
        """
        if self._core is None:
            raise RuntimeError("the broker is not running; use it in a with statement or call start()")
        return self._core

    def start(self) -> None:
        """Start the broker, and return when it serves clients.

        Raises:
            ConfigError: a setting is wrong, or its name looks misspelt.
            StartError: a port or a directory cannot be used.
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
            raise

    def stop(self) -> None:
        """Stop the broker as SIGTERM does; do nothing if it is not running."""
        if self._thread is None:
            return
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._join()

    def kill(self) -> None:
        """End the broker nearly as SIGKILL does: nothing is answered, synced or marked as clean."""
        self._is_killed = True
        self.stop()
        self._is_killed = False

    def call(self, function: Callable[[BrokerCore], Coroutine[Any, Any, T]]) -> T:
        """Run `function(core)` on the broker's loop and return its result."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(function(self.core), self._loop).result()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _join(self) -> None:
        assert self._thread is not None
        self._thread.join()
        self._thread = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def _run(self, started: Future[None]) -> None:
        from kafkapy.loop.event_loop import new_event_loop

        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self._serve(started))

    async def _serve(self, started: Future[None]) -> None:
        from kafkapy.configs.config import BrokerConfig

        try:
            defaults = {**TEST_DEFAULTS, "log.dirs": str(self._directory())}
            config = BrokerConfig.from_properties(defaults, self._config)
            core = self._new_core(config)
            await core.start()
        except BaseException as error:
            started.set_exception(error)
            return
        self._core, self._loop, self._stopping = core, asyncio.get_running_loop(), asyncio.Event()
        started.set_result(None)
        try:
            await self._stopping.wait()
        finally:
            self._core = self._loop = self._stopping = None
            temporary = self._temporary is not None and Path(self._temporary) in config.log_dirs
            await (core.kill() if self._is_killed else core.stop(keep_data=not temporary))

    def _new_core(self, config: BrokerConfig) -> BrokerCore:
        from kafkapy.broker.core import BrokerCore

        return BrokerCore(config)

    def _directory(self) -> Path:
        if self._data_dir is not None:
            return self._data_dir
        self._temporary = tempfile.mkdtemp(prefix="kafkapy-")
        return Path(self._temporary)


class AsyncBroker:
    """A `Broker` for asyncio: `async with kafkapy.AsyncBroker() as broker`.

    It too has a thread and a loop of its own, so that a test that blocks its loop does not block the broker.
    """

    def __init__(
        self, *, config: Mapping[str, object] | None = None, data_dir: str | Path | None = None
    ) -> None:
        self._broker = Broker(config=config, data_dir=data_dir)

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the first listener, for clients."""
        return self._broker.bootstrap_servers

    async def start(self) -> None:
        """Start the broker, and return when it serves clients; raises what `Broker.start` does."""
        await asyncio.to_thread(self._broker.start)

    async def stop(self) -> None:
        """Stop the broker as SIGTERM does; do nothing if it is not running."""
        await asyncio.to_thread(self._broker.stop)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _import_broker() -> None:
    """Import the broker at its first use, in some 370 modules."""
    from kafkapy.loop.collector import without_collections

    with without_collections():
        import kafkapy.broker.core  # noqa: F401


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
