"""Planning micro-batches: each offset is in one of them.

That holds whatever is written, or started again, between them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.protocol.types import TopicPartition
from kafkapy.spark.log_source.spark_options import parse_options
from kafkapy.spark.log_source.stream_plan import Offsets, StreamPlanner, share
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.offline.offline_error import LogSourceError
from tests.log.reading import Transactions, read, rows
from tests.storage.log_harness import TOPIC_ID, TP, Logs, append, batch, fill


def planner(logs: Logs, **given: str) -> StreamPlanner:
    options = {"path": str(logs.root / "data"), "topics": TP.topic, **given}
    return StreamPlanner(parse_options(options, stream=True))


def at(offset: int) -> Offsets:
    return {"events": {"0": offset}}


def offsets(stream: StreamPlanner, start: Offsets, end: Offsets) -> list[int]:
    return [row[0] for row in rows(read(stream.ranges(start, end)))]


def test_a_stream_begins_at_the_start_and_follows(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 5)
    stream = planner(logs)
    assert stream.initial_offsets() == at(0)
    assert stream.latest_offsets() == at(5)
    assert offsets(stream, at(0), at(5)) == [0, 1, 2, 3, 4]
    assert stream.ranges(at(5), at(5)) == []
    fill(logs.log, 3)
    assert stream.latest_offsets() == at(8)
    assert offsets(stream, at(5), at(8)) == [5, 6, 7]


def test_a_stream_may_begin_at_the_end(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 5)
    assert planner(logs, startingOffsets="latest").initial_offsets() == at(5)


def test_a_micro_batch_spans_no_more_offsets_than_it_may(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 10)
    stream = planner(logs, maxOffsetsPerTrigger="4")
    seen = []
    position = stream.initial_offsets()
    while (end := stream.latest_offsets()) != position:
        seen.append(offsets(stream, position, end))
        position = end
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_stream_that_is_started_again_goes_on_where_it_was(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 10)
    stream = planner(logs, maxOffsetsPerTrigger="4")
    assert stream.ranges(at(6), at(6)) == []  # so Spark says where it is
    assert stream.latest_offsets() == at(10)
    assert offsets(stream, at(6), at(10)) == [6, 7, 8, 9]


def test_transactions_are_followed_from_batch_to_batch(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=400))
    logs.log.make_files()
    writer = Transactions(logs.log)
    stream = planner(logs)
    position = stream.initial_offsets()
    seen = []
    for number in range(12):
        writer.write(1, b"a")
        writer.plain(b"b")
        if number % 3 == 2:
            writer.end(1, abort=number % 2 == 1)
        end = stream.latest_offsets()
        seen += offsets(stream, position, end)
        position = end
    everything = [row[0] for row in rows(read(stream.ranges(at(0), position)))]
    assert seen == everything
    assert position == at(logs.log.last_stable_offset)
    assert len(seen) == 12 + 6


def test_a_new_partition_is_read_from_its_start(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 2)
    stream = planner(logs)
    assert stream.initial_offsets() == at(0)
    other = logs.manager.create(TopicPartition("events", 1), TOPIC_ID, LogConfig(), new=True)
    append(other, batch(b"x", b"y"))
    assert stream.latest_offsets() == {"events": {"0": 2, "1": 2}}
    ranges = stream.ranges(at(2), {"events": {"0": 2, "1": 2}})
    assert [(each.topic_partition.partition, each.start, each.end) for each in ranges] == [(1, 0, 2)]


def test_a_new_topic_that_the_pattern_matches_is_read_from_its_start(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 2)
    stream = planner(logs, topics="", subscribePattern="e.*|__consumer_offsets")
    assert stream.initial_offsets() == at(0)
    for topic in ("else", "other", "__consumer_offsets"):
        append(logs.manager.create(TopicPartition(topic, 0), TOPIC_ID, LogConfig(), new=True), batch(b"x"))
    assert stream.latest_offsets() == {"else": {"0": 1}, "events": {"0": 2}}


def test_a_topic_of_the_pattern_that_is_gone_is_an_error_unless_that_is_allowed(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 2)
    position = {"else": {"0": 3}, "events": {"0": 1}}
    chosen = {"topics": "", "subscribePattern": "e.*"}
    strict, lenient = planner(logs, **chosen), planner(logs, failOnDataLoss="false", **chosen)
    assert strict.ranges(position, position) == lenient.ranges(position, position) == []
    with pytest.raises(LogSourceError, match="else-0 is gone; set failOnDataLoss to false"):
        strict.latest_offsets()
    assert lenient.latest_offsets() == at(2)


def test_a_partition_that_is_away_for_a_moment_is_not_read_again(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 2)
    append(logs.manager.create(TopicPartition("events", 1), TOPIC_ID, LogConfig(), new=True), batch(b"x"))
    position = {"events": {"0": 2, "1": 1}}
    stream = planner(logs)
    assert stream.ranges(position, position) == []
    away = logs.path.with_name("moved")
    logs.path.rename(away)
    with pytest.raises(LogSourceError, match="events-0 is gone"):
        stream.latest_offsets()
    away.rename(logs.path)
    assert stream.latest_offsets() == position


def test_records_that_expired_before_they_were_read_are_an_error_unless_that_is_allowed(
    tmp_path: Path,
) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=500))
    fill(logs.log, 20)
    first = sorted(logs.path.glob("*.log"))[:2]
    for path in first:
        path.unlink()
    kept = int(min(logs.path.glob("*.log")).stem)
    with pytest.raises(LogSourceError, match=f"Offsets 0 to {kept - 1} of events-0 are deleted"):
        planner(logs).ranges(at(0), at(20))
    lenient = planner(logs, failOnDataLoss="false")
    assert offsets(lenient, at(0), at(20)) == list(range(kept, 20))


def test_a_topic_that_was_made_anew_is_an_error(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 5)
    with pytest.raises(LogSourceError, match="events-0 ends at offset 5, but the stream read up to 50"):
        planner(logs).ranges(at(0), at(50))
    assert offsets(planner(logs, failOnDataLoss="false"), at(0), at(50)) == [0, 1, 2, 3, 4]


def test_a_partition_that_is_gone_is_an_error_unless_that_is_allowed(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 5)
    end = {"events": {"0": 5, "1": 3}}
    with pytest.raises(LogSourceError, match="events-1 is gone"):
        planner(logs).ranges(at(5), end)
    assert planner(logs, failOnDataLoss="false").ranges(at(5), end) == []


def test_offsets_are_what_json_can_hold(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 5)
    latest = planner(logs).latest_offsets()
    assert json.loads(json.dumps(latest)) == latest


amounts = st.dictionaries(
    st.integers(0, 9).map(lambda number: TopicPartition("t", number)), st.integers(0, 99)
)


@given(amounts, st.integers(1, 300))
def test_a_bound_is_shared_and_leaves_nobody_waiting(amounts: dict[TopicPartition, int], bound: int) -> None:
    starts = dict.fromkeys(amounts, 7)
    ends = {each: 7 + amount for each, amount in amounts.items()}
    shared = share(starts, ends, bound)
    taken = {each: shared[each] - 7 for each in shared}
    assert all(0 <= taken[each] <= amounts[each] for each in amounts)
    assert all(taken[each] for each in amounts if amounts[each])
    busy = sum(1 for amount in amounts.values() if amount)
    assert sum(taken.values()) <= max(bound, busy) + busy
    if sum(amounts.values()) <= bound:
        assert shared == ends


def test_a_stream_that_ends_here_ends_with_what_there_was(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 10)
    stream = planner(logs, maxOffsetsPerTrigger="4")
    stream.end_here()
    fill(logs.log, 5)
    seen = []
    position = stream.initial_offsets()
    while (end := stream.latest_offsets(position)) != position:
        seen.append(offsets(stream, position, end))
        position = end
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert stream.latest_offsets(at(2), bounded=False) == at(10)
    assert stream.latest_offsets(at(12)) == at(12)  # an interrupted batch of an earlier run went further
    assert planner(logs, maxOffsetsPerTrigger="4").latest_offsets(at(2), bounded=False) == at(15)
