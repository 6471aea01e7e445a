"""A connection's buffer for requests that are not complete or not handled yet.

A connection has a buffer only while it has such bytes: complete requests are handled in place, in the
server's shared receive buffer. The buffer grows in steps with the bytes received, not to the size that a
client declares: 100 MiB that are only declared cost a few KiB. A large frame is received into the buffer
directly, so that its bytes are copied only once, from the kernel.

Small buffers are bytearrays. Large ones are anonymous mappings. To grow them, the kernel moves their pages
(mremap), while a heap block would be copied and take twice the memory meanwhile. Their memory returns to the
kernel when they are freed.
"""

from __future__ import annotations

import mmap
from typing import Final

MIN_CAPACITY: Final = 4 << 10
_MAX_SMALL: Final = 64 << 10
_MAX_STEP: Final = 4 << 20


class ReceiveBuffer:
    """Unhandled bytes: `view[start:end]`; `view[end:]` is room to read into."""

    __slots__ = ("_memory", "end", "start", "view")

    def __init__(self, unhandled: memoryview) -> None:
        """Begin with a copy of `unhandled`."""
        self._memory = _allocate(max(len(unhandled), MIN_CAPACITY))
        self.view = memoryview(self._memory)
        self.start = 0
        self.end = len(unhandled)
        self.view[: self.end] = unhandled

    @property
    def capacity(self) -> int:
        return len(self._memory)

    def make_room(self, frame_size: int) -> int:
        """Make room for more bytes, if there is none.

        Return the number of bytes added to the buffer.

        The frame at `start` has `frame_size` bytes in total.
        """
        start, end, capacity = self.start, self.end, len(self._memory)
        have = end - start
        if start and (start + frame_size > capacity or end == capacity):
            self.view[:have] = self.view[start:end]
            self.start, self.end = 0, have
        if self.end < capacity:
            return 0
        step = min(max(frame_size - have, MIN_CAPACITY), have, _MAX_STEP)
        self._grow(capacity + step)
        return len(self._memory) - capacity

    def _grow(self, capacity: int) -> None:
        if isinstance(self._memory, mmap.mmap):
            self.view.release()
            try:
                self._memory.resize(capacity)
                self.view = memoryview(self._memory)
                return
            except (BufferError, SystemError):
                # A handler still holds a view of these bytes, or there is no mremap: use a new mapping.
                self.view = memoryview(self._memory)
        larger = _allocate(capacity)
        view = memoryview(larger)
        view[: self.end] = self.view[: self.end]
        self._memory, self.view = larger, view


def _allocate(capacity: int) -> bytearray | mmap.mmap:
    if capacity <= _MAX_SMALL:
        return bytearray(capacity)
    return mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
