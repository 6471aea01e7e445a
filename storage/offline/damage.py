"""The errors for bytes that a reader cannot read: one line with file, position and offsets."""

from __future__ import annotations

import os

from kafkapy.protocol.compression import Buffer
from kafkapy.protocol.records import MAGIC, BatchHeader, crc_is_valid
from kafkapy.storage.log.batch_walk import has_old_crc
from kafkapy.storage.offline.offline_error import LogSourceError


def damaged(path: str, position: int, reason: str, offset: int | None = None) -> LogSourceError:
    """Return the error for damage at byte `position`; `offset` is the first damaged offset."""
    remedy = "Restore the file from a replica or a backup"
    if offset is not None:
        remedy += f", or read only up to offset {offset} (endingOffsets)"
    return LogSourceError(f"{path} is damaged at byte {position}: {reason}. {remedy}.")


def check_batch(path: str, position: int, batch: Buffer, at: int, header: BatchHeader) -> None:
    """Refuse a batch with a wrong CRC or of an old message format.

    Args:
        position: the position of the batch in the file, for the message.
        at: the position of the batch in the buffer `batch`, which has the complete batch.

    Raises:
        LogSourceError: the batch cannot be read.
    """
    if header.magic == MAGIC:
        if not crc_is_valid(batch, at, header):
            offsets = f"{header.base_offset} to {header.last_offset}"
            raise damaged(
                path,
                position,
                f"the CRC of the batch with offsets {offsets} is wrong",
                header.base_offset,
            )
        return
    if header.magic in (0, 1) and has_old_crc(memoryview(batch)[at : at + header.size]):
        topic_partition = os.path.basename(os.path.dirname(path))
        raise LogSourceError(
            f"{topic_partition} holds messages in format v{header.magic}, from before Kafka 0.11 "
            f"({path}, byte {position}): only format v2 can be read from files. Read the topic from a broker."
        )
    raise damaged(path, position, f"no batch begins there (magic {header.magic})")
