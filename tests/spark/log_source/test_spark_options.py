"""The options of the source have the names and values of Spark's Kafka source.

Wrong ones are named in one line.
"""

from __future__ import annotations

import pytest

from kafkapy.log.offsets_json import offsets_from, offsets_to
from kafkapy.log.read_options import ReadOptions
from kafkapy.protocol.special_timestamps import EARLIEST, LATEST
from kafkapy.protocol.types import TopicPartition
from kafkapy.spark.log_source.spark_options import parse_options
from kafkapy.storage.offline.offline_error import LogSourceError

PLACE = {"path": "/data", "topics": "orders"}
ORDERS = [TopicPartition("orders", number) for number in range(12)]


def parse(*, stream: bool = False, **given: str) -> ReadOptions:
    return parse_options({**PLACE, **given}, stream=stream)


def test_without_more_than_a_place_everything_committed_is_read_with_headers() -> None:
    options = parse()
    assert (options.paths, options.topics) == (("/data",), ("orders",))
    assert (options.starting.everywhere, options.ending.everywhere) == (EARLIEST, LATEST)
    assert options.read_committed
    assert options.include_headers
    assert options.fail_on_data_loss


def test_lists_have_commas_and_names_any_case() -> None:
    options = parse_options(
        {"PATH": "/a, /b", "Topics": "x,y", "STARTINGOFFSETS": "Latest", "includeheaders": "FALSE"},
        stream=False,
    )
    assert (options.paths, options.topics) == (("/a", "/b"), ("x", "y"))
    assert options.starting.everywhere == LATEST
    assert not options.include_headers


def test_offsets_are_json_by_topic_and_partition() -> None:
    options = parse(startingOffsets='{"orders": {"0": 17, "1": -2}}', endingOffsets='{"orders": {"0": -1}}')
    assert options.starting.offsets == {ORDERS[0]: 17, ORDERS[1]: EARLIEST}
    assert options.ending.offsets == {ORDERS[0]: LATEST}


def test_offsets_go_to_text_and_back() -> None:
    offsets = {ORDERS[10]: 5, ORDERS[2]: 7, TopicPartition("a", 0): 1}
    assert offsets_to(offsets.items()) == {"a": {"0": 1}, "orders": {"2": 7, "10": 5}}
    assert offsets_from(offsets_to(offsets.items())) == offsets


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": " "}, "The option path is missing: the data directory of a broker."),
        ({"topics": ""}, "The option topics is missing: one or more topics, separated by commas."),
        ({"startingOffset": "1"}, "There is no option startingOffset; did you mean startingOffsets?"),
        (
            {"isolation": "committed"},
            "isolation is 'committed': it must be read_committed or read_uncommitted.",
        ),
        ({"includeHeaders": "yes"}, "includeHeaders is 'yes': it must be true or false."),
        ({"startingTimestamp": "today"}, "startingTimestamp is 'today': it must be a number of at least 0."),
        (
            {"startingTimestamp": "1", "startingOffsets": "latest"},
            "startingOffsets and startingTimestamp are both set: leave one out.",
        ),
        (
            {"endingOffsets": '{"orders": {"0": "1"}}'},
            """endingOffsets is '{"orders": {"0": "1"}}': it must be earliest, latest or JSON such as """
            """{"topic": {"0": 17, "1": -2}}.""",
        ),
        ({"subscribe": "orders"}, "topics and subscribe are both set: leave one out."),
        (
            {"topics": "", "subscribePattern": "a("},
            "subscribePattern is 'a(': missing closing ).",
        ),
        (
            {"topics": "", "assign": '{"orders": 1}'},
            """assign is '{"orders": 1}': it must be JSON such as {"topic": [0, 2]}.""",
        ),
        ({"topics": "", "assign": "{}"}, "assign is '{}': it must be JSON such as {\"topic\": [0, 2]}."),
        ({"minPartitions": "0"}, "minPartitions is '0': it must be a number of at least 1."),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger cannot be set: only streams have triggers."),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(LogSourceError) as raised:
        parse_options({**PLACE, **given}, stream=False)
    assert str(raised.value) == message


@pytest.mark.parametrize("text", ["17", "[]", '{"t": 1}', '{"t": {"a": 1}}', '{"t": {"0": -3}}'])
def test_other_json_is_no_offsets(text: str) -> None:
    with pytest.raises(LogSourceError, match="it must be earliest, latest or JSON such as"):
        parse(startingOffsets=text)


def test_topics_are_chosen_as_in_sparks_kafka_source() -> None:
    assert parse(topics="", subscribe="a, b").topics == ("a", "b")
    assert parse(topics="", subscribePattern="ord.*").pattern == "ord.*"
    options = parse(topics="", assign='{"orders": [0, 2], "a": [1]}')
    assert options.topics == ("a", "orders")
    assert options.partitions == frozenset({TopicPartition("a", 1), ORDERS[0], ORDERS[2]})
    assert (parse().min_splits, parse(minPartitions="7").min_splits) == (1, 7)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(LogSourceError, match=r"endingOffsets cannot be set: a stream has no end\."):
        parse(stream=True, endingOffsets="latest")
    assert parse(stream=True, maxOffsetsPerTrigger="5").max_offsets_per_trigger == 5
