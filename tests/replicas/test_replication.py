"""Followers fetch what their leader has.

Records are committed when all in-sync replicas have them.
"""

from __future__ import annotations

import asyncio
import errno
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkapy.configs.config import BrokerConfig
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kafkapy.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkapy.protocol.special_timestamps import EARLIEST, LATEST
from kafkapy.protocol.types import ApiKey, TopicPartition
from kafkapy.replicas.cluster_replication import ReplicationSettings
from kafkapy.replicas.fetcher import FetchSettings, whole_batches
from kafkapy.storage.log.index_repair import IndexRepair
from tests.calls import calls_of
from tests.replicas.cluster_rig import TP, Node, Rig, id_of
from tests.replicas.held_files import until
from tests.storage.log_harness import Fault, batch, fill

BOTH = frozenset((1, 2))


async def test_a_follower_has_the_same_bytes_as_its_leader(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    for number in range(5):
        assert (await leader.produce(b"%d" % number, b"more")).error_code == 0
    await rig.caught_up(2)
    assert rig[2].content == leader.content
    assert rig[2].offsets == leader.offsets == (0, 10, 10)


async def test_acks_all_waits_for_the_followers_and_acks_1_does_not(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    rig.wire.cut.add(BOTH)
    waiting = asyncio.ensure_future(leader.produce(b"all"))
    await until(lambda: leader.offsets[2] == 1)
    assert (await leader.produce(b"one", acks=1)).base_offset == 1
    assert (waiting.done(), leader.offsets) == (False, (0, 0, 2))
    rig.wire.cut.clear()
    assert (await waiting).base_offset == 0
    assert leader.offsets == (0, 2, 2)


async def test_a_record_is_committed_when_it_is_on_the_disk_of_the_follower(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path, durability="fsync"))
    leader = await rig.lead()
    assert (await leader.produce(b"first")).error_code == 0
    rig[2].files.hold()
    waiting = asyncio.ensure_future(leader.produce(b"second"))
    await until(lambda: rig[2].files.waiting > 0 and leader.partition.log.flushed_offset == 2)
    assert (rig[2].offsets[2], waiting.done(), leader.offsets) == (2, False, (0, 1, 2))
    rig[2].files.let_go()
    assert (await waiting).error_code == 0
    assert rig[2].partition.log.flushed_offset == 2


async def test_acks_1_waits_for_the_disk_of_the_leader(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path, durability="fsync"))
    leader = await rig.lead()
    rig.wire.cut.add(BOTH)
    leader.files.hold()
    waiting = asyncio.ensure_future(leader.produce(b"one", acks=1))
    await until(lambda: leader.files.waiting > 0)
    assert not waiting.done()
    leader.files.let_go()
    assert (await waiting).error_code == 0
    assert leader.offsets == (0, 0, 1)


async def test_a_slow_disk_of_a_follower_does_not_stop_its_other_partitions(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    other = TopicPartition("other", 0)
    rigs.append(rig := Rig(tmp_path, durability="fsync"))
    leader = await rig.lead()
    rig.controller.create((1, 2), key=other, configs={})
    await rig.controller.elect(1, key=other)
    assert (await leader.produce(b"first")).error_code == 0
    rig[2].files.hold(str(rig[2].storage.path))
    slow = asyncio.ensure_future(leader.produce(b"slow", timeout_ms=60_000))
    for _ in range(3):
        assert (await leader.produce(b"fast", key=other)).error_code == 0
    assert not slow.done()
    rig[2].files.let_go()
    assert (await slow).error_code == 0


async def test_what_waits_for_a_leader_ends_when_another_one_leads(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    rig.wire.cut.add(BOTH)
    waiting = asyncio.ensure_future(leader.produce(b"lost", timeout_ms=60_000))
    await asyncio.sleep(0)
    await rig.controller.elect(2, (2,))
    answer = await asyncio.wait_for(waiting, 1)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_a_leader_in_a_new_epoch_still_answers_what_waited(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    rig.wire.cut.add(BOTH)
    waiting = asyncio.ensure_future(leader.produce(b"kept"))
    await asyncio.sleep(0)
    await rig.controller.elect(1)
    rig.wire.cut.clear()
    assert (await waiting).error_code == 0
    assert leader.offsets == (0, 1, 1)


async def test_records_replaced_while_another_broker_led_are_not_acknowledged(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    partition, term = leader.partition, leader.partition.term
    rig.wire.cut.add(BOTH)
    end = leader.write(b"lost")
    await rig.controller.elect(2, (2,))
    rig[2].write(b"instead")
    rig.wire.cut.clear()
    await rig.caught_up(1)
    await rig.controller.elect(1, (1,))
    with pytest.raises(Exception, match="NOT_LEADER_OR_FOLLOWER"):
        partition.is_acknowledged(end, 1, term)


@pytest.mark.parametrize(
    ("epoch", "error"), [(0, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
)
async def test_nobody_can_pretend_to_be_a_follower(
    tmp_path: Path, rigs: list[Rig], epoch: int, error: ErrorCode
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    rig.wire.cut.add(BOTH)
    leader.write(b"uncommitted")
    data = await fetch(leader, 9, 1, leader_epoch=epoch)
    assert (data.error_code, leader.offsets) == (error, (0, 0, 1))


async def test_a_follower_that_was_restarted_is_not_taken_for_the_one_before(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    rig.wire.cut.add(BOTH)
    leader.write(b"uncommitted")
    data = await fetch(leader, 2, 1, broker_epoch=rig[2].epoch - 1)
    assert (data.error_code, leader.offsets) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, (0, 0, 1))


@pytest.mark.parametrize("replica", [2, -1])
async def test_a_fetch_that_waits_ends_when_another_broker_leads(
    tmp_path: Path, rigs: list[Rig], replica: int
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    rig.wire.cut.add(BOTH)
    await until(lambda: leader.waiters.watching(leader.partition) == 0)
    waiting = asyncio.ensure_future(fetch(leader, replica, 0, max_wait_ms=60_000))
    await until(lambda: leader.waiters.watching(leader.partition) == 1)
    assert not waiting.done()
    await rig.controller.elect(2)
    assert (await asyncio.wait_for(waiting, 5)).error_code == ErrorCode.FENCED_LEADER_EPOCH


async def fetch(
    leader: Node,
    replica: int,
    offset: int,
    *,
    leader_epoch: int = 0,
    broker_epoch: int = -1,
    max_wait_ms: int = 0,
) -> Any:
    """What a broker gets that fetches TP; -1 is a consumer."""
    wanted = FetchPartition(
        partition=0,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
    )
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=replica, replica_epoch=broker_epoch),
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        topics=[FetchTopic(topic_id=id_of(TP.topic), partitions=[wanted])],
    )
    response = await leader.answer(request, 17)
    return response.responses[0].partitions[0]


async def test_a_partition_whose_log_fails_does_not_stop_the_others(
    tmp_path: Path, rigs: list[Rig], caplog: pytest.LogCaptureFixture
) -> None:
    other = TopicPartition("other", 0)
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    rig.controller.create((1, 2), key=other, configs={})
    await rig.controller.elect(1, key=other)
    fault = Fault("write", errno.ENOSPC, "events-0/00000000000000000000.log")
    rig[2].files.faults.append(fault)
    leader.write(b"not yet")
    assert (await leader.produce(b"at once", key=other)).error_code == 0
    assert rig[2].offsets[2] == 0
    rig[2].files.faults.clear()
    await rig.caught_up(2)
    assert rig[2].content == leader.content
    assert (
        "cannot take its leader's records" not in caplog.text
    )  # the log directory says that its disk is full


async def test_damage_on_the_way_is_fetched_again(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    spoilt = 0

    def spoil(_: int, answer: Any) -> None:
        nonlocal spoilt
        if isinstance(answer, FetchResponse) and spoilt < 2:
            for topic in answer.responses:
                for data in topic.partitions:
                    if isinstance(data.records, memoryview) and data.records:
                        data.records[-1] ^= 1
                        spoilt += 1

    rig.wire.spoil = spoil
    assert (await leader.produce(b"value")).error_code == 0
    assert (spoilt, rig[2].content) == (2, leader.content)


async def test_an_answer_that_is_not_for_the_end_of_the_log_is_ignored(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    follower = rig[2].partition
    added = False

    def add(_: int, answer: Any) -> None:
        nonlocal added
        has_records = isinstance(answer, FetchResponse) and any(
            data.records for topic in answer.responses for data in topic.partitions
        )
        if has_records and not added:
            added = True
            follower.append_as_follower(memoryview(bytearray(leader.content)), now_ms=0)

    rig.wire.spoil = add
    assert (await leader.produce(b"value")).error_code == 0
    assert (added, rig[2].content) == (True, leader.content)


async def test_a_high_watermark_that_comes_while_the_role_changes_is_told_again(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()

    async def elect(answer: Any) -> None:
        if isinstance(answer, FetchResponse) and leader.offsets == (0, 1, 1):
            told = [data.high_watermark for topic in answer.responses for data in topic.partitions]
            if told == [1] and rig.controller.states[TP].leader_epoch == 0:
                await rig.controller.elect(1)

    rig.wire.delay = elect
    assert (await leader.produce(b"a")).error_code == 0
    await until(lambda: rig.controller.states[TP].leader_epoch == 1)
    await rig.caught_up(2)


async def test_a_leader_that_does_not_know_yet_that_it_leads_is_asked_again_soon(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    """Producers wait for its followers, whose usual pause after an error is a second."""
    rigs.append(rig := Rig(tmp_path))
    rig.fetch = rig.fetch._replace(backoff_seconds=3600)
    await rig.lead()
    refused: list[int] = []

    def note(asked: int, answer: Any) -> None:
        if asked == 2 and isinstance(answer, FetchResponse):
            refused.extend(
                data.error_code for topic in answer.responses for data in topic.partitions if data.error_code
            )

    rig.wire.spoil = note
    await rig.controller.elect(2, tell=(1,))
    await until(lambda: len(refused) > 2)
    await rig.controller.tell((2,))
    assert set(refused) <= {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH}
    assert (await rig[2].produce(b"a")).error_code == 0


async def test_a_log_that_is_truncated_by_a_reader_is_fetched_again(
    tmp_path: Path, rigs: list[Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    for value in (b"a", b"b"):
        assert (await leader.produce(value)).error_code == 0
    await rig.caught_up(2)
    rig[2].partition.log.truncate_to(1)
    await rig.caught_up(2)
    assert rig[2].content == leader.content


async def test_a_follower_with_a_damaged_log_leaves_the_isr_until_it_has_all_again(
    tmp_path: Path, rigs: list[Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    for value in (b"a", b"b", b"c"):
        assert (await leader.produce(value)).error_code == 0
    await rig.caught_up(2)
    path = Path(rig[2].partition.log.segments.active.path)

    def damage() -> None:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

    await rig[2].restart(meanwhile=damage)
    rig.register((1, 2))
    await rig.controller.tell((2,))
    proposals = len(rig.controller.asked)
    data = await fetch(rig[2], -1, 1)
    assert data.error_code == ErrorCode.NONE
    if hasattr(data.records, "release"):
        data.records.release()
    await until(lambda: len(rig.controller.asked) == proposals + 2)
    await rig.caught_up(2)
    isrs = [
        [each.broker_id for each in request.topics[0].partitions[0].new_isr_with_epochs]
        for request in rig.controller.asked[-2:]
    ]
    assert isrs == [[1], [1, 2]]
    assert rig[2].content == leader.content


def test_a_batch_that_is_cut_off_is_left_for_the_next_answer() -> None:
    one, two = bytes(batch(b"one")), bytes(batch(b"two"))
    assert bytes(whole_batches(one + two) or b"") == one + two
    for cut in (1, 11, 12, len(two) - 1):
        assert bytes(whole_batches(one + two[:cut]) or b"") == one
    assert whole_batches(one[:-1]) is None
    assert whole_batches(b"") is None
    assert whole_batches(None) is None


async def test_a_follower_goes_on_after_its_leader_has_forgotten_the_session(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"one")).error_code == 0
    leader.fetch_sessions.by_id.clear()
    assert (await leader.produce(b"two")).error_code == 0
    fetches = [request for _, _, request in rig.wire.asked if isinstance(request, FetchRequest)]
    assert sum(request.session_epoch == 0 for request in fetches) == 2


async def test_a_follower_goes_on_after_its_leader_was_not_reachable(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    for number in range(3):
        rig.wire.cut.add(BOTH)
        leader.write(b"%d" % number)
        refused = rig.wire.refused
        await until(lambda: rig.wire.refused > refused)  # noqa: B023  it has ended before the next one
        rig.wire.cut.clear()
        await rig.caught_up(2)
    assert rig[2].content == leader.content


@pytest.mark.parametrize("clean", [True, False])
async def test_a_follower_that_restarts_goes_on_from_its_end(
    tmp_path: Path, rigs: list[Rig], clean: bool
) -> None:
    rigs.append(rig := Rig(tmp_path, durability="fsync"))
    leader = await rig.lead()
    assert (await leader.produce(b"one", b"two")).error_code == 0
    await rig.caught_up(2)
    rig[2].logs.checkpoint_high_watermarks()()
    await rig[2].restart(clean=clean, meanwhile=lambda: leader.write(b"three"))
    rig.register((1, 2))
    await rig.controller.tell((2,))
    assert 0 < rig[2].offsets[1] <= rig[2].offsets[2]
    await rig.caught_up(2)
    assert rig[2].content == leader.content


async def test_a_follower_waits_for_the_indexes_of_its_leader(
    tmp_path: Path, rigs: list[Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    repairs = calls_of(monkeypatch, IndexRepair, "run")
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead(configs={"segment.bytes": "300", "index.interval.bytes": "0"})
    await rig.caught_up(2)

    def fall_behind() -> None:
        for number in range(8):
            leader.write(b"%d" % number)
        for segment in list(leader.partition.log.segments)[:-1]:
            segment.indexes.forget()

    await rig[2].restart(meanwhile=fall_behind)
    rig.register((1, 2))
    await rig.controller.tell((1, 2))
    await rig.caught_up(2)
    assert rig[2].content == leader.content
    assert repairs
    assert threading.current_thread().name not in {call.thread for call in repairs}


@pytest.mark.parametrize("in_sync", [False, True])
async def test_only_a_replica_that_is_not_in_sync_begins_with_nothing_after_its_directory_was_removed(
    tmp_path: Path, rigs: list[Rig], in_sync: bool
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"one", b"two")).error_code == 0
    await rig.caught_up(2)
    directory = rig[2].partition.log.path
    await rig[2].restart(meanwhile=lambda: shutil.rmtree(directory))
    rig.register((1, 2))
    await rig.controller.elect(1, (1, 2) if in_sync else (1,), tell=(1,))
    (answer,) = await rig.controller.tell((2,))
    code = answer.topics[0].partition_errors[0].error_code
    if in_sync:
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        return
    assert code == ErrorCode.NONE
    await rig.caught_up(2)
    assert rig[2].content == leader.content


async def test_the_high_watermark_of_a_follower_is_never_above_its_end(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    rig.wire.cut.add(BOTH)
    await rig.controller.elect(1, (1,))
    for number in range(20):
        leader.write(b"%d" % number * 1000)
    assert leader.offsets == (0, 20, 20)
    rig.fetch = rig.fetch._replace(max_bytes=1)
    seen = []

    def look(_: int, answer: Any) -> None:
        if isinstance(answer, FetchResponse):
            seen.append(rig[2].offsets)

    rig.wire.spoil = look
    rig.wire.cut.clear()
    await rig.caught_up(2)
    assert len(seen) >= 20
    assert all(high <= end for _, high, end in seen)


async def test_a_new_leader_tells_no_end_before_the_one_that_was_told_earlier(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))

    async def end_at(node: int, version: int = 8, timestamp: int = LATEST) -> tuple[int, int]:
        wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topics = [ListOffsetsTopic(name=TP.topic, partitions=[wanted])]
        request = ListOffsetsRequest(replica_id=-1, topics=topics)
        (told,) = (await rig[node].answer(request, version)).topics[0].partitions
        return told.error_code, told.offset

    def withhold(_: int, answer: Any) -> None:
        if isinstance(answer, FetchResponse):
            for data in answer.responses[0].partitions if answer.responses else ():
                data.high_watermark = 0

    rig.wire.spoil = withhold
    leader = await rig.lead()
    assert (await leader.produce(b"a", b"b", b"c")).error_code == 0
    assert await end_at(1) == (ErrorCode.NONE, 3)
    rig.wire.cut.add(BOTH)
    await rig.controller.elect(2, (1, 2))
    assert rig[2].offsets == (0, 0, 3)
    assert await end_at(2) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    assert await end_at(2, version=4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert await end_at(2, timestamp=EARLIEST) == (ErrorCode.NONE, 0)
    rig.wire.spoil = None
    rig.wire.cut.clear()
    await until(lambda: rig[2].offsets[1] == 3)
    assert await end_at(2) == (ErrorCode.NONE, 3)


async def test_a_follower_starts_where_its_leader_does(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"a", b"b", b"c")).error_code == 0
    assert (await leader.delete_records(2)).low_watermark == 2
    assert leader.offsets[0] == rig[2].offsets[0] == 2


async def test_deleting_records_waits_for_the_live_replicas(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"a", b"b", b"c")).error_code == 0
    rig.wire.cut.add(BOTH)
    result = await leader.delete_records(2, timeout_ms=20)
    assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    rig.register((1,))
    assert (await leader.delete_records(2)).low_watermark == 2


async def test_deleting_records_waits_for_the_offset_that_is_asked_for(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    """Not for an earlier request that went further (DelayedDeleteRecords)."""
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"a", b"b", b"c")).error_code == 0
    assert (await leader.delete_records(1)).low_watermark == 1
    rig.wire.cut.add(BOTH)
    result = await leader.delete_records(-1, timeout_ms=20)
    assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 1)
    assert leader.offsets[0] == 3
    result = await leader.delete_records(1, timeout_ms=20)
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 1)
    result = await leader.delete_records(2, timeout_ms=20)
    assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 1)
    rig.wire.cut.clear()
    assert (await leader.delete_records(2)).low_watermark == 3


async def test_a_follower_that_was_away_for_long_begins_where_the_leader_starts(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"old")).error_code == 0
    await rig.caught_up(2)
    rig.wire.cut.add(BOTH)
    await rig.controller.elect(1, (1,))
    rig.register((1,))
    fill(leader.partition.log, 10)
    leader.partition.advance()
    assert (await leader.delete_records(5)).error_code == 0
    rig.register((1, 2))
    rig.wire.cut.clear()
    await rig.caught_up(2)
    assert rig[2].offsets == leader.offsets == (5, 11, 11)
    assert rig[2].content == leader.content


async def test_a_follower_may_begin_within_a_batch(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    rig.wire.cut.add(BOTH)
    await rig.controller.elect(1, (1,))
    rig.register((1,))
    leader.write(b"a", b"b", b"c")
    assert (await leader.delete_records(1)).error_code == 0
    rig.register((1, 2))
    rig.wire.cut.clear()
    await rig.caught_up(2)
    assert rig[2].offsets == leader.offsets == (1, 3, 3)
    assert rig[2].content == leader.content


async def test_a_leader_before_fetch_12_is_asked_where_its_epochs_ended(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    rig.wire.versions = {ApiKey.FETCH: 11}
    leader = await rig.lead()
    assert (await leader.produce(b"a", b"b")).error_code == 0
    await rig.caught_up(2)
    rig.wire.cut.add(BOTH)
    leader.write(b"lost")
    await rig.controller.elect(2, (2,))
    rig[2].write(b"kept", b"kept")
    rig.wire.cut.clear()
    await rig.caught_up(1)
    assert rig[1].content == rig[2].content
    assert rig[1].offsets == (0, 4, 4)


async def test_a_batch_larger_than_the_limits_is_fetched(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    rig.fetch = rig.fetch._replace(max_bytes=100, response_max_bytes=100)
    leader = await rig.lead()
    assert (await leader.produce(b"x" * 10_000)).error_code == 0
    assert rig[2].content == leader.content


async def test_a_leader_without_followers_commits_alone(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path, 1))
    leader = await rig.lead(configs={"min.insync.replicas": "2"})
    assert (await leader.produce(b"a")).error_code == 0
    assert leader.offsets == (0, 1, 1)


async def test_a_follower_refuses_clients_that_want_the_leader(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    await rig.lead()
    assert (await rig[2].produce(b"a")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await rig[2].delete_records(0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_clients_of_the_wrong_broker_are_told_the_right_one(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path, 3))
    rig.controller.create((1, 2), configs={})
    await rig.controller.elect(1)
    await rig.controller.elect(2)
    topic = rig.image.topics[TP.topic]
    rig.change(rig.image.with_topics([replace(topic, partitions=(rig.controller.states[TP],))]))
    for node in (1, 3):
        refused = await rig[node].produce(b"a")
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (2, 1)
        data = await fetch(rig[node], -1, 0)
        assert data.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 1)
    wanted = FetchPartition(partition=0, current_leader_epoch=0, partition_max_bytes=1)
    request = FetchRequest(topics=[FetchTopic(topic_id=id_of(TP.topic), partitions=[wanted])])
    (node_endpoint,) = (await rig[1].answer(request, 16)).node_endpoints
    assert (node_endpoint.node_id, node_endpoint.host, node_endpoint.port) == (2, "host-2", 2)
    assert (await rig[1].answer(request, 15)).node_endpoints == []


@pytest.mark.parametrize(("version", "error"), [(10, ErrorCode.NOT_LEADER_OR_FOLLOWER), (12, ErrorCode.NONE)])
async def test_consumers_read_from_followers_what_is_committed(
    tmp_path: Path, rigs: list[Rig], version: int, error: ErrorCode
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"a")).error_code == 0
    await rig.caught_up(2)
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(topics=[FetchTopic(topic=TP.topic, partitions=[wanted])])
    response = await rig[2].answer(request, version)
    (data,) = response.responses[0].partitions
    assert data.error_code == error
    if not error:
        assert data.records.read() == leader.content
        data.records.release()


async def test_partitions_share_the_fetchers_of_their_leader(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path, 3))
    rig.fetchers = 2
    keys = [TP._replace(topic=f"topic-{number}") for number in range(8)]
    for number, key in enumerate(keys):
        rig.controller.create((1, 2, 3), key=key, configs={})
        await rig.controller.elect(1 + number % 2, key=key)
        rig[1 + number % 2].write(b"a", key=key)
    fetchers = rig[3].fetchers.by_place
    assert sorted(fetchers) == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert sum(map(len, fetchers.values())) == 8
    await until(lambda: all(rig[3].replicas.partition(*key).log.log_end_offset == 1 for key in keys))
    for number, key in enumerate(keys):
        if number % 2:
            await rig.controller.elect(1, key=key)
    assert sorted(fetchers) == [(1, 0), (1, 1)]


async def test_a_leader_is_fetched_from_where_it_listens_now(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"a")).error_code == 0
    (fetcher,) = rig[2].fetchers.by_place.values()
    before = fetcher.peer
    rig.port += 1
    assert (await leader.produce(b"b")).error_code == 0
    await until(lambda: fetcher.peer is not before)
    assert (await leader.produce(b"c")).error_code == 0
    assert before is not None
    assert before.closed  # type: ignore[attr-defined]


def test_settings_are_those_of_the_broker() -> None:
    config = BrokerConfig(
        {
            "num.replica.fetchers": "3",
            "replica.lag.time.max.ms": "5000",
            "replica.fetch.backoff.ms": "250",
            "replica.fetch.min.bytes": "2",
            "replica.fetch.wait.max.ms": "100",
            "replica.fetch.max.bytes": "4096",
            "replica.fetch.response.max.bytes": "8192",
            "replica.socket.timeout.ms": "7000",
        },
        clustered=True,
    )
    settings = ReplicationSettings(config)
    assert (settings.fetchers(), settings.lag_seconds()) == (3, 5.0)
    assert settings.fetch() == (2, 0.1, 4096, 8192, 0.25, 7.0)
    assert ReplicationSettings(BrokerConfig({}, clustered=True)).fetch() == FetchSettings()


async def test_followers_describe_producers_too(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path, 2))
    leader = await rig.lead()
    request = DescribeProducersRequest(topics=[TopicRequest(name=TP.topic, partition_indexes=[0])])
    assert (await leader.produce(b"a", producer=(7, 3), sequence=0)).error_code == ErrorCode.NONE
    await rig.caught_up(2)
    for node in (leader, rig[2]):
        (answer,) = (await node.answer(request, 0)).topics[0].partitions
        assert answer.error_code == ErrorCode.NONE
        (producer,) = answer.active_producers
        assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 3, 0)
