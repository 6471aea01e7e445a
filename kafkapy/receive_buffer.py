"""The bytes of requests that are not complete, or not handled yet.

A connection owns a buffer only while it has such bytes: complete requests are handled where they lie in the
server's one shared receive buffer. The buffer grows with the bytes received, in steps, and never to the
size that a client declares: a declaration of 100 MiB costs a few KiB until its bytes come. A large frame is
read into the buffer directly, so that its bytes are copied once, from the kernel.
"""

from __future__ import annotations

from typing import Final

MIN_CAPACITY: Final = 4 << 10
_MAX_STEP: Final = 4 << 20
_ZEROS: Final = bytes(_MAX_STEP)
"""What a buffer is grown with; never written, so it takes no memory."""


class ReceiveBuffer:
    """Unhandled bytes: `view[start:end]`; `view[end:]` is room to read into."""

    __slots__ = ("_bytes", "end", "start", "view")

    def __init__(self, unhandled: memoryview, capacity: int) -> None:
        """A copy of `unhandled`, with room for at least `capacity` bytes."""
        self._bytes = bytearray(max(len(unhandled), capacity, MIN_CAPACITY))
        self.view = memoryview(self._bytes)
        self.start = 0
        self.end = len(unhandled)
        self.view[: self.end] = unhandled

    @property
    def capacity(self) -> int:
        return len(self._bytes)

    def make_room(self, frame_size: int) -> int:
        """Have room to read on; the frame at `start` takes `frame_size` in all. Returns the growth."""
        start, end, capacity = self.start, self.end, len(self._bytes)
        have = end - start
        if start and (start + frame_size > capacity or end == capacity):
            self.view[:have] = self.view[start:end]
            self.start, self.end = 0, have
        if self.end < capacity:
            return 0
        step = min(max(frame_size - have, MIN_CAPACITY), max(have, MIN_CAPACITY), _MAX_STEP)
        self.view.release()
        try:
            self._bytes.extend(_ZEROS if step == _MAX_STEP else _ZEROS[:step])
        except BufferError:
            # A handler still holds a view of these bytes (a waiting request, a traceback): leave them to it.
            self._bytes = self._bytes + _ZEROS[:step]
        self.view = memoryview(self._bytes)
        return step
