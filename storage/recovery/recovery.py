"""Loading a log from its directory, and repairing what a crash left.

In passes:

1. Leftovers of deletions and of interrupted compaction are removed or completed (`.deleted`, `.cleaned`,
   `.swap`). Index files without a segment are removed.
2. After a clean stop the segments are used as they are; an index that cannot be right is rebuilt from its
   segment. Otherwise every segment that reaches above the recovery point is read again: each batch must have
   a sane header, a valid CRC and offsets above those before it. Indexes, leader epochs and producer states
   are built from what is read.
3. If the first bad batch lies above the recovery point, the log is truncated there: a crash may have left a
   torn or missing write, and its records were not acknowledged. Below the recovery point everything was on
   disk once, so a bad batch is damage. Truncating there, as Apache Kafka does, would remove good records
   after it. Instead the damaged range is noted (damage.py), and the records before and after it are served.
   A log that lost its end continues at the recovery point.
4. With durability=fsync the recovered segments are synced before they are served. Otherwise a second crash
   could remove records that were read after the first. (Apache Kafka leaves them in the page cache.) If there
   are many logs, all are synced at once, when the last is loaded (log_loading.py).

Memory is bounded by the read chunk or the largest batch.

Source: LogLoader, LogSegment.recover, UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from itertools import pairwise

from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.storage.damage.damage import DamagedRange, save_damage
from kafkapy.storage.damage.policy import SERVE_AROUND
from kafkapy.storage.disk.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    CorruptCheckpointError,
    read_partition_metadata,
)
from kafkapy.storage.disk.errors import CorruptLogError
from kafkapy.storage.disk.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, file_name
from kafkapy.storage.disk.files import release_all
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.batch_walk import walk
from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.log.epochs import LeaderEpochCache
from kafkapy.storage.log.first_read import indexed_end
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.producer_replay import load_producers
from kafkapy.storage.log.producer_snapshots import ProducerSnapshots
from kafkapy.storage.log.producers import ProducerStates
from kafkapy.storage.log.segment import (
    Segment,
)
from kafkapy.storage.log.segment_files import open_segments
from kafkapy.storage.log.segments import Segments
from kafkapy.storage.log.txn_index import CorruptTransactionIndexError
from kafkapy.storage.log.unchecked import Unchecked
from kafkapy.storage.recovery.leftovers import finish_interrupted_work
from kafkapy.storage.recovery.repairs import Emptied, Gap, Listener, Truncated, nobody
from kafkapy.storage.recovery.segment_damage import check_aborted, note_damage
from kafkapy.storage.recovery.segment_rebuild import SegmentRebuild

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """The entries for one log in the checkpoints of a log directory."""

    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    cleaned: int = 0
    """The offset below which compaction may have left gaps between segments, as Apache Kafka's does."""


def load_log(
    log_directory: LogDirectory,
    path: str,
    topic_partition: TopicPartition,
    config: LogConfig,
    *,
    offsets: LogOffsets,
    clean: bool,
    producer_expiration_ms: int,
    listener: Listener = nobody,
) -> PartitionLog:
    """Load the log in the directory `path`; `clean` says that it was closed cleanly.

    `listener` is called with each repair that removes records.

    Raises:
        CorruptLogError: the log cannot be served.
        OSError: the disk failed.
    """
    return _Loader(
        log_directory, path, topic_partition, config, offsets, clean, producer_expiration_ms, listener
    ).load()


class _Loader:
    """Collects the parts of a log."""

    def __init__(
        self,
        log_directory: LogDirectory,
        path: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        offsets: LogOffsets,
        clean: bool,
        producer_expiration_ms: int,
        listener: Listener,
    ) -> None:
        self._log_directory = log_directory
        self._listener = listener
        self._files = log_directory.files
        self._path = path
        self._topic_partition = topic_partition
        self._config = config
        self._offsets = offsets
        self._clean = clean
        self._now_ms = log_directory.clock.now_ms()
        self._segments: list[Segment] = []
        self._snapshots = ProducerSnapshots(self._files, path)
        self._producers = ProducerStates(expiration_ms=producer_expiration_ms)
        self._epochs = LeaderEpochCache()
        self._recovered: list[Segment] = []
        self._epochs_on_disk: list[tuple[int, int]] = []
        self._known_epoch = -1
        self._names: set[str] = set()
        self._end_offset = 0

    def load(self) -> PartitionLog:
        try:
            return self._load()
        except BaseException:
            for segment in self._segments:
                # Entries that are not written yet are lost; the next attempt adds them again.
                for user in (*segment.indexes.both, segment.txn_index, segment):
                    user.close_file()
            raise

    def _load(self) -> PartitionLog:
        finish_interrupted_work(self._log_directory, self._path)
        found = open_segments(self._log_directory, self._path, self._config, self._now_ms)
        self._segments, self._snapshots, self._names = found
        self._load_epochs()
        self._known_epoch = self._epochs.latest_epoch
        start = self._check_clean() if self._clean else self._offsets.recovery_point
        self._clean = start is None
        end_offset = self._end_offset if start is None else self._recover(start)
        if end_offset < self._durable_offset:
            end_offset = self._note_lost_end(end_offset)
        if end_offset < self._offsets.log_start_offset:
            end_offset = self._start_anew(end_offset)
        if not self._segments:
            now = self._now_ms
            self._segments = [Segment.create(self._files, self._path, end_offset, self._config, now)]
        self._segments[-1].unshare()  # it is appended to from now on
        log_start_offset = max(self._offsets.log_start_offset, self._segments[0].base_offset)
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(log_start_offset)
        self._epochs.file_holds(self._epochs_on_disk, log_start_offset)
        if self._clean:
            self._load_producers(log_start_offset, end_offset)
        else:
            self._sync_recovered()
        log = PartitionLog(
            self._topic_partition,
            self._path,
            topic_id=self._read_topic_id(),
            config=self._config,
            log_directory=self._log_directory,
            segments=Segments(self._segments),
            leader_epochs=self._epochs,
            producers=self._producers,
            snapshots=self._snapshots,
            log_start_offset=log_start_offset,
            log_end_offset=end_offset,
            flushed_offset=self._flushed_offset(end_offset),
        )
        log.advance_high_watermark(self._offsets.high_watermark)
        log.close_files()
        return log

    @property
    def _durable_offset(self) -> int:
        """The offset below which everything was on disk once.

        The recovery point and the high watermark are in two files; if one is damaged, the other limits it.
        """
        point, high_watermark = self._offsets.recovery_point, self._offsets.high_watermark
        return min(point, high_watermark) if high_watermark else point

    def _flushed_offset(self, end_offset: int) -> int:
        if self._clean or self._log_directory.durable:
            return end_offset
        return min(self._offsets.recovery_point, end_offset)

    # --- pass 1: files --------------------------------------------------------------------------------------

    def _load_epochs(self) -> None:
        path = f"{self._path}/{LEADER_EPOCHS}"
        try:
            self._epochs = LeaderEpochCache.load(self._files, path)
            self._epochs_on_disk = self._epochs.entries
        except CorruptCheckpointError as error:
            logger.warning("Reading the leader epochs from the batches: %s", error)
            for segment in self._segments:
                try:
                    for place in segment.places():
                        self._assign_epoch(place.leader_epoch, place.base_offset)
                except BadBatchError:
                    break
                finally:
                    segment.close_files()

    def _assign_epoch(self, epoch: int, start_offset: int) -> None:
        if epoch > self._epochs.latest_epoch:
            self._epochs.assign(epoch, start_offset)

    def _read_topic_id(self) -> Uuid | None:
        try:
            return read_partition_metadata(self._files, f"{self._path}/{PARTITION_METADATA}")
        except CorruptCheckpointError as error:
            logger.warning("The topic id is taken from the cluster's metadata: %s", error)
            return None

    # --- pass 2: after a clean stop -------------------------------------------------------------------------

    def _check_clean(self) -> int | None:
        """Find the log end offset.

        Return None, or the offset to recover from if a segment is not as a clean stop leaves it.
        """
        self._end_offset = self._offsets.log_start_offset
        for segment in self._segments:
            try:
                self._check_transactions(segment)
                if segment.size and not self._has_indexes(segment):
                    logger.warning("Rebuilding the missing indexes of %s", segment.path)
                    segment.rebuild_indexes()
                if segment is self._segments[-1]:
                    self._end_offset = segment.read_next_offset()
                    if 0 < self._offsets.recovery_point < self._end_offset:
                        raise BadBatchError(segment.size, f"offsets up to {self._end_offset}")
            except (BadBatchError, CorruptTransactionIndexError) as error:
                logger.warning("Recovering %s in spite of its clean stop: %s", segment.path, error)
                return segment.base_offset
            finally:
                segment.close_files()
        return None

    def _check_transactions(self, segment: Segment) -> None:
        if file_name(segment.base_offset, TXN_INDEX_SUFFIX) in self._names:
            check_aborted(segment, Segments(self._segments))

    def _first_without_aborted(self, start: int) -> int:
        """Return the first segment below `start` with a bad transaction index, by its base offset.

        Without one return `start`.
        """
        for segment in self._segments:
            if segment.base_offset >= start:
                break
            try:
                self._check_transactions(segment)
            except (BadBatchError, CorruptTransactionIndexError) as error:
                logger.warning("Recovering %s: %s", segment.path, error)
                return segment.base_offset
            finally:
                segment.close_files()
        return start

    def _has_indexes(self, segment: Segment) -> bool:
        suffixes = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
        return all(file_name(segment.base_offset, suffix) in self._names for suffix in suffixes)

    # --- pass 2: after a crash ------------------------------------------------------------------------------

    def _recover(self, start: int) -> int:
        """Read again the segments that reach above `start`; return the log end offset.

        The segment that ends at `start` is read too. It may have been closed after the recovery point was
        written, and its indexes, which are synced when it is closed, may be missing or torn.
        """
        if not self._segments:
            self._producers.clear(self._offsets.log_start_offset)
            return self._offsets.log_start_offset
        segments = Segments(self._segments).covering(min(start - 1, self._first_without_aborted(start)))
        end_offset = segments[0].base_offset
        self._epochs.truncate_from_end(end_offset)
        self._load_producers(max(self._offsets.log_start_offset, self._segments[0].base_offset), end_offset)
        for index, segment in enumerate(segments):
            if (
                segment.base_offset > max(end_offset, self._offsets.cleaned)
                and end_offset >= self._durable_offset
            ):
                self._truncate_at_gap(end_offset, segments[index:])
                break
            following = segments[index + 1].base_offset if index + 1 < len(segments) else None
            self._producers.end_offset = segment.base_offset
            if index:
                self._snapshots.take(self._producers, durable=False)
            self._recovered.append(segment)
            end_offset, good_bytes, reason = self._recover_segment(segment, end_offset, following)
            if reason is not None:
                self._truncate(segment, good_bytes, end_offset, segments[index + 1 :], reason)
                break
            segment.close_files()
        self._producers.end_offset = end_offset
        return end_offset

    def _recover_segment(
        self, segment: Segment, end_offset: int, following: int | None
    ) -> tuple[int, int, str | None]:
        """Read all batches of a segment.

        Return the offset after the last good batch, the position where this batch ends, and what is wrong
        with the next batch, or None. `following` is the base offset of the next segment.
        """
        if segment.size == 0 and not self._has_indexes(segment):
            return max(end_offset, segment.base_offset), 0, None
        indexed = indexed_end(segment) if following is not None else 0
        if segment.base_offset < self._durable_offset:
            self._note_damage(segment, max(end_offset, segment.base_offset), following)
        rebuild = SegmentRebuild(
            segment,
            self._path,
            self._log_directory.path,
            self._assign_epoch,
            self._producers,
            self._now_ms,
        )
        walked = walk(
            segment.batches(),
            rebuild,
            base_offset=segment.base_offset,
            expected=max(end_offset, segment.base_offset),
        )
        good_bytes = segment.size if walked.bad is None else walked.position
        expected = max(walked.next_offset, *self._damage_ends(segment, good_bytes))
        if walked.bad is not None:
            return expected, good_bytes, walked.bad.reason
        segment.indexes.complete()
        if following is not None and expected < min(following, self._durable_offset, indexed):
            lost = DamagedRange(segment.size, segment.size, expected, following)
            SERVE_AROUND.found(segment, [lost], f"the file ends at byte {segment.size}")
            expected = following
        return expected, good_bytes, None

    def _note_damage(self, segment: Segment, expected: int, following: int | None) -> None:
        note_damage(
            segment,
            expected=expected,
            durable_offset=self._durable_offset,
            following=following,
            first_epoch=self._epochs.epoch_for_offset(segment.base_offset),
            end_epoch=self._known_epoch,
            end_is_lost=bool(self._offsets.high_watermark),
        )

    def _damage_ends(self, segment: Segment, position: int) -> tuple[int, ...]:
        """Return the end offset of each damaged range up to a position, and 0."""
        return (0, *(each.end_offset for each in segment.damage if each.end_position <= position))

    def _note_lost_end(self, end_offset: int) -> int:
        """Note the lost end of the log as damage; return the offset after it."""
        if not self._segments or not self._offsets.high_watermark:
            raise self._corrupt(end_offset, "the log ends")
        last = self._segments[-1]
        lost = DamagedRange(last.size, last.size, end_offset, self._durable_offset)
        SERVE_AROUND.found(last, [lost], f"the file ends at byte {last.size}")
        self._producers.end_offset = self._durable_offset
        return self._durable_offset

    # --- pass 3: note damage, truncate, or refuse -----------------------------------------------------------

    def _truncate(
        self, segment: Segment, good_bytes: int, end_offset: int, later: list[Segment], reason: str
    ) -> None:
        """End the log after the last good batch."""
        if end_offset < self._durable_offset:
            raise self._corrupt(end_offset, f"{segment.path} is bad at byte {good_bytes} ({reason})")
        logger.warning(
            "Truncating %s at offset %d: %s at byte %d of %s. %d bytes and %d later segments are removed; "
            "none of that was known to be on disk (recovery point %d).",
            self._topic_partition,
            end_offset,
            reason,
            good_bytes,
            segment.path,
            segment.size - good_bytes,
            len(later),
            self._offsets.recovery_point,
        )
        self._listener(
            Truncated(segment.path, good_bytes, segment.size - good_bytes, end_offset, len(later), reason)
        )
        segment.unshare()
        self._files.truncate(segment.file, good_bytes)
        segment.size = good_bytes
        if segment.unchecked is not None:
            segment.unchecked = Unchecked(good_bytes)
        segment.indexes.complete()
        self._remove(later)

    def _truncate_at_gap(self, end_offset: int, later: list[Segment]) -> None:
        """End the log before a segment that begins above the end of the one before it.

        The crash lost the records between them, while later records were on disk already. Keeping these would
        break the order of the producers, which send unacknowledged records again. (Apart from a crash only
        compaction leaves such gaps, and only below the recovery point.)
        """
        base_offset = later[0].base_offset
        logger.warning(
            "Truncating %s at offset %d: the next segment begins at %d. %d segments are removed; none "
            "of that was known to be on disk (recovery point %d).",
            self._topic_partition,
            end_offset,
            base_offset,
            len(later),
            self._offsets.recovery_point,
        )
        self._listener(Gap(later[0].path, base_offset, end_offset, len(later)))
        self._remove(later)

    def _remove(self, segments: list[Segment]) -> None:
        delay = self._config.file_delete_delay_ms
        for segment in segments:
            self._segments.remove(segment)
            self._snapshots.delete(segment.base_offset)
            self._log_directory.delete_later(segment.mark_deleted(), delay)

    def _start_anew(self, end_offset: int) -> int:
        """Handle a log that ends below the log start offset.

        A crash may have lost unsynced records after older ones were deleted. Then none of the log's records
        may be read, and the log begins again at that offset. Otherwise the checkpoint is wrong.
        """
        start = self._offsets.log_start_offset
        if self._clean or start > self._offsets.high_watermark:
            # No log starts above its high watermark, nor ends below its start when it is closed.
            logger.error("%s: the log start offset %d cannot be right and is ignored.", self._path, start)
            self._offsets = replace(self._offsets, log_start_offset=0)
            return end_offset
        logger.warning("%s: all segments end below the log start offset %d and go.", self._path, start)
        self._listener(Emptied(start))
        self._remove(list(self._segments))
        self._recovered.clear()
        self._epochs.clear()
        self._producers.clear(start)
        return start

    def _corrupt(self, end_offset: int, what: str) -> CorruptLogError:
        last = self._offsets.recovery_point - 1
        message = (
            f"{self._topic_partition} stays offline: {what}, at offset {end_offset}, but everything up to "
            f"offset {last} was on disk. Offsets {end_offset} to {last} may be damaged. Restore {self._path} "
            f"from a replica or a backup; or, to give those records up, stop the broker and remove the "
            f"partition's line from {self._log_directory.path}/{RECOVERY_POINTS}."
        )
        logger.error("%s", message)
        return CorruptLogError(self._log_directory.path, message)

    # --- producers, and pass 4 ------------------------------------------------------------------------------

    def _load_producers(self, log_start_offset: int, end_offset: int) -> None:
        """Build the producer states up to `end_offset`, from a snapshot and the batches after it."""
        if self._clean and not self._snapshots.offsets:
            # A clean stop writes a snapshot. Without one the log never had producers (as in Apache Kafka).
            self._producers.clear(end_offset)
            return
        try:
            self._replay_producers(log_start_offset, end_offset)
        except (BadBatchError, DecodeError) as error:
            logger.warning("Looking for damage in %s: %s", self._path, error)
            for segment, following in pairwise(self._segments):
                if segment.base_offset < end_offset:
                    self._note_damage(segment, segment.base_offset, following.base_offset)
            try:
                self._replay_producers(log_start_offset, end_offset)
            except (BadBatchError, DecodeError):
                raise self._corrupt(log_start_offset, f"no producer states: {error}") from error

    def _replay_producers(self, log_start_offset: int, end_offset: int) -> None:
        load_producers(
            self._producers,
            self._snapshots,
            Segments(self._segments),
            log_start_offset=log_start_offset,
            end_offset=end_offset,
            now_ms=self._now_ms,
        )

    def _sync_recovered(self) -> None:
        if not self._log_directory.durable:
            return
        if self._log_directory.syncs_at_once:
            return
        for segment in self._recovered:
            # An empty segment creates its indexes when it needs them; some files may be missing.
            handles = segment.flush_handles(with_indexes=segment.size > 0)
            try:
                for handle in handles:
                    self._files.sync_data(handle)
            finally:
                release_all(handles)
            segment.close_files()
        damage = {segment.base_offset: segment.damage for segment in self._segments if segment.damage}
        if damage:
            save_damage(self._files, self._path, damage, durable=True)
        self._files.sync_directory(self._path)
