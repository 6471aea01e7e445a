"""The unsent bytes and file slices of a connection, in order.

Bytes are sent gathered, and file slices from the page cache, so that record bytes do not enter Python
(channel.py). A slice keeps its file open until it is sent or the connection ends, whatever retention does
meanwhile. Slices of a few kilobytes are the exception: they are copied, and sent together with what is around
them. One system call then takes the place of four.

Nothing here blocks: `flush` sends what the socket takes and returns whether everything is sent. A slice that
is not in the page cache would block sendfile, and delay every client. It is `cold` until it is loaded
(loop/cold_reads.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from kafkapy.loop.cold_reads import ColdSlice
from kafkapy.network.channel import Channel
from kafkapy.protocol.types import Part
from kafkapy.storage.disk.files import FileSlice

COPIED_BYTES: Final = 16 << 10
"""The largest slice that is copied. For 64 KiB, sendfile is cheaper."""

_GATHER: Final = 64
"""The most byte parts of one sendmsg (the kernel's limit is 1024)."""

_NOTHING: Final[deque[Part]] = deque(maxlen=0)
"""The parts of every queue that has none: an empty deque takes 760 bytes, and most connections are idle."""


class OutboundQueue:
    """The unsent parts of one connection's responses."""

    __slots__ = ("_cached", "_channel", "_offset", "_parts", "cold", "nbytes")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._parts: deque[Part] = _NOTHING
        self._offset = 0
        """The bytes of the first part that are sent, if it is a file slice."""
        self._cached = 0
        """The position up to which the first part is in the page cache, if it is a file slice."""
        self.cold: ColdSlice | None = None
        """The bytes to load before more is sent, or None. Call `loaded` afterwards."""
        self.nbytes = 0
        """The number of unsent bytes, slices included."""

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
            self._parts = deque((memoryview(data)[sent:],))
            self.nbytes = len(data) - sent
            return False
        queue = self._parts = self._parts or deque()
        for part in parts:
            nbytes = len(part) if isinstance(part, bytes) else part.nbytes
            if nbytes:
                queue.append(part)
                self.nbytes += nbytes
            else:
                discard((part,))
        return self.flush()

    def flush(self) -> bool:
        """Send what the socket takes, up to the channel's `flush_bytes`; True if nothing is left.

        Raises:
            OSError: the connection is broken.
        """
        stop = self.nbytes - self._channel.flush_bytes
        try:
            while self._parts and self.nbytes > stop and self.cold is None:
                if isinstance(self._parts[0], FileSlice):
                    self._send_slice(self._parts[0])
                else:
                    self._send_bytes()
        except (BlockingIOError, InterruptedError):
            return False
        if self._parts:
            return False
        self._parts = _NOTHING
        return True

    @property
    def files(self) -> int:
        """The most files that are kept open."""
        return sum(isinstance(part, FileSlice) for part in self._parts)

    def close(self) -> None:
        """Drop the unsent parts."""
        discard(self._parts)
        self._parts = _NOTHING
        self.cold = None
        self.nbytes = 0

    def loaded(self) -> None:
        """Continue after a load.

        If the bytes could not be read, sendfile raises the error.
        """
        if self.cold is not None:
            self._cached = self.cold.offset + self.cold.nbytes
            self.cold = None

    def _send_slice(self, part: FileSlice) -> None:
        offset = self._offset
        if offset >= self._cached:
            nbytes = min(part.nbytes - offset, self._channel.flush_bytes)
            if not part.is_cached(offset, nbytes):
                self.cold = ColdSlice(part, offset, nbytes)
                return
            self._cached = offset + nbytes
        sent = self._channel.send_slice(part, offset, self._cached - offset)
        if sent == 0:
            raise OSError(f"{part.nbytes - offset} bytes of a log file are missing")
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
        for place, part in enumerate(parts):
            data = part if isinstance(part, bytes | memoryview) else _copied(part)
            if data is None:
                more = True
                break
            parts[place] = data
            gathered.append(data)
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


def _copied(part: Part) -> memoryview | None:
    """The bytes of a small slice in the page cache, which is released; else None."""
    if not isinstance(part, FileSlice) or part.nbytes > COPIED_BYTES:
        return None
    data = part.read_cached()
    if data is not None:
        part.release()
    return data


def discard(parts: Iterable[Part]) -> None:
    """Release the files of parts that are not sent."""
    for part in parts:
        if isinstance(part, FileSlice):
            part.release()
