"""One partition of this broker: its log and its high watermark.

`append` writes validated batches to the log (in the page cache), and `_advance` moves the high watermark. If
a sync is due, the partition joins the next group commit, and the high watermark moves after it. Requests that
wait (Produce for its acknowledgement, Fetch for bytes) watch the partition in the broker's `Waiters`, and are
woken when the high watermark moves.

A sync is due when `flush.messages` records are unsynced. With durability=fsync, a topic with the defaults of
flush.messages and flush.ms is synced after every append; a topic that sets one of them is synced less often.
With durability=os the defaults mean, as in Apache Kafka, that Produce causes no sync.

The replication (replication.py) decides whether this broker leads the partition, and whether a commit waits
for other replicas. The partition handles the disk.

A record is ready when this broker's durability setting is satisfied. A leader of several replicas answers
acks=1 when the record is ready, and acks=all when it is committed: below the high watermark, and thus ready
on all in-sync replicas. A follower fetches on when what it has is ready, so that the offset it fetches from
is a promise about its disk.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.replicas.replication import ALL_REPLICAS
from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.log.log_config import NEVER, LogConfig

if TYPE_CHECKING:
    import asyncio

    from kafkapy.loop.waiters import Listener, Waiters
    from kafkapy.protocol.types import TopicPartition
    from kafkapy.replicas.replication import Replication
    from kafkapy.replicas.topic_traffic import TopicTraffic
    from kafkapy.storage.log.flush import FlushTicket
    from kafkapy.storage.log.partition_log import AppendInfo, PartitionLog
    from kafkapy.storage.log.validate import AppendOrigin, PreparedBatches
    from kafkapy.storage.log.verification import Verification


class FlushRequests(Protocol):
    """The interface of the group commit (group_commit.py) for partitions."""

    def request(self, partition: Partition) -> None:
        """Flush `partition`, and call `partition.flushed()` then."""


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
        "term",
        "topic_id",
        "topic_partition",
        "traffic",
    )

    def __init__(
        self,
        log: PartitionLog,
        *,
        replication: Replication,
        group_commit: FlushRequests,
        waiters: Waiters,
        sync: bool,
        traffic: TopicTraffic | None = None,
    ) -> None:
        self.log = log
        self.traffic = traffic
        """The numbers of the topic; None while metrics are off."""
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id = log.topic_id
        self.replication = replication
        """The current replication; `replicate` changes it."""
        self.offline: ErrorCode = ErrorCode.NONE
        """The error of every request after the disk failed, the topic was deleted, or the broker stops."""
        self.changes = 0
        """The number of wakes. While it stays the same, readers have nothing new."""
        self.term = 0
        """How often this broker has ceased to lead: later it may have other records at the same offsets."""
        self._holds_commits = False
        """Whether commits wait because a copy replaces the log, and is not flushed yet."""
        self._group_commit = group_commit
        self._waiters = waiters
        self._sync_by_default = sync
        self._flush_every = self._flush_policy(log.config)
        log.adopt_damage_policy(replication.damage_policy)
        log.truncated = self._truncated
        # Recovery has synced what it accepted.
        log.advance_high_watermark(replication.committed(log.log_end_offset))

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the current leader."""
        return self.replication.leader_epoch

    def replicate(self, replication: Replication) -> None:
        """Continue with another leader or leader epoch.

        Requests that wait for this broker as the leader are answered if it is not that any more.

        Raises:
            KafkaError: the log cannot adopt the replication's damage policy.
        """
        self.term += self.replication.leads and not replication.leads
        self.replication = replication
        try:
            self.log.adopt_damage_policy(replication.damage_policy)
        finally:
            if not self.offline:
                self._advance()
            self.wake()

    def advance(self) -> None:
        """Move the high watermark if the other replicas allow it now."""
        if not self.offline and self._advance():
            self.wake()

    def learn(self, log_start_offset: int) -> bool:
        """Let a follower's log start where its leader's does; return whether it moved.

        It moves at most to the high watermark: the records below that are committed.
        """
        log = self.log
        moved = log.advance_log_start_offset(min(log_start_offset, log.high_watermark))
        if moved:
            self.wake()
        return moved

    # --- writing --------------------------------------------------------------------------------------------

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, begins_at_zero: bool, now_ms: int
    ) -> Verification | None:
        """Begin to verify that a producer may begin a transaction (storage/log/verification.py).

        None if it has an open transaction already.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, or the partition is offline.
        """
        self.require_online()
        self.replication.require_leader()
        return self.log.producers.begin_verification(
            producer_id, epoch, sequence, begins_at_zero=begins_at_zero, now_ms=now_ms
        )

    def append(
        self,
        batches: PreparedBatches,
        *,
        origin: AppendOrigin,
        now_ms: int,
        acks: int = ALL_REPLICAS,
        verification: Verification | None = None,
    ) -> AppendInfo:
        """Append validated batches, and commit them or request the flush that they need.

        A batch that begins a transaction needs a `verification`.

        Raises:
            KafkaError: the batches are refused; NOT_LEADER_OR_FOLLOWER; NOT_ENOUGH_REPLICAS, `acks` is
                ALL_REPLICAS and too few are in sync; OUT_OF_ORDER_SEQUENCE_NUMBER, an earlier batch was
                refused so; or KAFKA_STORAGE_ERROR, the disk failed.
        """
        if self.offline:
            self.require_online()
        replication = self.replication
        replication.admit(acks)
        try:
            info = self.log.append_prepared(
                batches,
                leader_epoch=replication.leader_epoch,
                origin=origin,
                now_ms=now_ms,
                verification=verification,
            )
        except KafkaError as error:
            if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and replication.may_miss_batches:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message) from None
            raise
        traffic = self.traffic
        if traffic is not None:
            traffic.produces += 1
            if not info.duplicate:
                traffic.messages_in += info.last_offset - info.first_offset + 1
                traffic.bytes_in += info.nbytes
        if self._advance() or replication.has_others:
            self.wake()
        return info

    def append_as_follower(self, records: memoryview, *, now_ms: int) -> AppendInfo:
        """Append batches as the leader has them, and request the flush that they need.

        Raises:
            KafkaError: the batches are damaged, or do not begin where the log ends; KAFKA_STORAGE_ERROR.
        """
        self.require_online()
        info = self.log.append_as_follower(records, now_ms=now_ms)
        if self.traffic is not None:
            self.traffic.replication_bytes_in += info.nbytes
        if self._advance():
            self.wake()
        return info

    def truncate_to(self, offset: int) -> None:
        """Remove what a follower has from `offset` on, because its leader has other records there.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; or the partition is offline.
        """
        self.require_online()
        self.log.truncate_to(offset)
        self.wake()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records of a follower, whose leader has none of them.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; or the partition is offline.
        """
        self.require_online()
        self.log.truncate_fully_and_start_at(offset)
        self.wake()

    def is_committed(self, offset: int) -> bool:
        """Whether everything below `offset` is committed.

        Raises:
            KafkaError: the partition is offline, or another broker leads it, so this broker will not commit
                it.
        """
        if self.log.high_watermark >= offset:
            return True
        self.require_online()
        self.replication.require_leader()
        return False

    def is_acknowledged(self, offset: int, acks: int, term: int) -> bool:
        """Whether a producer may be told that this broker has its records below `offset`.

        `term` is that of the append.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, the records may be replaced by others;
                NOT_ENOUGH_REPLICAS_AFTER_APPEND; or the partition is offline.
        """
        if self.term != term:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.log.high_watermark >= offset:
            if acks == ALL_REPLICAS:
                self.replication.require_in_sync()
            return True
        if self.offline:
            self.require_online()
        return acks != ALL_REPLICAS and self.ready_offset >= offset

    def watch_commit(self, offset: int, seconds: float) -> asyncio.Future[bool]:
        """A future: True once everything below `offset` is committed, False after `seconds`.

        It raises KafkaError if the partition goes offline first, or this broker ceases to lead it.
        """
        term = self.term

        def committed() -> bool:
            if self.term != term:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return self.is_committed(offset)

        return self._waiters.wait((self,), seconds, committed)

    def watch_ready(self, seconds: float) -> asyncio.Future[bool]:
        """A future: True once everything in the log is ready, False after `seconds`.

        It raises KafkaError if the partition goes offline first.
        """
        return self._waiters.wait((self,), seconds, self.is_ready)

    def is_ready(self) -> bool:
        """Whether everything in the log is ready.

        Raises:
            KafkaError: the partition is offline.
        """
        self.require_online()
        return self.ready_offset == self.log.log_end_offset

    def configure(self, config: LogConfig) -> None:
        """Apply changed topic settings at once."""
        if not config.is_compacted:
            with contextlib.suppress(StorageError):  # the log directory is offline then
                self.log.stop_cleaning()
        self.log.config = config
        self._flush_every = self._flush_policy(config)
        if not self.offline:
            self._advance()
        self.wake()

    def _flush_policy(self, config: LogConfig) -> int:
        """The number of unsynced records at which a sync is due."""
        if self._sync_by_default and config.flush_messages == NEVER and config.flush_ms == NEVER:
            return 1
        return config.flush_messages

    # --- committing -----------------------------------------------------------------------------------------

    def prepare_flush(self) -> FlushTicket | None:
        """A ticket of the unsynced files, for the group commit.

        None if everything is synced, the partition is offline, or commits wait for a copy of the log.

        Raises:
            KafkaError: the log is damaged, the disk failed, or a file cannot be opened now.
        """
        if self.offline or self._holds_commits:
            return None
        return self.log.prepare_flush()

    def flushed(self, log: PartitionLog, ticket: FlushTicket) -> bool:
        """Complete the flush of `ticket`, which the group commit has synced.

        `log` may have been replaced since. Returns whether somebody may have waited for this. If so, the
        caller calls `wake`, after it has started the next flush.
        """
        log.complete_flush(ticket)
        return not self.offline and (self._advance() or self.replication.has_others)

    def wake(self) -> None:
        """Wake the operations that wait for this partition."""
        self.changes += 1
        self._waiters.wake(self)

    def listen(self, listener: Listener) -> None:
        """Tell the listener of every change, until `forget`."""
        self._waiters.listen(self, listener)

    def forget(self, listener: Listener) -> None:
        """Tell the listener of changes no more."""
        self._waiters.forget(listener, (self,))

    def _truncated(self) -> None:
        """Wake the waiting operations, but not within the read that has met damage."""
        self._waiters.loop.call_soon(self.wake)

    def replace_log(self, log: PartitionLog) -> None:
        """Replace the log by a copy in another log directory, which holds the same records.

        Records appended from now on are not committed before `resume_commits`. See
        storage/directories/future_log.py.
        """
        log.adopt_damage_policy(self.replication.damage_policy)
        log.truncated, self.log.truncated = self._truncated, None
        self.log = log
        self._holds_commits = True
        self.wake()

    def resume_commits(self) -> None:
        """Commit again: the new log is on disk, and a restart would find it."""
        self._holds_commits = False
        if not self.offline and self._advance():
            self.wake()

    def close(self, error: ErrorCode) -> None:
        """Answer the waiting requests, and all later ones, with `error`."""
        self.offline = error
        self.wake()

    @property
    def ready_offset(self) -> int:
        """The offset below which this broker's durability setting is satisfied."""
        log = self.log
        if self._holds_commits:
            return log.high_watermark
        end, flushed = log.log_end_offset, log.flushed_offset
        return flushed if end - flushed >= self._flush_every else end

    def _advance(self) -> bool:
        """Move the high watermark as far as the disk and the other replicas allow.

        Returns whether it moved. Requests a sync if one is due.
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
        """Sync unsynced records if the last sync is flush.ms ago, or a closed segment is unsynced.

        As in Apache Kafka, the latter keeps recovery short if nothing else requests a sync.
        """
        log = self.log
        if self.offline or self._holds_commits or log.flushed_offset == log.log_end_offset:
            return
        if log.has_unflushed_segments or now_ms - log.last_flush_ms >= log.config.flush_ms:
            self._group_commit.request(self)

    # --- reading --------------------------------------------------------------------------------------------

    def readable_end(self, *, read_committed: bool) -> int:
        """The offset up to which a consumer may read, exclusive."""
        return self.log.last_stable_offset if read_committed else self.log.high_watermark

    def require_leader_epoch(self, epoch: int, *, of_leader: bool = True) -> None:
        """Refuse a client that knows another leader epoch (KIP-320).

        -1 stands for a client that knows none. Without `of_leader` the client may be served by a follower.

        Raises:
            KafkaError: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH; or the partition is offline, or another
                broker leads it.
        """
        self.require_online()
        ours = self.replication.leader_epoch
        if epoch not in (-1, ours):
            known = ErrorCode.FENCED_LEADER_EPOCH if epoch < ours else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(known)
        if of_leader:
            self.replication.require_leader()

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch not above `epoch`, and its end offset; (-1, -1) if unknown.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, it is unknown and another broker may lead.
        """
        # Until this leader appends, its epoch begins at the log end offset: a consumer that got the epoch
        # with an offset must find it again (Partition.makeLeader assigns it).
        log, latest = self.log, self.log.leader_epochs.latest_epoch
        if (
            latest < self.leader_epoch
            and epoch <= self.leader_epoch
            and epoch != -1
            and self.replication.leads
        ):
            if epoch == self.leader_epoch or latest < 0:
                return epoch, log.log_end_offset
            if epoch >= latest:
                return latest, log.log_end_offset
        found = log.end_offset_for_epoch(epoch)
        if found[0] < 0 and self.replication.may_be_deposed:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return found

    @property
    def has_committed_epoch_start(self) -> bool:
        """Whether everything before the leader's epoch is known to be committed (KIP-207)."""
        return self.log.high_watermark >= self.replication.epoch_start_offset

    @property
    def low_watermark(self) -> int:
        """The offset below which no live replica has records."""
        return self.replication.low_watermark(self.log.log_start_offset)

    def watch_low_watermark(self, offset: int, seconds: float) -> asyncio.Future[bool]:
        """A future: True once no live replica has records below `offset`, False after `seconds`.

        It raises KafkaError if the partition goes offline first, or this broker ceases to lead it.
        """
        return self._waiters.wait((self,), seconds, lambda: self._is_deleted(offset))

    def _is_deleted(self, offset: int) -> bool:
        self.require_online()
        self.replication.require_leader()
        return self.low_watermark >= offset

    @property
    def earliest_epoch(self) -> int:
        """The leader epoch of the first record; -1 if unknown."""
        log = self.log
        if log.log_start_offset == log.log_end_offset:
            return max(log.leader_epochs.latest_epoch, self.leader_epoch)
        return log.leader_epochs.earliest_epoch(log.log_start_offset)

    def delete_records(self, offset: int) -> int:
        """Move the log start offset up to `offset` (-1: the high watermark).

        Returns that offset, below which all live replicas are to delete their records.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE if `offset` is negative or above the high watermark.
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
        return target

    def require_online(self) -> None:
        """Raise KafkaError if the partition is offline."""
        if self.offline:
            topic, partition = self.topic_partition
            raise KafkaError(self.offline, f"{topic}-{partition} is not served any more.")
