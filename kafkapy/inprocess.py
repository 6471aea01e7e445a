"""A broker inside the process that uses it: tests, notebooks, examples.

    with kafkapy.Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

It runs on an event loop of its own in a thread of its own, so that neither blocking clients nor a busy test
loop starve it. Its data is in a temporary directory that is deleted with it, unless `data_dir` names one that
stays. `TEST_DEFAULTS` are its settings where `config` says nothing else.
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
    from kafkapy.broker import BrokerCore

TEST_DEFAULTS: Final[Mapping[str, str]] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    # A test's data need not survive a power cut.
    "durability": "os",
    # A test's consumers should get their partitions at once.
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}

T = TypeVar("T")


class Broker:
    """A broker in a thread of this process; a context manager.

    Args:
        config: Kafka's settings; values may be str, int, float or bool.
        data_dir: keep the data there; the broker finds it again when it is started anew.
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

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the first listener, as clients want it."""
        from kafkapy.configs.listeners import format_address

        listener = self.core.server.listening[0]
        return format_address(listener.host or "127.0.0.1", listener.port)

    @property
    def core(self) -> BrokerCore:
        """The broker itself, only to be touched on its own loop (`call`). Raises RuntimeError."""
        if self._core is None:
            raise RuntimeError("the broker is not running; use it in a with statement or call start()")
        return self._core

    def start(self) -> None:
        """Start to serve.

        Raises:
            ConfigError: a setting is unknown or wrong.
            StartError: a port or a directory cannot be used.
        """
        if self._thread is not None:
            raise RuntimeError("the broker is running already")
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="kafkapy-broker", daemon=True)
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self._join()
            raise

    def stop(self) -> None:
        """Stop as on SIGTERM; harmless if it does not run."""
        if self._thread is None:
            return
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._join()

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
        from kafkapy.process.event_loop import new_event_loop

        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self._serve(started))

    async def _serve(self, started: Future[None]) -> None:
        from kafkapy.broker import BrokerCore
        from kafkapy.configs.config import BrokerConfig

        try:
            defaults = {**TEST_DEFAULTS, "log.dirs": str(self._directory())}
            config = BrokerConfig.from_properties(defaults, self._config)
            core = BrokerCore(config)
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
            await core.stop(keep_data=not temporary)

    def _directory(self) -> Path:
        if self._data_dir is not None:
            return self._data_dir
        self._temporary = tempfile.mkdtemp(prefix="kafkapy-")
        return Path(self._temporary)


class AsyncBroker:
    """The same for asyncio: `async with kafkapy.AsyncBroker() as broker`.

    It too has a thread and a loop of its own: a test that blocks its loop does not stop its broker.
    """

    def __init__(
        self, *, config: Mapping[str, object] | None = None, data_dir: str | Path | None = None
    ) -> None:
        self._broker = Broker(config=config, data_dir=data_dir)

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the first listener, as clients want it."""
        return self._broker.bootstrap_servers

    async def start(self) -> None:
        """Start to serve; raises what `Broker.start` does."""
        await asyncio.to_thread(self._broker.start)

    async def stop(self) -> None:
        """Stop as on SIGTERM; harmless if it does not run."""
        await asyncio.to_thread(self._broker.stop)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
