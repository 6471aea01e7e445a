"""Damage in a segment: bytes that were batches once, and the offsets that lay there.

Damage is found when bytes are checked: by recovery (below the recovery point, where everything was on disk
once) and when bytes are read for the first time (first_read.py). The damaged range is noted. The file is not
changed. Readers get the records before and after the range, and CORRUPT_MESSAGE for an offset in it. On this
error clients neither skip records nor retry silently: they report the offset to the application, which may
seek past the range.

Format: `damaged-offsets` in the partition's directory, text as Kafka's checkpoints ("0\\n", the number of
lines, the lines), a line for each range:

    segment-base-offset position end-position first-offset end-offset

Positions are bytes of the segment's `.log` file; both ends are exclusive. A range without bytes stands for
offsets at the lost end of a file. One without offsets stands for bytes between two batches that follow each
other. Apache Kafka does not read the file. Lines whose segment no longer exists are ignored.

Crash story: the file is replaced atomically. If it is lost, the ranges are found again when they are read,
except the lost end of a log that has records after it. So recovery syncs the file before the log is served.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.storage.disk.checkpoints import CorruptCheckpointError, format_numbers, read_numbers
from kafkapy.storage.disk.files import FileSystem

DAMAGED_OFFSETS: Final = "damaged-offsets"

logger = logging.getLogger(__name__)


class DamagedRange(NamedTuple):
    """Bytes and offsets that are lost; the ends are exclusive."""

    position: int
    end_position: int
    first_offset: int
    end_offset: int

    def ends_below(self, offset: int) -> bool:
        """Return whether a log that is truncated at `offset` still has the complete range."""
        return self.first_offset < offset and self.end_offset <= offset


class DamagedOffsetsError(KafkaError):
    """A reader asked for a damaged offset.

    The damage is known and was logged when it was found, so it is not logged again.
    """

    def __init__(self, path: str, damaged: DamagedRange) -> None:
        super().__init__(
            ErrorCode.CORRUPT_MESSAGE,
            f"Offsets {damaged.first_offset} to {damaged.end_offset - 1} of {path} are damaged.",
        )
        self.end_offset = damaged.end_offset
        """The offset at which a reader can continue."""


def good_runs(damage: Iterable[DamagedRange], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts between two positions that hold batches."""
    for damaged in damage:
        if damaged.position >= end:
            break
        if damaged.end_position <= start:
            continue
        if damaged.position > start:
            yield start, damaged.position
        start = damaged.end_position
    if start < end:
        yield start, end


def holding(damage: Iterable[DamagedRange], offset: int) -> DamagedRange | None:
    """Return the range that holds an offset, or None."""
    for damaged in damage:
        if damaged.first_offset <= offset < damaged.end_offset:
            return damaged
    return None


def joined(damage: Iterable[DamagedRange]) -> tuple[DamagedRange, ...]:
    """Return the ranges in order, each once; a range that grew replaces its shorter version."""
    result: list[DamagedRange] = []
    for damaged in sorted(set(damage), key=lambda each: (each.position, -each.end_position)):
        if (
            not result
            or damaged.end_position > result[-1].end_position
            or (damaged.position == damaged.end_position and damaged.end_offset > result[-1].end_offset)
        ):
            result.append(damaged)
    return tuple(result)


def load_damage(files: FileSystem, directory: str) -> dict[int, tuple[DamagedRange, ...]]:
    """Return the noted damage of a log; none if the file is damaged."""
    try:
        return read_damage(files, directory)
    except CorruptCheckpointError as error:
        logger.warning("Looking for damage anew: %s", error)
        return {}


def read_damage(files: FileSystem, directory: str) -> dict[int, tuple[DamagedRange, ...]]:
    """Read the noted damage of a log, by the base offset of the segment.

    Raises:
        CorruptCheckpointError: the file is damaged.
        OSError: the disk failed.
    """
    lines = read_numbers(files, f"{directory}/{DAMAGED_OFFSETS}", columns=5)
    found: dict[int, list[DamagedRange]] = {}
    for base_offset, position, end_position, first_offset, end_offset in lines:
        if position <= end_position and first_offset <= end_offset:
            damaged = DamagedRange(position, end_position, first_offset, end_offset)
            found.setdefault(base_offset, []).append(damaged)
    return {base_offset: joined(damage) for base_offset, damage in found.items()}


def save_damage(
    files: FileSystem, directory: str, damage: Mapping[int, tuple[DamagedRange, ...]], *, durable: bool
) -> None:
    """Replace the file, or remove it if there is no damage.

    Raises:
        OSError: the disk failed.
    """
    path = f"{directory}/{DAMAGED_OFFSETS}"
    lines = [(base_offset, *damaged) for base_offset, ranges in sorted(damage.items()) for damaged in ranges]
    if lines:
        files.write_atomically(path, format_numbers(lines), durable=durable)
    else:
        files.unlink(path)


def report(partition_directory: str, segment_path: str, damaged: DamagedRange, reason: str) -> None:
    """Log what is lost and what the operator can do."""
    logger.error(
        "Offsets %d to %d of %s are damaged: bytes %d to %d of %s (%s). The records before and after them "
        "are served; readers of these offsets get CORRUPT_MESSAGE and can continue at offset %d. Restore the "
        "file from a backup with the broker stopped, and remove %s/%s; or leave it to retention.",
        damaged.first_offset,
        damaged.end_offset - 1,
        partition_directory.rpartition("/")[2],
        damaged.position,
        damaged.end_position,
        segment_path,
        reason,
        damaged.end_offset,
        partition_directory,
        DAMAGED_OFFSETS,
    )
