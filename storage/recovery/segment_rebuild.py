"""Rebuilds indexes, leader epochs and producer states from the batches of a segment."""

from __future__ import annotations

from collections.abc import Callable

from kafkapy.protocol.records import BatchHeader
from kafkapy.storage.disk.errors import CorruptLogError
from kafkapy.storage.log.batch_walk import has_old_crc
from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.log.producers import ProducerStates
from kafkapy.storage.log.segment import Segment


class SegmentRebuild:
    """Takes the batches of one segment in order (`BatchListener`)."""

    __slots__ = ("_add_aborted", "_assign_epoch", "_indexes", "_now_ms", "_path", "_producers", "_root")

    def __init__(
        self,
        segment: Segment,
        path: str,
        root: str,
        assign_epoch: Callable[[int, int], None],
        producers: ProducerStates,
        now_ms: int,
    ) -> None:
        """Empty the indexes of a segment of the log at `path`, in the log directory `root`.

        `assign_epoch(epoch, start_offset)` is called with the leader epoch of each batch.
        """
        self._path, self._root = path, root
        self._indexes = segment.indexes
        self._indexes.reset()
        segment.txn_index.reset()
        self._add_aborted = segment.txn_index.append
        self._assign_epoch = assign_epoch
        self._producers = producers
        self._now_ms = now_ms

    def batch(self, position: int, header: BatchHeader, batch: memoryview, _expected: int) -> None:
        """Take the next batch."""
        indexes, last_offset = self._indexes, header.last_offset
        if indexes.note_batch(position, last_offset, header.max_timestamp):
            indexes.add_entry(position, last_offset)
        self._assign_epoch(header.partition_leader_epoch, header.base_offset)
        self._producers.replay(header, batch, self._now_ms, self._add_aborted)

    def other_format(self, position: int, header: BatchHeader, batch: memoryview, _expected: int) -> int:
        """Refuse a message of another format.

        Raises:
            CorruptLogError: a client before Kafka 0.11 wrote it.
            BadBatchError: it is none.
        """
        if header.magic in (0, 1) and has_old_crc(batch):
            raise CorruptLogError(
                self._root,
                f"{self._path} holds messages in format {header.magic}: import the directory first",
            )
        raise BadBatchError(position, f"message format {header.magic}")
