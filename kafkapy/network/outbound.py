"""What a connection has yet to send: bytes and file slices, in order.

Bytes go out gathered, file slices from the page cache, so that record bytes never enter Python (channel.py).
A slice keeps its file open, whatever retention does meanwhile, until it is sent or the connection dies.

Nothing here waits: `flush` sends what the socket takes and says whether something is left. That may also be
for the disk: a slice which the page cache does not have would make sendfile wait, and with it every client.
It is `cold` until somebody has loaded it (network/cold_reads.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from kafkapy.network.channel import Channel
from kafkapy.protocol.types import Part
from kafkapy.storage.disk.files import FileSlice

FLUSH_BYTES: Final = 1 << 20
"""What one `flush` sends at most, so that one fast reader does not keep the event loop."""

_GATHER: Final = 64
"""Byte parts in one sendmsg (the kernel's limit is 1024)."""


class ColdSlice(NamedTuple):
    """Bytes of a slice that are not in the page cache."""

    slice: FileSlice
    offset: int
    nbytes: int


class OutboundQueue:
    """The unsent parts of one connection's responses."""

    __slots__ = ("_cached", "_channel", "_offset", "_parts", "cold", "nbytes")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._parts: deque[Part] = deque()
        self._offset = 0
        """How much of the first part is sent, where that is a file slice."""
        self._cached = 0
        """Up to where the first part is known to be in the page cache, where that is a file slice."""
        self.cold: ColdSlice | None = None
        """What is to be loaded before anything is sent; then call `loaded`."""
        self.nbytes = 0
        """Unsent bytes, slices included."""

    def send(self, parts: list[Part]) -> bool:
        """Queue `parts` and send what the socket takes; True if nothing is left.

        Raises:
            OSError: the connection is broken.
        """
        if not self._parts and len(parts) == 1 and isinstance(parts[0], bytes):
            data = parts[0]
            try:
                sent = self._channel.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            if sent == len(data):
                return True
            self._parts.append(memoryview(data)[sent:])
            self.nbytes = len(data) - sent
            return False
        for part in parts:
            nbytes = len(part) if isinstance(part, bytes) else part.nbytes
            if nbytes:
                self._parts.append(part)
                self.nbytes += nbytes
            else:
                discard((part,))
        return self.flush()

    def flush(self) -> bool:
        """Send what the socket takes, up to FLUSH_BYTES; True if nothing is left.

        Raises:
            OSError: the connection is broken.
        """
        stop = self.nbytes - FLUSH_BYTES
        try:
            while self._parts and self.nbytes > stop and self.cold is None:
                if isinstance(self._parts[0], FileSlice):
                    self._send_slice(self._parts[0])
                else:
                    self._send_bytes()
        except (BlockingIOError, InterruptedError):
            return False
        return not self._parts

    @property
    def files(self) -> int:
        """How many files are kept open, at most."""
        return sum(isinstance(part, FileSlice) for part in self._parts)

    def close(self) -> None:
        """Forget what is not sent."""
        discard(self._parts)
        self._parts.clear()
        self.cold = None
        self.nbytes = 0

    def loaded(self) -> None:
        """What was cold is in the page cache now, or cannot be read: then sendfile says so."""
        if self.cold is not None:
            self._cached = self.cold.offset + self.cold.nbytes
            self.cold = None

    def _send_slice(self, part: FileSlice) -> None:
        offset = self._offset
        if offset >= self._cached:
            nbytes = min(part.nbytes - offset, FLUSH_BYTES)
            if not part.is_cached(offset, nbytes):
                self.cold = ColdSlice(part, offset, nbytes)
                return
            self._cached = offset + nbytes
        sent = self._channel.send_slice(part, offset, self._cached - offset)
        if sent == 0:
            raise OSError(f"{part.nbytes - offset} bytes of a log file are gone")
        self.nbytes -= sent
        if offset + sent == part.nbytes:
            self._parts.popleft()
            self._offset = self._cached = 0
            part.release()
        else:
            self._offset = offset + sent

    def _send_bytes(self) -> None:
        parts = self._parts
        gathered: list[bytes | memoryview] = []
        more = False
        for part in parts:
            if not isinstance(part, bytes | memoryview):
                more = True
                break
            gathered.append(part)
            if len(gathered) == _GATHER:
                break
        # A response's header and the first records after it go into one packet.
        sent = self._channel.send_gathered(gathered, more=more)
        self.nbytes -= sent
        for part in gathered:
            nbytes = len(part) if isinstance(part, bytes) else part.nbytes
            if sent < nbytes:
                if sent:
                    parts[0] = memoryview(part)[sent:]
                break
            parts.popleft()
            sent -= nbytes


def discard(parts: Iterable[Part]) -> None:
    """Let go of the files of parts that are not sent."""
    for part in parts:
        if isinstance(part, FileSlice):
            part.release()
