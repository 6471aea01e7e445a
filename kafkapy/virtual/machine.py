"""The machine of a simulated broker, whose threads are callbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

from kafkapy.broker.machine import Machine
from kafkapy.configs.config import BrokerConfig
from kafkapy.loop.clock import Clock
from kafkapy.loop.cold_reads import ColdReads
from kafkapy.loop.validation import Validation
from kafkapy.metadata.store import MetadataStore
from kafkapy.network.handshakes import Handshakes
from kafkapy.network.server import Server
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.virtual.disk import SimulatedDisk
from kafkapy.virtual.loop import VirtualLoop
from kafkapy.virtual.metadata_tree import MemoryStore
from kafkapy.virtual.network import Network, SimulatedServer
from kafkapy.virtual.threads import SimulatedFlushThreads, SimulatedPool


class SimulatedMachine(Machine):
    """What one process of a broker gets from outside."""

    def __init__(
        self,
        loop: VirtualLoop,
        host: str,
        clock: Clock,
        disk: SimulatedDisk,
        network: Network,
        open_session: Callable[[], MemoryStore],
        *,
        sync_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`sync_seconds` says how much longer a sync of the disk may take now."""
        super().__init__(clock)
        self.files = disk
        self.flush_threads = partial(SimulatedFlushThreads, loop, sync_seconds)  # type: ignore[assignment]
        self._loop = loop
        self._host = host
        self._network = network
        self._open_session = open_session

    def pool(self, threads: int, name: str) -> Executor:
        return SimulatedPool(self._loop)

    running_pool = pool

    def server(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        validation: Validation,
        cold_reads: ColdReads,
        handshakes: Handshakes,
    ) -> Server:
        return SimulatedServer(self._network, self._host, config, loop, validation, cold_reads, handshakes)

    async def open_store(self, path: Path, *, sync: bool, directory: LogDirectory | None) -> MetadataStore:
        return self._open_session()
