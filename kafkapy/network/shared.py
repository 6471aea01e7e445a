"""The common parts of all connections: a receive buffer, a memory limit, time, threads.

queued.max.request.bytes limits the received bytes that are not handled yet. Above the limit, connections
whose buffers would have to grow stop reading until the requests of others are handled or closed (server.py).
Small requests are still handled in the shared buffer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from kafkapy.loop.cold_reads import ColdReads
from kafkapy.loop.validation import Validation
from kafkapy.network.answer_budget import AnswerBudget
from kafkapy.network.dispatcher import Dispatcher
from kafkapy.network.freeing import Freeing
from kafkapy.network.handshakes import Handshakes
from kafkapy.network.rounds import Rounds
from kafkapy.network.unknown_protocols import Complaints

if TYPE_CHECKING:
    from kafkapy.network.request_metrics import RequestMetrics
    from kafkapy.quotas.managers import QuotaManagers

SHARED_BUFFER: Final = 256 << 10
_RETAINED_FRACTION: Final = 4
"""The part of queued.max.request.bytes that empty buffers may take."""


class Receiver(Protocol):
    """A connection that may wait for memory."""

    def resume_reading(self) -> None:
        """Continue reading: there is memory again."""


class Shared:
    """The state that all connections of a server share.

    It belongs to the event loop.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        validation: Validation,
        cold_reads: ColdReads,
        handshakes: Handshakes,
    ) -> None:
        self.loop = loop
        self.validation = validation
        """The threads for long messages."""
        self.cold_reads = cold_reads
        """The threads that load bytes into the page cache."""
        self.handshakes = handshakes
        """The threads for the handshakes of TLS."""
        self.dispatcher: Dispatcher
        """Finds and calls handlers. It is set before the first client is accepted."""
        self.rounds = Rounds(loop)
        """The time for connections that send many requests at once."""
        self.freeing = Freeing(loop)
        """Frees long requests that were handled."""
        self.now = loop.time()
        """The time of the last sweep: a coarse clock that costs nothing to read."""
        self.answers = AnswerBudget()
        """The memory of answers that are being made or are not read yet."""
        self.metrics: RequestMetrics | None = None
        """Counts the requests; None while metrics are off."""
        self.complaints = Complaints()
        """The clients that the log has named because they do not speak Kafka's protocol."""
        self.quotas: QuotaManagers | None = None
        """The quotas of clients; None while there are none."""
        self.max_frame_bytes = 0
        """The frame limit with which connections begin: socket.request.max.bytes."""
        self.max_buffered = 0
        """queued.max.request.bytes"""
        self.buffered_bytes = 0
        """The bytes of the connections' own buffers, and of the requests that handlers keep."""
        self._waiting: dict[Receiver, None] = {}
        self.replace_receive_buffer()

    @property
    def has_memory(self) -> bool:
        """Whether connections' own buffers may grow."""
        return self.buffered_bytes < self.max_buffered

    @property
    def may_retain(self) -> bool:
        """Whether a connection may keep an empty buffer for its next request."""
        return self.buffered_bytes < self.max_buffered // _RETAINED_FRACTION

    def wait_for_memory(self, connection: Receiver) -> None:
        """Resume `connection` when there is memory again."""
        self._waiting[connection] = None

    def forget(self, connection: Receiver) -> None:
        """Remove a closed connection from the waiting ones."""
        self._waiting.pop(connection, None)

    def release_memory(self, nbytes: int) -> None:
        """Subtract the bytes of a freed buffer, or of a request that a handler no longer keeps."""
        self.buffered_bytes -= nbytes
        if self._waiting and self.has_memory:
            self.loop.call_soon(self._resume_waiting)

    def _resume_waiting(self) -> None:
        for connection in tuple(self._waiting):
            if not self.has_memory:
                return
            del self._waiting[connection]
            connection.resume_reading()

    def replace_receive_buffer(self) -> None:
        """Use a new receive buffer from now on, because a handler keeps the current one."""
        self.receive_view = memoryview(bytearray(SHARED_BUFFER))
