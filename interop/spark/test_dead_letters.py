"""Dead letters as a pipeline's batch writes them, and back again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop.conftest import MakeTopic
from kafkapy.pipeline.dead_letters.dead_letters import write_dead_letters
from kafkapy.pipeline.dead_letters.reader import dead_letters
from kafkapy.pipeline.dead_letters.replay import replay_dead_letters
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.format_definition import FormatDefinition
from kafkapy.pipeline.formats import open_format
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State
from kafkapy.pipeline.table_target import TableTarget
from kafkapy.pipeline.topics import Topics
from kafkapy.spark import read_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow


@pytest.fixture
def topics(bootstrap_servers: str) -> Topics:
    return Topics(bootstrap_servers)


def definition_of(topic: str, bootstrap: str, tmp_path: Path) -> PipelineDefinition:
    return PipelineDefinition(
        topic=topic,
        bootstrap=bootstrap,
        table=TableTarget(format="delta", location=str(tmp_path / "table")),
        format=FormatDefinition(kind="json", schema="id BIGINT"),
        dead_letter=f"{topic}.dlq",
    )


def produce(topics: Topics, topic: str, *records: dict[str, Any]) -> None:
    producer = topics.producer(**{"message.max.bytes": 10_000_000})
    for one in records:
        producer.produce(topic, partition=0, **one)
    assert producer.flush(30) == 0


def bad_records(spark: SparkSession, definition: PipelineDefinition) -> DataFrame:
    records = read_topic(spark, definition.topic, bootstrap=definition.bootstrap)
    parsed = open_format(definition, State(definition.table.location)).parse(records)
    return parsed.where("_error IS NOT NULL")


def write_bad_records(spark: SparkSession, definition: PipelineDefinition) -> None:
    incarnation = State(definition.table.location).begin_with("the topic's id")
    write_dead_letters(bad_records(spark, definition), definition, incarnation)


def content(topics: Topics, topic: str) -> list[tuple[Any, ...]]:
    return [(one.key(), one.value(), dict(one.headers() or ())) for one in topics.consume(topic)]


def test_a_dead_letter_is_the_record_byte_for_byte_and_says_why(
    spark: SparkSession, topics: Topics, make_topic: MakeTopic, tmp_path: Path
) -> None:
    definition = definition_of(make_topic(), topics.bootstrap, tmp_path)
    headers = [
        ("trace", b"\xff\x00"),
        ("none", None),
        ("kafkapy.source", b"older-0-3"),
        ("kafkapy.error", b"old"),
    ]
    produce(
        topics,
        definition.topic,
        {"key": b"good", "value": b'{"id": 1}'},
        {"key": b"\x00\xff", "value": b"\xff\xfe bytes", "headers": headers, "timestamp": 1_760_000_000_123},
        {"key": None, "value": b"\0\0\0\0\7{", "timestamp": 1_760_000_000_124},
    )
    write_bad_records(spark, definition)
    table_id = State(definition.table.location).begin().table_id
    assert table_id is not None
    told = {
        "kafkapy.error": b"is not UTF-8",
        "kafkapy.table-id": table_id.encode(),
        "kafkapy.topic-id": b"the topic's id",
        "kafkapy.source": f"{definition.topic}-0-1".encode(),
        "kafkapy.timestamp": b"1760000000123",
        "kafkapy.pipeline": definition.name.encode(),
        "kafkapy.replayed-from": b"older-0-3",
    }
    first, second = content(topics, f"{definition.topic}.dlq")
    assert first == (b"\x00\xff", b"\xff\xfe bytes", {"trace": b"\xff\x00", "none": None, **told})
    assert second[:2] == (None, b"\0\0\0\0\7{")
    assert second[2]["kafkapy.schema-id"] == b"7"


def test_a_batch_that_is_run_again_repeats_dead_letters_that_are_read_once(
    spark: SparkSession, topics: Topics, make_topic: MakeTopic, tmp_path: Path
) -> None:
    definition = definition_of(make_topic(), topics.bootstrap, tmp_path)
    produce(topics, definition.topic, *({"value": b"bad %d" % number} for number in range(50)))
    for _ in range(2):
        write_bad_records(spark, definition)
    assert len(content(topics, f"{definition.topic}.dlq")) == 100
    letters = list(dead_letters(definition, topics))
    assert sorted(one.source.offset for one in letters) == list(range(50))


def test_what_came_in_compressed_goes_out_as_a_dead_letter(
    spark: SparkSession, topics: Topics, make_topic: MakeTopic, tmp_path: Path
) -> None:
    definition = definition_of(make_topic(max_message_bytes="1048588"), topics.bootstrap, tmp_path)
    large = random.Random(1).randbytes(1_000) * 5_000
    producer = topics.producer(**{"message.max.bytes": 10_000_000, "compression.type": "gzip"})
    producer.produce(definition.topic, large)
    assert producer.flush(30) == 0
    write_bad_records(spark, definition)
    ((_, value, _),) = content(topics, f"{definition.topic}.dlq")
    assert value == large


def test_a_dead_letter_that_the_topic_refuses_is_one_line(
    spark: SparkSession, topics: Topics, make_topic: MakeTopic, tmp_path: Path
) -> None:
    definition = definition_of(make_topic(), topics.bootstrap, tmp_path)
    topics.create(f"{definition.topic}.dlq", 1, {"max.message.bytes": "1000"})
    produce(topics, definition.topic, {"value": random.Random(1).randbytes(5_000)})
    with pytest.raises(
        PipelineError, match=r"dead letter is larger than .*\.dlq takes; raise its max.message"
    ):
        write_bad_records(spark, definition)


def test_a_replayed_record_that_fails_again_says_where_it_failed_first(
    spark: SparkSession, topics: Topics, make_topic: MakeTopic, tmp_path: Path
) -> None:
    definition = definition_of(make_topic(), topics.bootstrap, tmp_path)
    produce(topics, definition.topic, {"value": b"bad"})
    write_bad_records(spark, definition)
    assert replay_dead_letters(definition).replayed == 1
    write_bad_records(spark, definition)
    first, second = dead_letters(definition, topics)
    assert (first.source.offset, first.replayed_from) == (0, None)
    assert (second.source.offset, second.replayed_from) == (1, f"{definition.topic}-0-0")
    assert second.headers == []
    assert replay_dead_letters(definition).replayed == 1
    assert replay_dead_letters(definition).replayed == 0
