"""The machine that a broker runs on: its clock, disk, threads, sockets and metadata store.

A broker gets them from here and nowhere else, so virtual time replaces them together (kafkapy/virtual).
Other time (deadlines, timers) comes from the event loop, which is replaced, too.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from kafkapy.configs.config import BrokerConfig
from kafkapy.inter_broker.peers import Peers, TcpPeers
from kafkapy.loop.clock import Clock
from kafkapy.loop.cold_reads import ColdReads
from kafkapy.loop.validation import Validation
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.store import MetadataStore
from kafkapy.network.handshakes import Handshakes
from kafkapy.network.server import Server
from kafkapy.replicas.flush_threads import FlushThreads
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.disk.log_directory import LogDirectory

if TYPE_CHECKING:
    from kafkapy.security.links import LinkSecurity


class Machine:
    """This machine.

    Args:
        clock: its time; by default the system's.
        keeps_data: whether the data are still there when the process has ended.
    """

    def __init__(self, clock: Clock | None = None, *, keeps_data: bool = True) -> None:
        self.clock = clock or Clock()
        self._keeps_data = keeps_data
        self.files = FileSystem()
        """The file system of the log directories."""
        self.flush_threads = FlushThreads
        """Makes the threads of one log directory's flushes."""

    def pool(self, threads: int, name: str) -> Executor:
        """A pool that starts up to `threads` threads when it has work for them."""
        return ThreadPoolExecutor(threads, name)

    def running_pool(self, threads: int, name: str) -> Executor:
        """A pool whose threads are all started: it needs no new thread later.

        Raises:
            RuntimeError: the threads cannot be started.
        """
        pool = ThreadPoolExecutor(threads, name)
        together = threading.Barrier(threads + 1)
        try:
            for _ in range(threads):
                pool.submit(together.wait)
            together.wait()
        except BaseException:
            together.abort()
            pool.shutdown()
            raise
        return pool

    def server(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        validation: Validation,
        cold_reads: ColdReads,
        handshakes: Handshakes,
    ) -> Server:
        """The server of the broker's clients."""
        return Server(config, loop, validation, cold_reads, handshakes)

    def peers(self, node_id: int, security: LinkSecurity | None) -> Peers:
        """The connections of broker `node_id` to other brokers; `security` None: they are open."""
        return TcpPeers(node_id, security)

    async def open_store(self, path: Path, *, sync: bool, directory: LogDirectory | None) -> MetadataStore:
        """Open the embedded metadata store.

        Args:
            path: its file.
            sync: whether a commit is on disk when it returns.
            directory: the log directory of the file, if it is in one.

        Raises:
            MetadataStoreError: it cannot be used.
        """
        needs_syncs = sync or self._keeps_data
        return await EmbeddedStore.open(path, sync=sync if needs_syncs else None, directory=directory)
