"""The conversion of segments from before Kafka 0.11: their messages become record batches.

The messages have magic 0 or 1. Logs of this broker hold record batches only, so an import converts such
segments. Offsets, keys, values, timestamps and their types stay the same. A compressed message becomes a
batch with the same codec. Uncompressed messages are collected into batches of up to `_BATCH_BYTES`. Indexes
are not written: the broker builds missing ones when it starts.

If something cannot be read, such as a torn end after a crash, it is copied unchanged, with everything after
it. Recovery then treats it like any torn or damaged end.

Source: AbstractLegacyRecordBatch; KIP-98 (record batches), KIP-724 (the end of the old formats).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.legacy_records import Message, iter_messages, unwrap
from kafkapy.protocol.records import MAGIC, MAGIC_AT, Record, TimestampType, build_batch
from kafkapy.storage.disk.files import File, FileSystem
from kafkapy.storage.log.batches import BadBatchError, iter_batches
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles

logger = logging.getLogger(__name__)

_BATCH_BYTES = 64 * 1024
_WRITE_BYTES = 1 << 20


def begins_with_message(files: ReadOnlyFiles, path: str) -> bool:
    """Return whether a segment's file begins with a message of magic 0 or 1.

    Raises:
        OSError: the disk failed.
    """
    file = files.open(path)
    try:
        head = files.read_at(file, MAGIC_AT + 1, 0)
    finally:
        file.release()
    return len(head) > MAGIC_AT and head[MAGIC_AT] < MAGIC


def convert_segment(source_files: ReadOnlyFiles, source: str, files: FileSystem, target: str) -> int:
    """Convert the segment `source` into the new file `target`; return how many bytes it has.

    The file is on disk when this returns.

    Raises:
        OSError: the disk is full, or failed.
    """
    reading, writing = source_files.open(source), files.open(target, create=True)
    try:
        written, waiting = 0, bytearray()
        for piece in _pieces(source_files, reading, source):
            waiting += piece
            if len(waiting) >= _WRITE_BYTES:
                written += files.write_at(writing, [waiting], written)
                waiting = bytearray()
        written += files.write_at(writing, [waiting], written)
        files.sync_data(writing)
        return written
    finally:
        reading.release()
        writing.release()


def _pieces(files: ReadOnlyFiles, file: File, path: str) -> Iterator[bytes | bytearray]:
    """Yield the bytes of the new file."""
    size, done = files.size_of(file), 0
    group: list[Message] = []
    nbytes = 0
    try:
        for position, batch in iter_batches(files, file, 0, size):
            done = position
            message = _message(batch)
            plain = message is not None and not message.compression
            if group and not (plain and nbytes < _BATCH_BYTES and _go_together(group[0], message)):
                yield _batch(group)
                group, nbytes = [], 0
            if message is None:
                yield bytes(batch)
            elif plain:
                group.append(message)
                nbytes += message.size
            else:
                yield _batch(list(unwrap(message)), message)
            done += len(batch)
    except (BadBatchError, DecodeError) as error:
        logger.warning("%s is not converted from byte %d on: %s", path, done, error)
    if group:
        yield _batch(group)
    if done < size:
        yield files.read_at(file, size - done, done)


def _message(batch: memoryview) -> Message | None:
    """Return the message in `batch`; None if it is a record batch.

    Raises:
        DecodeError: the message cannot be read.
    """
    return None if batch[MAGIC_AT] >= MAGIC else next(iter_messages(batch))


def _go_together(one: Message, other: Message | None) -> bool:
    """Return whether a batch may hold both: it has one timestamp type, and one LogAppendTime."""
    if other is None or one.timestamp_type is not other.timestamp_type:
        return False
    return one.timestamp_type is TimestampType.CREATE_TIME or one.timestamp == other.timestamp


def _batch(messages: list[Message], wrapper: Message | None = None) -> bytearray:
    """Return a batch with the messages; `wrapper` is the compressed message that held them.

    Raises:
        DecodeError: there are no messages, or their offsets do not rise.
    """
    described = wrapper or messages[0]
    records = [Record(each.offset, each.timestamp, each.key, each.value) for each in messages]
    try:
        return build_batch(
            records,
            base_offset=records[0].offset if records else 0,
            compression=described.compression,
            timestamp_type=described.timestamp_type,
        )
    except ValueError as error:
        raise DecodeError(str(error)) from None
