"""The broker: what it is made of, and the order in which the parts start and stop.

Everything runs on one event loop. What blocks goes to a worker thread through `blocking`, and only through
it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from kafkapy.clock import Clock
from kafkapy.config import BrokerConfig
from kafkapy.server import ListenError, Server
from kafkapy.timers import Timers
from kafkapy.waiters import Waiters

DRAIN_SECONDS: Final = 5.0
"""How long requests in flight have to be answered when the broker stops."""

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)


class StartError(Exception):
    """The broker cannot start; the message is one line for the operator."""


class BrokerCore:
    """One broker of a cluster. Handlers reach everything through it."""

    def __init__(self, config: BrokerConfig, clock: Clock | None = None) -> None:
        self.config = config
        self.clock = clock or Clock()
        self.node_id = config.node_id
        self.cluster_id = ""

    async def start(self) -> None:
        """Start to serve; when it returns, clients are answered.

        Raises:
            StartError: an address or a directory cannot be used.
        """
        try:
            await self._start()
        except ListenError as error:
            raise StartError(str(error)) from None

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(self.config["background.threads"], "kafkapy")
        self.timers = Timers(loop)
        self.waiters = Waiters(loop, self.timers)
        self.server = Server(self, self.config, loop)
        self.server.bind(self.config.listeners)
        self.config.on_change(self.server.configure)
        self.server.accept()

    async def stop(self) -> None:
        """Stop in order: no new clients, answers in flight, then the parts from the outside in."""
        self.server.stop_accepting()
        self.waiters.expire_all()
        await self.server.drain(DRAIN_SECONDS)
        self.server.close()
        self.timers.close()
        self._executor.shutdown()

    async def blocking(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call` in a worker thread: the one place where blocking work leaves the loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: call(*args, **kwargs))
