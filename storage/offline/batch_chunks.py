"""Batches of a segment file, many at a time, each complete and with a valid CRC.

A broker may write, rename or delete the file meanwhile: the file stays open and is read up to the requested
offset only. The memory used is one chunk, or the largest batch if that is larger.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import LOG_OVERHEAD, BatchHeader, iter_headers
from kafkapy.storage.disk.files import File, FileSystem
from kafkapy.storage.offline.damage import check_batch, damaged

CHUNK = 4 << 20
"""How many bytes are read at once."""

_BEYOND = 64 << 10
"""How many bytes more than likely are read at first: a batch, and what is between entries of an index."""


class Chunk(NamedTuple):
    """Batches, with their positions in `data`; `data` is valid until the next chunk is read."""

    data: memoryview
    position: int
    """The position of `data` in the file."""
    batches: list[tuple[int, BatchHeader]]

    @property
    def octets(self) -> bytearray:
        """The buffer that begins with `data`, as it can be searched."""
        buffer = self.data.obj
        assert isinstance(buffer, bytearray)
        return buffer


def read_chunks(
    files: FileSystem, file: File, path: str, position: int, end_offset: int, likely: int = CHUNK
) -> Iterator[Chunk]:
    """Yield the batches from byte `position` up to `end_offset` or to the end of the file.

    A batch must begin at `position`. It is `likely` that about so many bytes are wanted: the first chunk has
    little more, as they may come from far away.

    Raises:
        LogSourceError: a batch is damaged, torn or of an old message format.
        OSError: the disk failed.
    """
    buffer = memoryview(bytearray(min(CHUNK, likely + _BEYOND)))
    done = False
    while not done:
        filled = files.read_into(file, buffer, position)
        data = buffer[:filled]
        batches, consumed, done = _whole_batches(data, path, position, end_offset)
        if batches:
            yield Chunk(data, position, batches)
        position += consumed
        if done or consumed == filled == 0:
            return
        if filled < len(buffer) and consumed < filled:
            raise damaged(path, position, "the file ends inside a batch")
        if not consumed:
            length = int.from_bytes(data[8:LOG_OVERHEAD], "big", signed=True)
            buffer = memoryview(bytearray(max(length + LOG_OVERHEAD, CHUNK)))
        elif len(buffer) < CHUNK:
            buffer = memoryview(bytearray(CHUNK))


def _whole_batches(
    data: memoryview, path: str, position: int, end_offset: int
) -> tuple[list[tuple[int, BatchHeader]], int, bool]:
    """Return the batches, how many bytes they take, and whether `end_offset` was reached."""
    batches: list[tuple[int, BatchHeader]] = []
    consumed = 0
    try:
        for at, header in iter_headers(data):
            if header.base_offset >= end_offset:
                return batches, consumed, True
            check_batch(path, position + at, data, at, header)
            batches.append((at, header))
            consumed = at + header.size
            if header.next_offset >= end_offset:
                return batches, consumed, True
    except DecodeError as error:
        raise damaged(path, position + consumed, str(error)) from None
    return batches, consumed, False
