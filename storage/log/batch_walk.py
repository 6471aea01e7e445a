"""A walk over the batches of a segment file, up to the first bad one.

A batch is the next one if its length and header are possible, its CRC is right, and its offsets follow those
before it. Recovery and `kafkapy check` walk; a survey (storage/damage/survey.py) then looks for good batches
after a bad one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.legacy_records import CRC_AT, CRC_FROM
from kafkapy.protocol.records import MAGIC, BatchHeader, read_header
from kafkapy.storage.log.batches import BadBatchError, reason_against


class BatchListener(Protocol):
    """Is called with what a walk meets; a BadBatchError that it raises ends the walk."""

    def batch(self, position: int, header: BatchHeader, batch: memoryview, expected: int) -> None:
        """Take the next batch; `expected` is the offset after the one before it.

        The bytes are valid until the call returns.

        Raises:
            BadBatchError, DecodeError: it cannot be the next one.
        """

    def other_format(self, position: int, header: BatchHeader, batch: memoryview, expected: int) -> int:
        """Take a message of another format than 2, unchecked; return the offset after it.

        Raises:
            BadBatchError: there can be none.
        """


class WalkEnd(NamedTuple):
    """Where a walk ended."""

    position: int
    """The end of the last good batch."""
    next_offset: int
    """The offset after it."""
    bad: BadBatchError | None
    """What is wrong after that, or None at the end of the file."""


def walk(
    batches: Iterable[tuple[int, memoryview]],
    listener: BatchListener,
    *,
    start: int = 0,
    base_offset: int,
    expected: int,
) -> WalkEnd:
    """Check batches and call the listener with each.

    Args:
        batches: their positions and bytes (batches.py), from position `start`.
        base_offset: the base offset of the segment.
        expected: the least offset of the first batch.

    Raises:
        OSError: the disk failed.
    """
    take = listener.batch
    position = end = start
    bad = None
    try:
        for position, batch in batches:
            header = read_header(batch)
            if header.magic == MAGIC:
                reason = reason_against(header, batch, expected, base_offset)
                if reason is not None:
                    raise BadBatchError(position, reason)
                take(position, header, batch, expected)
                expected = header.next_offset
            else:
                expected = listener.other_format(position, header, batch, expected)
            end = position + len(batch)
    except BadBatchError as error:
        bad = error
    except DecodeError as error:
        bad = BadBatchError(end, str(error))
    return WalkEnd(end, expected, bad)


def has_old_crc(batch: memoryview) -> bool:
    """Whether bytes have the CRC of a message of format 0 or 1.

    Neither zeros nor torn writes have it.
    """
    return zlib.crc32(batch[CRC_FROM:]) == int.from_bytes(batch[CRC_AT:CRC_FROM], "big")
