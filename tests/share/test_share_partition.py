"""A share partition.

Tested are acquisition, acknowledgement, locks, delivery counts and the start offset.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.share.in_flight import RecordState
from kafkapy.share.share_partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    AcquiredRange,
    BatchSpan,
    ShareLimits,
    SharePartition,
    StateChange,
    StoredBatch,
)


class Partition(SharePartition):
    """One with settings that a test changes, and a clock."""

    def __init__(self, **limits: object) -> None:
        self.limits = ShareLimits(**limits)  # type: ignore[arg-type]
        self.now = 0.0
        super().__init__(lambda: self.limits)
        self.restore(0, [])

    def get(
        self,
        member: str,
        *spans: tuple[int, int],
        most: int = 500,
        exact: bool = False,
        batch_size: int = 500,
    ) -> list[tuple[int, int, int]]:
        """Acquire from these batches, read from where the partition says."""
        ranges = self.acquire(
            member,
            [BatchSpan(*span) for span in spans],
            fetch_offset=self.fetch_offset(),
            max_records=most,
            batch_size=batch_size,
            now=self.now,
            exact=exact,
        )
        self.check()
        return [(each.first, each.last, each.delivery_count) for each in ranges]

    def say(self, member: str, first: int, last: int, *types: int) -> StateChange:
        return self.acknowledge(member, [Acknowledgement(first, last, types)], now=self.now)

    def done(self, member: str, first: int, last: int, *types: int) -> None:
        """Acknowledge, and let it be stored."""
        self.committed(self.say(member, first, last, *types))
        self.check()


def test_records_are_acquired_and_accepted() -> None:
    partition = Partition()
    assert partition.get("a", (0, 4), (5, 9)) == [(0, 9, 1)]
    assert partition.fetch_offset() == partition.next_offset == 10
    change = partition.say("a", 0, 9, ACCEPT)
    assert change.batches == [StoredBatch(0, 9, RecordState.ACKNOWLEDGED, 1)]
    assert partition.start_offset == 0, "it counts when it is stored"
    assert partition.delivery_complete_count == 10
    partition.committed(change)
    partition.check()
    assert (partition.start_offset, partition.records_in_flight) == (10, 0)


def test_the_start_offset_moves_over_what_is_done_with() -> None:
    partition = Partition()
    partition.get("a", (0, 9))
    partition.done("a", 3, 5, ACCEPT)
    assert partition.start_offset == 0
    partition.done("a", 0, 2, ACCEPT, REJECT, GAP)
    assert partition.start_offset == 6
    partition.done("a", 6, 9, RELEASE)
    assert partition.start_offset == partition.fetch_offset() == 6


def test_types_belong_to_their_offsets_although_the_first_are_done_with() -> None:
    partition = Partition()
    partition.get("a", (0, 9))
    partition.done("a", 0, 4, ACCEPT)
    change = partition.say("a", 3, 9, GAP, GAP, ACCEPT, ACCEPT, RELEASE, REJECT, ACCEPT)
    assert change.batches == [
        StoredBatch(5, 6, RecordState.ACKNOWLEDGED, 1),
        StoredBatch(7, 7, RecordState.AVAILABLE, 1),
        StoredBatch(8, 8, RecordState.ARCHIVED, 1),
        StoredBatch(9, 9, RecordState.ACKNOWLEDGED, 1),
    ]


def test_a_batch_stays_whole_unless_the_limit_is_strict() -> None:
    partition = Partition()
    assert partition.get("a", (0, 9), (10, 19), most=5) == [(0, 9, 1)]
    assert partition.get("b", (10, 19), (20, 29), most=5, exact=True) == [(10, 14, 1)]
    assert partition.fetch_offset() == 15
    assert partition.get("c", (10, 19), (20, 29), most=8, exact=True) == [(15, 19, 1), (20, 22, 1)]


def test_new_records_are_divided_at_batches() -> None:
    partition = Partition()
    spans = [(0, 3), (4, 7), (8, 11), (12, 15)]
    assert partition.get("a", *spans, batch_size=6) == [(0, 7, 1), (8, 15, 1)]


def test_released_records_come_again_in_their_batches() -> None:
    partition = Partition()
    partition.get("a", (0, 9), most=1)
    partition.get("a", (10, 19), most=1)
    partition.done("a", 5, 14, RELEASE)
    assert partition.get("b", (0, 9), (10, 19)) == [(5, 9, 2), (10, 14, 2)]


def test_a_lock_ends_and_the_record_is_available() -> None:
    partition = Partition(lock_seconds=10)
    partition.get("a", (0, 1))
    partition.now = 5
    partition.done("a", 1, 1, RENEW)
    assert partition.next_deadline() == 10
    assert partition.expire(9.9) == []
    assert partition.expire(10) == [StoredBatch(0, 0, RecordState.AVAILABLE, 1)]
    assert partition.next_deadline() == 15
    assert partition.get("b", (0, 1)) == [(0, 0, 2)]
    with pytest.raises(KafkaError, match="INVALID_RECORD_STATE"):
        partition.say("a", 0, 0, ACCEPT)
    partition.done("a", 1, 1, ACCEPT)


def test_a_record_is_archived_when_it_was_delivered_too_often() -> None:
    partition = Partition(delivery_count=2, lock_seconds=10)
    partition.get("a", (0, 2))
    partition.done("a", 0, 2, RELEASE)
    partition.get("a", (0, 2))
    assert partition.say("a", 0, 0, RELEASE).batches == [StoredBatch(0, 0, RecordState.ARCHIVED, 2)]
    expired = partition.expire(10)
    assert expired == [StoredBatch(1, 2, RecordState.ARCHIVED, 2)], "the first is still being stored"


def test_what_fails_often_is_delivered_in_smaller_parts_and_alone_at_last() -> None:
    partition = Partition(delivery_count=5)
    sizes = []
    for _ in range(4):
        ranges = partition.get("a", (0, 15))
        sizes.append(sum(last - first + 1 for first, last, _ in ranges))
        for first, last, _ in ranges:
            partition.done("a", first, last, RELEASE)
    assert sizes == [16, 16, 16, 8]
    assert partition.get("a", (0, 15)) == [(0, 0, 5)]
    partition.done("a", 0, 0, ACCEPT)
    assert partition.get("a", (0, 15)) == [(1, 1, 5)]


def test_a_change_that_cannot_be_stored_is_undone() -> None:
    partition = Partition(lock_seconds=10)
    partition.get("a", (0, 3))
    change = partition.say("a", 0, 1, ACCEPT)
    with pytest.raises(KafkaError, match="INVALID_RECORD_STATE"):
        partition.say("a", 1, 1, RELEASE)
    partition.failed(change, 5)
    partition.check()
    change = partition.say("a", 0, 1, ACCEPT)
    assert partition.expire(10) == [StoredBatch(2, 3, RecordState.AVAILABLE, 1)]
    partition.failed(change, 11)
    partition.check()
    assert partition.get("b", (0, 3)) == [(0, 3, 2)], "its lock was over meanwhile"


def test_a_member_that_goes_releases_what_it_has() -> None:
    partition = Partition()
    partition.get("a", (0, 3))
    partition.get("b", (4, 7))
    partition.done("a", 0, 0, ACCEPT)
    partition.committed(partition.release("a"))
    partition.check()
    assert partition.get("c", (0, 7)) == [(1, 3, 2)]


def test_no_more_records_are_in_flight_than_allowed() -> None:
    partition = Partition(records=10)
    assert partition.get("a", (0, 9), (10, 19), most=10) == [(0, 9, 1)]
    assert not partition.may_acquire()
    assert partition.get("b", (10, 19)) == []
    partition.done("a", 4, 5, RELEASE)
    assert partition.may_acquire()
    assert partition.get("b", (0, 9), (10, 19)) == [(4, 5, 2)], "and nothing beyond what is in flight"


def test_compaction_leaves_gaps() -> None:
    partition = Partition()
    assert partition.get("a", (5, 9)) == [(5, 9, 1)]
    assert partition.start_offset == 5
    assert partition.get("a", (15, 19)) == [(15, 19, 1)]
    partition.done("a", 5, 9, ACCEPT)
    assert partition.start_offset == 15
    partition.done("a", 15, 19, RELEASE)
    assert partition.get("b", (20, 24)) == [(20, 24, 1)], "the released ones were compacted away"
    assert partition.start_offset == 20


def test_records_of_aborted_transactions_are_archived() -> None:
    partition = Partition()
    partition.get("a", (0, 4), (5, 9), (10, 14))
    acquired = [AcquiredRange(0, 14, 1)]
    left = partition.archive_aborted(acquired, [BatchSpan(0, 4), BatchSpan(10, 14)])
    partition.check()
    assert left == [AcquiredRange(5, 9, 1)]
    assert partition.start_offset == 5


def test_the_log_start_offset_takes_records_along() -> None:
    partition = Partition()
    partition.get("a", (0, 9))
    change = partition.say("a", 0, 4, ACCEPT)
    assert partition.log_started_at(7)
    assert not partition.log_started_at(7)
    partition.check()
    partition.committed(change)
    partition.check()
    assert (partition.start_offset, partition.next_offset) == (7, 10)
    assert partition.say("a", 0, 6, ACCEPT).batches == [], "what is deleted may be acknowledged"
    partition.done("a", 5, 9, ACCEPT)
    assert partition.log_started_at(20)
    partition.check()
    assert partition.fetch_offset() == 20


def test_the_state_is_restored_with_gaps_for_what_was_only_acquired() -> None:
    partition = Partition()
    stored = [StoredBatch(5, 9, RecordState.ACKNOWLEDGED, 1), StoredBatch(10, 12, RecordState.AVAILABLE, 3)]
    again = Partition()
    again.restore(0, stored)
    again.check()
    assert (again.start_offset, again.next_offset) == (0, 13)
    assert again.get("a", (0, 3), (4, 9), (10, 19), most=3) == [(0, 3, 1)], "the rest of the gap comes later"
    assert again.get("b", (4, 9), (10, 19)) == [(4, 4, 1)]
    assert again.get("b", (10, 19)) == [(10, 10, 4)], "it was delivered often: not all at once"
    partition.restore(3, [StoredBatch(3, 4, RecordState.ARCHIVED, 1)])
    partition.check()
    assert partition.start_offset == 5
    with pytest.raises(ValueError, match="where 3 is next"):
        Partition().restore(3, [StoredBatch(1, 2, RecordState.AVAILABLE, 1)])


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (Acknowledgement(0, 4, [RENEW]), ErrorCode.INVALID_RECORD_STATE),
        (Acknowledgement(3, 12, [ACCEPT]), ErrorCode.INVALID_REQUEST),
        (Acknowledgement(10, 12, [ACCEPT]), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_wrong_acknowledgement_changes_nothing(said: Acknowledgement, error: ErrorCode) -> None:
    partition = Partition(may_renew=False)
    partition.get("a", (0, 9))
    with pytest.raises(KafkaError) as refused:
        partition.acknowledge("a", [Acknowledgement(0, 1, [ACCEPT])._replace(last=-1), said], now=0)
    assert refused.value.code is error
    partition.check()
    with pytest.raises(KafkaError):
        partition.acknowledge("a", [Acknowledgement(0, 3, [ACCEPT]), Acknowledgement(3, 4, [ACCEPT])], now=0)
    with pytest.raises(KafkaError, match="not the owner"):
        partition.say("b", 0, 9, ACCEPT)
    partition.limits = replace(partition.limits, may_renew=True)
    partition.done("a", 0, 9, ACCEPT)
