"""A server without a broker: its handlers are the test's own functions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from kafkapy import handlers
from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.listeners import format_address
from kafkapy.handlers import Api, Endpoint
from kafkapy.handlers.dispatch import Dispatcher
from kafkapy.loop.cold_reads import ColdReads
from kafkapy.loop.event_loop import new_event_loop
from kafkapy.loop.turns import Turns
from kafkapy.loop.validation import Validation
from kafkapy.network.connection import Connection
from kafkapy.network.entrance import OpenEntrance
from kafkapy.network.handshakes import Handshakes
from kafkapy.network.server import Server
from kafkapy.protocol.messages import request_class, response_class
from kafkapy.protocol.types import ApiKey

T = TypeVar("T")


class Harness:
    """A running server and the loop it runs on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, server: Server, config: BrokerConfig) -> None:
        self.loop = loop
        self.server = server
        self.config = config

    @property
    def address(self) -> str:
        listener = self.server.listening[0]
        return format_address(listener.host, listener.port)

    @property
    def connections(self) -> Collection[Connection]:
        return self.server.connections

    def on_loop(self, call: Callable[[], T]) -> T:
        """The result of `call()` on the server's loop."""

        async def run() -> T:
            return call()

        return self.run(run())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)


@contextmanager
def serving(
    settings: Mapping[str, str] | None = None,
    make_loop: Callable[[], asyncio.AbstractEventLoop] = new_event_loop,
    make_dispatcher: Callable[[Any], Dispatcher] = Dispatcher,
) -> Iterator[Harness]:
    """A server on a loop and a thread of its own."""
    loop = make_loop()
    failures: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    pool = ThreadPoolExecutor(2)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0", **(settings or {})})

    async def start() -> Server:
        cold_reads = ColdReads(loop, ThreadPoolExecutor(1), ThreadPoolExecutor(1))
        parts = {"turns": Turns(loop), "validation": Validation(pool, 2)}
        broker = cast(
            "Any",
            SimpleNamespace(
                config=config,
                cluster_id="test-cluster",
                node_id=1,
                clustered=False,
                authorizer=None,
                telemetry=None,
                has_coordinators=True,
                **parts,
            ),
        )
        handshakes = Handshakes(loop, pool)
        server = Server(config, loop, broker.validation, cold_reads, handshakes)
        server.bind((listener, OpenEntrance()) for listener in config.listeners)
        server.accept(make_dispatcher(broker))
        return server

    async def stop() -> None:
        server.close()
        server.shared.cold_reads.close()
        await asyncio.sleep(0)

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield Harness(loop, server, config)
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        pool.shutdown()
    assert not failures, failures


def serve_api(
    monkeypatch: pytest.MonkeyPatch, key: ApiKey, handle: Callable[..., Any], *, abandon: bool = False
) -> None:
    """Have requests of `key`, in any version, handled by `handle`."""
    api = Api(key, 0, 99, "of_the_test", abandon)
    served = Endpoint(api, request_class(key), response_class(key), handle)
    found = handlers.endpoint

    def endpoint(api_key: int) -> Endpoint:
        return served if api_key == key else found(api_key)

    monkeypatch.setitem(handlers.BY_KEY, int(key), api)
    monkeypatch.setattr(handlers, "endpoint", endpoint)
