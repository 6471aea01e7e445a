"""One partition of this broker: its log, its high watermark, and who waits for it to move.

A record's way in: `append` validates and writes it to the log (page cache); `_advance` decides how far
readers may see. If the records are still unsynced and the policy asks for a sync, the partition joins the
next group commit, and the high watermark moves when that has ended. Whoever waits (a Produce request for its
acknowledgement, a fetch for bytes) watches the partition in the broker's `Waiters` and is woken whenever the
high watermark moves.

When a sync is due: `flush.messages` unsynced records. With durability=fsync a topic that leaves
flush.messages and flush.ms at their defaults has a sync after every append; setting one of them relaxes that
for the topic. With durability=os the defaults mean what they mean in Apache Kafka: never on the produce path.

Whether this broker leads the partition, and whether other replicas stand between append and commit, is for
the replication to say (replication.py). The partition knows the disk.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.storage.disk.files import StorageError
from kafkapy.storage.log.log_config import LogConfig

if TYPE_CHECKING:
    import asyncio

    from kafkapy.process.waiters import Waiters
    from kafkapy.protocol.types import TopicPartition
    from kafkapy.replicas.replication import Replication
    from kafkapy.storage.log.flush import FlushTicket
    from kafkapy.storage.log.partition_log import AppendInfo, PartitionLog
    from kafkapy.storage.log.validate import AppendOrigin, PreparedBatches

NEVER = 2**63 - 1
"""Kafka's default of flush.messages and flush.ms."""


class FlushRequests(Protocol):
    """What puts partitions on disk when they ask for it (group_commit.py)."""

    def request(self, partition: Partition) -> None:
        """Flush `partition`; `partition.flushed()` follows."""


class Partition:
    """A replica of a partition on this broker."""

    __slots__ = (
        "_flush_every",
        "_group_commit",
        "_holds_commits",
        "_sync_by_default",
        "_waiters",
        "changes",
        "log",
        "offline",
        "replication",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        log: PartitionLog,
        *,
        replication: Replication,
        group_commit: FlushRequests,
        waiters: Waiters,
        sync: bool,
    ) -> None:
        self.log = log
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id = log.topic_id
        self.replication = replication
        self.offline: ErrorCode = ErrorCode.NONE
        """Why no request is served any more.

        The disk failed, the topic was deleted, or the broker stops.
        """
        self.changes = 0
        """How often those who wait were woken: if it is the same, readers have no news."""
        self._holds_commits = False
        """The log is changing its place: nothing is committed before that is done."""
        self._group_commit = group_commit
        self._waiters = waiters
        self._sync_by_default = sync
        self._flush_every = self._flush_policy(log.config)
        # Recovery has synced what it accepted.
        log.advance_high_watermark(replication.committed(log.log_end_offset))

    @property
    def leader_epoch(self) -> int:
        """The epoch in which the leader leads."""
        return self.replication.leader_epoch

    # --- writing --------------------------------------------------------------------------------------------

    def append(self, batches: PreparedBatches, *, origin: AppendOrigin, now_ms: int) -> AppendInfo:
        """Append validated batches and start what commits them.

        Raises:
            KafkaError: the batches are refused, or the disk is (KAFKA_STORAGE_ERROR).
        """
        self.require_online()
        self.replication.require_leader()
        info = self.log.append_prepared(batches, leader_epoch=self.leader_epoch, origin=origin, now_ms=now_ms)
        if self._advance():
            self.wake()
        return info

    def is_committed(self, offset: int) -> bool:
        """Whether everything below `offset` is committed.

        Raises:
            KafkaError: it never will be, as far as this broker can tell.
        """
        if self.log.high_watermark >= offset:
            return True
        self.require_online()
        return False

    def watch_commit(self, offset: int, seconds: float) -> asyncio.Future[bool]:
        """True once everything below `offset` is committed, False after `seconds`; or a KafkaError."""
        return self._waiters.wait((self,), seconds, lambda: self.is_committed(offset))

    def configure(self, config: LogConfig) -> None:
        """Let changed topic settings take effect at once."""
        if not config.is_compacted:
            with contextlib.suppress(StorageError):  # otherwise the log directory is offline
                self.log.stop_cleaning()
        self.log.config = config
        self._flush_every = self._flush_policy(config)
        if not self.offline:
            self._advance()
        self.wake()

    def _flush_policy(self, config: LogConfig) -> int:
        """How many unsynced records make a sync due."""
        if self._sync_by_default and config.flush_messages == NEVER and config.flush_ms == NEVER:
            return 1
        return config.flush_messages

    # --- committing -----------------------------------------------------------------------------------------

    def prepare_flush(self) -> FlushTicket | None:
        """What the group commit has to sync.

        None if nothing is unsynced, or nothing counts any more.

        Raises:
            KafkaError: the log is damaged, or the disk failed, or a file cannot be opened now.
        """
        if self.offline or self._holds_commits:
            return None
        return self.log.prepare_flush()

    def flushed(self, log: PartitionLog, ticket: FlushTicket) -> bool:
        """Note that the group commit has synced what `ticket` covers of `log`.

        The log may have been replaced since. Returns whether the high watermark has moved: then `wake`, after
        the disk has got its next work.
        """
        log.complete_flush(ticket)
        return not self.offline and self._advance()

    def wake(self) -> None:
        """Have everyone who waits for this partition look again."""
        self.changes += 1
        self._waiters.wake(self)

    def replace_log(self, log: PartitionLog) -> None:
        """Go on with a log that holds the same records in another place.

        What is appended from now on is not committed before `resume_commits`. See
        storage/directories/future_log.py.
        """
        self.log = log
        self._holds_commits = True

    def resume_commits(self) -> None:
        """Note that the new log is on disk, and would be found by a restart."""
        self._holds_commits = False
        if not self.offline and self._advance():
            self.wake()

    def close(self, error: ErrorCode) -> None:
        """Answer everyone who waits, and every request from now on, with `error`."""
        self.offline = error
        self.wake()

    def _advance(self) -> bool:
        """Move the high watermark as far as the disk and the other replicas allow.

        Returns whether it moved. Asks for a sync when one is due.
        """
        if self._holds_commits:
            return False
        log = self.log
        end, flushed = log.log_end_offset, log.flushed_offset
        due = end - flushed >= self._flush_every
        if due:
            self._group_commit.request(self)
        target = self.replication.committed(flushed if due else end)
        if target <= log.high_watermark:
            return False
        log.advance_high_watermark(target)
        return True

    def flush_if_older(self, now_ms: int) -> None:
        """Sync unsynced records if the last sync is flush.ms ago, or a segment was closed.

        The latter keeps recovery short where nothing else asks for a sync (as in Apache Kafka).
        """
        log = self.log
        if self.offline or self._holds_commits or log.flushed_offset == log.log_end_offset:
            return
        if log.has_unflushed_segments or now_ms - log.last_flush_ms >= log.config.flush_ms:
            self._group_commit.request(self)

    # --- reading --------------------------------------------------------------------------------------------

    def readable_end(self, *, read_committed: bool) -> int:
        """The offset before which a consumer may read."""
        return self.log.last_stable_offset if read_committed else self.log.high_watermark

    def require_leader_epoch(self, epoch: int) -> None:
        """Refuse a client that follows another leader epoch (KIP-320).

        -1 is a client that does not know the epoch.

        Raises:
            KafkaError: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH, or KAFKA_STORAGE_ERROR.
        """
        self.require_online()
        self.replication.require_leader()
        if epoch in (-1, self.leader_epoch):
            return
        if epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # As long as this leader has written nothing, its epoch begins where the log ends: a consumer that got the
    # epoch with an offset must find it again (Partition.makeLeader assigns it).

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch not above `epoch`, and where it ended; (-1, -1) if unknown."""
        log, latest = self.log, self.log.leader_epochs.latest_epoch
        if latest < self.leader_epoch and epoch <= self.leader_epoch and epoch != -1:
            if epoch == self.leader_epoch or latest < 0:
                return epoch, log.log_end_offset
            if epoch >= latest:
                return latest, log.log_end_offset
        return log.end_offset_for_epoch(epoch)

    @property
    def earliest_epoch(self) -> int:
        """The leader epoch of the first record; -1 if unknown."""
        log = self.log
        if log.log_start_offset == log.log_end_offset:
            return max(log.leader_epochs.latest_epoch, self.leader_epoch)
        return log.leader_epochs.earliest_epoch(log.log_start_offset)

    def delete_records(self, offset: int) -> int:
        """Move the log start offset up to `offset` (-1: the high watermark); return the new one.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        self.require_online()
        self.replication.require_leader()
        log = self.log
        target = log.high_watermark if offset == -1 else offset
        if not 0 <= target <= log.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"The requested offset {target} is not within 0 and the high watermark {log.high_watermark}.",
            )
        if target > log.log_start_offset:
            log.advance_log_start_offset(target)
            self.wake()
        return log.log_start_offset

    def require_online(self) -> None:
        """Raise KafkaError if no request is served any more."""
        if self.offline:
            topic, partition = self.topic_partition
            raise KafkaError(self.offline, f"{topic}-{partition} is not served any more.")
