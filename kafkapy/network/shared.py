"""What all connections of a server share.

That is a buffer to receive into, a bound on memory, the time, and threads.

Received bytes that are not handled are bounded in all (queued.max.request.bytes): above it, connections
whose buffers would have to grow stop reading, in turn, until others' requests are handled or overdue. Small
requests, which are handled in the shared buffer, still are.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from kafkapy.network.cold_reads import ColdReads
from kafkapy.network.dispatcher import Dispatcher
from kafkapy.process.validation import Validation

SHARED_BUFFER: Final = 256 << 10
_RETAINED_FRACTION: Final = 4
"""Kept buffers may take this part of queued.max.request.bytes."""


class Receiver(Protocol):
    """A connection that may wait for memory."""

    def resume_reading(self) -> None:
        """Go on: there is memory."""


class Shared:
    """One for all connections of a server; all of it belongs to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, validation: Validation) -> None:
        self.loop = loop
        self.validation = validation
        """Threads for long messages."""
        self.cold_reads = ColdReads(loop)
        """Threads for what the page cache does not have."""
        self.dispatcher: Dispatcher
        """Has requests handled; set before the first client is accepted."""
        self.now = loop.time()
        """The time of the last sweep: what needs no better clock reads it for free."""
        self.max_frame_bytes = 0
        """socket.request.max.bytes"""
        self.max_buffered = 0
        """queued.max.request.bytes"""
        self.buffered_bytes = 0
        """What the connections' own buffers take, and the requests that handlers keep."""
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
        """Have `connection` resumed when there is memory again."""
        self._waiting[connection] = None

    def forget(self, connection: Receiver) -> None:
        """Let a connection that has closed wait for nothing."""
        self._waiting.pop(connection, None)

    def release_memory(self, nbytes: int) -> None:
        """Take note that a connection's own buffer, or a request that a handler kept, is gone."""
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
        """Receive into a new buffer from now on: a handler keeps the current one."""
        self.receive_view = memoryview(bytearray(SHARED_BUFFER))
