"""One partition this broker leads: its log, its high watermark, and who waits for it to move.

A record's way in: `append` validates and writes it to the log (page cache); `_advance` decides how far readers may
see. With the records still unsynced and the policy asking for a sync, the partition joins the next group commit,
and the high watermark moves when that has ended. Moving it answers waiting produce requests, oldest first, and
tells waiting fetches how many bytes became readable.

When a sync is due: `flush.messages` unsynced records. With durability=fsync a topic that leaves flush.messages
and flush.ms at their defaults has a sync after every append; setting one of them relaxes that for the topic. With
durability=os the defaults mean what they mean in Apache Kafka: never on the produce path.

This replica is the whole in-sync set, so nothing but the disk stands between append and commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.storage.log_config import LogConfig

if TYPE_CHECKING:
    from kafkapy.group_commit import GroupCommit
    from kafkapy.protocol.types import TopicPartition
    from kafkapy.storage.files import StorageError
    from kafkapy.storage.log import AppendInfo, FlushTicket, PartitionLog
    from kafkapy.storage.validate import AppendOrigin, PreparedBatches

NEVER = 2**63 - 1
"""Kafka's default of flush.messages and flush.ms."""

Committed = Callable[[ErrorCode], None]


class FetchWaiter(Protocol):
    """A fetch that waits for bytes."""

    def more_bytes(self, nbytes: int) -> None:
        """`nbytes` more became readable in a partition it reads."""

    def partition_changed(self) -> None:
        """The partition failed, moved or went away: look again now."""


class Partition:
    """A partition led by this broker."""

    __slots__ = (
        "_awaiting_commit",
        "_fetch_waiters",
        "_flush_every",
        "_group_commit",
        "_sync_by_default",
        "_unannounced",
        "leader_epoch",
        "log",
        "offline",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, log: PartitionLog, *, leader_epoch: int, group_commit: GroupCommit, sync: bool) -> None:
        self.log = log
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id = log.topic_id
        self.leader_epoch = leader_epoch
        self.offline = False
        """The log's disk failed, or the partition was deleted: every request gets KAFKA_STORAGE_ERROR."""
        self._group_commit = group_commit
        self._sync_by_default = sync
        self._awaiting_commit: deque[tuple[int, Committed]] = deque()
        self._fetch_waiters: set[FetchWaiter] = set()
        self._unannounced = 0
        """Bytes appended above the high watermark, not yet told to waiting fetches."""
        self._flush_every = self._flush_policy(log.config)
        # Recovery has synced what it accepted, and no other replica has a say.
        log.advance_high_watermark(log.log_end_offset)

    # --- writing -----------------------------------------------------------------------------------------------

    def append(self, batches: PreparedBatches, *, origin: AppendOrigin, now_ms: int) -> AppendInfo:
        """Append validated batches and start what commits them.

        Raises:
            KafkaError: the batches are refused, or the disk is (KAFKA_STORAGE_ERROR).
        """
        self._require_online()
        info = self.log.append_prepared(batches, leader_epoch=self.leader_epoch, origin=origin, now_ms=now_ms)
        self._unannounced += info.nbytes
        self._advance()
        return info

    def when_committed(self, offset: int, call: Committed) -> None:
        """Call `call` once everything below `offset` is committed (or has failed); at once if it is."""
        if self.log.high_watermark >= offset:
            call(ErrorCode.NONE)
        elif self.offline:
            call(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            self._awaiting_commit.append((offset, call))

    def configure(self, config: LogConfig) -> None:
        """Let changed topic settings take effect at once."""
        self.log.config = config
        self._flush_every = self._flush_policy(config)
        if not self.offline:
            self._advance()

    def _flush_policy(self, config: LogConfig) -> int:
        """How many unsynced records make a sync due."""
        if self._sync_by_default and config.flush_messages == NEVER and config.flush_ms == NEVER:
            return 1
        return config.flush_messages

    # --- committing --------------------------------------------------------------------------------------------

    def flushed(self, ticket: FlushTicket) -> None:
        """The group commit has synced what `ticket` covers."""
        self.log.complete_flush(ticket)
        if not self.offline:
            self._advance()

    def failed(self, error: StorageError) -> None:
        """The disk failed: nothing unsynced can be acknowledged any more. The log directory is offline."""
        self.log.mark_offline(error)
        self.close(ErrorCode.KAFKA_STORAGE_ERROR)

    def close(self, error: ErrorCode) -> None:
        """Answer everyone who waits with `error`; no request is served from now on."""
        self.offline = True
        waiting, self._awaiting_commit = self._awaiting_commit, deque()
        for _, call in waiting:
            call(error)
        self.wake_fetches()

    def _advance(self) -> None:
        """Move the high watermark as far as the disk allows; ask for a sync when one is due."""
        log = self.log
        end, flushed = log.log_end_offset, log.flushed_offset
        due = end - flushed >= self._flush_every
        target = flushed if due else end
        if target > log.high_watermark:
            log.advance_high_watermark(target)
            waiting = self._awaiting_commit
            while waiting and waiting[0][0] <= target:
                waiting.popleft()[1](ErrorCode.NONE)
            nbytes, self._unannounced = self._unannounced, 0
            if self._fetch_waiters:
                for waiter in tuple(self._fetch_waiters):
                    waiter.more_bytes(nbytes)
        if due:
            self._group_commit.request(self)

    def flush_if_older(self, now_ms: int) -> None:
        """Have unsynced records synced when the oldest has waited for flush.ms."""
        log = self.log
        if not self.offline and log.flushed_offset < log.log_end_offset:
            if now_ms - log.last_flush_ms >= log.config.flush_ms:
                self._group_commit.request(self)

    # --- reading -----------------------------------------------------------------------------------------------

    def add_fetch_waiter(self, waiter: FetchWaiter) -> None:
        self._fetch_waiters.add(waiter)

    def remove_fetch_waiter(self, waiter: FetchWaiter) -> None:
        self._fetch_waiters.discard(waiter)

    def wake_fetches(self) -> None:
        """Let every waiting fetch look again."""
        for waiter in tuple(self._fetch_waiters):
            waiter.partition_changed()

    def readable_end(self, *, read_committed: bool) -> int:
        """The offset before which a consumer may read."""
        return self.log.last_stable_offset if read_committed else self.log.high_watermark

    def require_leader_epoch(self, epoch: int) -> None:
        """Refuse a client that follows another leader epoch (KIP-320); -1 is a client that does not know.

        Raises:
            KafkaError: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH, or KAFKA_STORAGE_ERROR.
        """
        self._require_online()
        if epoch in (-1, self.leader_epoch):
            return
        if epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def delete_records(self, offset: int) -> int:
        """Move the log start offset up to `offset` (-1: the high watermark); the new log start offset.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        self._require_online()
        log = self.log
        target = log.high_watermark if offset == -1 else offset
        if not 0 <= target <= log.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"The requested offset {target} is not within 0 and the high watermark {log.high_watermark}.",
            )
        if target > log.log_start_offset:
            log.advance_log_start_offset(target)
            self.wake_fetches()
        return log.log_start_offset

    def _require_online(self) -> None:
        if self.offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self.topic_partition} is offline.")
