"""Fetch sessions: which fetches get one, and which sessions are evicted."""

from __future__ import annotations

import random
from typing import TypeVar

import pytest

from kafkapy.fetch.sessions import EVICTION_MS, LAST_EPOCH, FetchContext, FetchSessionCache
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

T = TypeVar("T")

NAMES, IDS = 12, 13
"""Versions that name topics, and that send their ids."""


def result_of(steps: Steps[T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class Sessions:
    """A cache with a clock by hand."""

    def __init__(self, slots: int, **options: int) -> None:
        self.now_ms = 0
        self.known = {bytes(16 * [1]): "orders"}
        self.cache = FetchSessionCache(
            slots, now_ms=lambda: self.now_ms, wake=lambda _: 0, rng=random.Random(7), **options
        )

    def begin(
        self, partitions: int, session_id: int = 0, epoch: int = 0, version: int = NAMES, replica_id: int = -1
    ) -> FetchContext:
        topic = FetchTopic(
            topic="orders",
            topic_id=bytes(16 * [1]),
            partitions=[FetchPartition(partition=index) for index in range(partitions)],
        )
        request = FetchRequest(
            replica_id=replica_id, session_id=session_id, session_epoch=epoch, topics=[topic]
        )
        return result_of(self.cache.begin(request, version, self.known.get))

    def answer(
        self, context: FetchContext, *, high_watermark: int = 5, error: ErrorCode = ErrorCode.NONE
    ) -> tuple[int, list[int]]:
        """The session id, and the partitions that are answered; `error` is the last one's."""
        results: list[PartitionData | None] = [
            PartitionData(partition_index=target.partition, high_watermark=high_watermark, log_start_offset=0)
            for target in context.targets
        ]
        if results and results[-1] is not None:
            results[-1].error_code = error
        session_id, included = result_of(self.cache.finish(context, results, [0] * len(results)))
        return session_id, [data.partition_index for _, data in included]

    def open(self, partitions: int = 1) -> int:
        return self.answer(self.begin(partitions))[0]


def refused(error: ErrorCode, sessions: Sessions, session_id: int, epoch: int, version: int = NAMES) -> None:
    with pytest.raises(KafkaError) as caught:
        sessions.begin(0, session_id, epoch, version)
    assert caught.value.code is error


def test_a_request_without_session_gets_none() -> None:
    sessions = Sessions(10)
    assert sessions.answer(sessions.begin(2, epoch=-1)) == (0, [0, 1])
    assert len(sessions.cache) == 0


def test_a_partition_is_answered_again_when_its_high_watermark_moves() -> None:
    sessions = Sessions(10)
    session_id = sessions.open(2)
    assert sessions.answer(sessions.begin(0, session_id, 1)) == (session_id, [])
    assert sessions.answer(sessions.begin(0, session_id, 2), high_watermark=6) == (session_id, [0, 1])


def test_the_epoch_after_the_last_is_one() -> None:
    sessions = Sessions(10)
    session_id = sessions.open()
    session = sessions.begin(0, session_id, 1).session
    assert session is not None
    session.epoch = LAST_EPOCH
    sessions.begin(0, session_id, LAST_EPOCH)
    assert sessions.begin(0, session_id, 1).session is session


def test_an_epoch_is_used_up_while_its_request_still_waits() -> None:
    sessions = Sessions(10)
    session_id = sessions.open()
    sessions.begin(0, session_id, 1)
    refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH, sessions, session_id, 1)


def test_names_and_ids_do_not_mix_in_a_session() -> None:
    sessions = Sessions(10)
    session_id = sessions.open()
    refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH, sessions, session_id, 9, IDS)
    refused(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, sessions, session_id, 1, IDS)


NOT_THERE = [
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
]


@pytest.mark.parametrize("error", NOT_THERE)
def test_a_session_holds_some_partitions_that_are_not_there(error: ErrorCode) -> None:
    sessions = Sessions(10)
    session_id, included = sessions.answer(sessions.begin(2), error=error)
    assert session_id
    assert included == [0, 1]
    assert sessions.answer(sessions.begin(3, session_id, 1), error=error)[0] == session_id


@pytest.mark.parametrize("error", NOT_THERE)
def test_a_request_that_names_too_many_that_are_not_there_opens_no_session(
    error: ErrorCode,
) -> None:
    sessions = Sessions(10, max_missing=0)
    assert sessions.answer(sessions.begin(2), error=error) == (0, [0, 1])
    assert len(sessions.cache) == 0


@pytest.mark.parametrize("error", NOT_THERE)
def test_a_session_ends_that_comes_to_hold_too_many_that_are_not_there(
    error: ErrorCode,
) -> None:
    sessions = Sessions(10, max_missing=0)
    session_id = sessions.open()
    assert sessions.answer(sessions.begin(2, session_id, 1), error=error) == (0, [1])
    assert len(sessions.cache) == 0


def test_an_error_of_a_partition_that_is_there_leaves_its_session_open() -> None:
    sessions = Sessions(10)
    session_id = sessions.open()
    answer = sessions.answer(sessions.begin(1, session_id, 1), error=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert answer == (session_id, [0])


def test_all_sessions_hold_so_many_partitions_at_most() -> None:
    sessions = Sessions(10, max_partitions=10)
    first = sessions.open(6)
    assert first
    assert sessions.open(5) == 0
    second = sessions.open(4)
    assert second
    session_id, _ = sessions.answer(sessions.begin(5, second, 1))
    assert session_id == 0
    assert len(sessions.cache) == 1
    assert sessions.open(4) != 0


def test_a_full_request_closes_the_session_it_names() -> None:
    sessions = Sessions(10)
    session_id = sessions.open()
    sessions.begin(1, session_id, 0)
    refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, sessions, session_id, 1)


def test_a_full_cache_opens_no_session_while_all_are_in_use() -> None:
    sessions = Sessions(1)
    first = sessions.open()
    assert sessions.open(100) == 0
    assert sessions.begin(0, first, 1).session is not None


def test_an_unused_session_gives_way() -> None:
    sessions = Sessions(1)
    first = sessions.open()
    sessions.now_ms = EVICTION_MS + 1
    assert sessions.open() > 0
    refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, sessions, first, 1)


def test_a_small_settled_session_gives_way_to_a_larger_one_only() -> None:
    sessions = Sessions(1)
    first = sessions.open(5)
    sessions.now_ms = EVICTION_MS
    sessions.answer(sessions.begin(0, first, 1))
    sessions.now_ms = EVICTION_MS + 1
    assert sessions.open(5) == 0
    assert sessions.open(6) > 0


def test_no_slots_means_no_sessions() -> None:
    assert Sessions(0).open() == 0


def test_the_session_of_a_follower_evicts_that_of_a_consumer_and_not_the_reverse() -> None:
    sessions = Sessions(slots=1)
    consumer, _ = sessions.answer(sessions.begin(10))
    sessions.now_ms = EVICTION_MS + 1
    sessions.begin(0, consumer, 1)  # it is used
    follower, _ = sessions.answer(sessions.begin(1, replica_id=2))
    assert follower > 0
    assert sessions.cache.evictions == 1
    sessions.now_ms *= 2
    sessions.begin(0, follower, 1)
    assert sessions.answer(sessions.begin(50)) == (0, list(range(50)))


def test_a_high_watermark_that_comes_with_a_diverging_epoch_is_told_again() -> None:
    sessions = Sessions(slots=1)
    context = sessions.begin(1)
    (target,) = context.targets
    data = PartitionData(high_watermark=5, log_start_offset=0)
    data.diverging_epoch.epoch = 3
    assert target.has_news(data, 0)
    assert target.has_news(PartitionData(high_watermark=5, log_start_offset=0), 0)
    assert not target.has_news(PartitionData(high_watermark=5, log_start_offset=0), 0)
