"""The transactions of a log that are open at an offset, and those that were aborted.

A read_committed reader stops at the last stable offset, which is the first offset of the earliest open
transaction. It skips the records of aborted transactions. Both are found by reading the newest producer
snapshot, which is as old as the active segment, and the log after it. Earlier aborted transactions are in the
`.txnindex` of the closed segments (storage/log/txn_index.py). The index of the active segment is not enough:
a running broker writes an abort marker before its index entry, and a crash may lose the entry.

Source: ProducerStateManager, UnifiedLog.lastStableOffset.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkapy.protocol.errors import DecodeError, KafkaError
from kafkapy.protocol.records import CONTROL, HEADER_SIZE, TRANSACTIONAL, read_header
from kafkapy.storage.disk.file_names import SNAPSHOT_SUFFIX, path_stem
from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.log.producer_snapshots import CorruptSnapshotError, decode_snapshot
from kafkapy.storage.log.producers import ProducerStates
from kafkapy.storage.log.txn_index import AbortedTxn
from kafkapy.storage.offline.damage import damaged
from kafkapy.storage.offline.offline_segment import OfflineSegment
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles

_FOREVER = 2**63 - 1


class TransactionTracker:
    """Follows the transactions of one log; a later call continues where the last one stopped."""

    __slots__ = ("_aborted", "_begun", "_states")

    def __init__(self) -> None:
        self._states = ProducerStates(expiration_ms=_FOREVER)
        self._aborted: list[AbortedTxn] = []
        self._begun = False

    @property
    def aborted(self) -> Sequence[AbortedTxn]:
        """The transactions whose abort marker is in the part that was followed."""
        return self._aborted

    @property
    def position(self) -> int:
        """The offset up to which the log was followed."""
        return self._states.end_offset

    def begin(
        self, files: ReadOnlyFiles, directory: str, snapshots: Iterable[int], start: int, end: int
    ) -> None:
        """Begin with the newest good snapshot from `start` to `end`; if there is none, at `start`."""
        if self._begun:
            return
        self._begun = True
        for offset in sorted((each for each in snapshots if start < each <= end), reverse=True):
            try:
                producers = decode_snapshot(files.read(path_stem(directory, offset) + SNAPSHOT_SUFFIX))
            except (CorruptSnapshotError, FileNotFoundError):
                continue
            self._states.restore(producers, offset)
            return
        self._states.clear(start)

    def follow(self, segments: Iterable[OfflineSegment], end: int) -> None:
        """Follow the batches below `end`, from the offset at which the last call stopped.

        Raises:
            LogSourceError: a segment is damaged.
        """
        states = self._states
        for segment in segments:
            if segment.base_offset >= end or states.end_offset >= end:
                break
            try:
                self._follow(segment, end)
            except BadBatchError as error:
                raise damaged(segment.path, error.position, error.reason, states.end_offset) from None
            except (DecodeError, KafkaError) as error:
                raise damaged(segment.path, 0, f"a transaction marker cannot be read: {error}") from None
        states.end_offset = max(states.end_offset, end)
        states.high_watermark_moved(end)

    def _follow(self, segment: OfflineSegment, end: int) -> None:
        states = self._states
        first = segment.find(states.end_offset)
        if first is None:
            return
        for place in segment.places(first.position):
            if place.base_offset >= end:
                return
            if place.attributes & TRANSACTIONAL:
                whole = place.attributes & CONTROL
                batch = segment.read(place.position, place.size if whole else HEADER_SIZE)
                states.replay(read_header(batch), memoryview(batch), 0, self._aborted.append)

    def last_stable_offset(self, end: int) -> int:
        """Return the first offset of the earliest transaction that is open at `end`, or `end`."""
        return min(self._states.first_unstable_offset, end)
