"""Reset on real tables.

What is read again is there once, what was lost is named, and checkpoints are Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from interop.conftest import MakeTopic
from kafkapy.pipeline import Pipeline, PipelineError, checkpoint, tables
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.reset import plan_reset, reset
from kafkapy.pipeline.state import State
from kafkapy.pipeline.table_target import TABLE_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

PARTITIONS, RECORDS = 2, 200  # of each partition


@pytest.fixture
def topic(make_topic: MakeTopic, bootstrap_servers: str) -> str:
    topic = make_topic(partitions=PARTITIONS)
    produce(bootstrap_servers, topic, range(RECORDS))
    return topic


def produce(bootstrap: str, topic: str, numbers: range) -> None:
    """Send each number once to each partition.

    Its timestamp is as many seconds and a millisecond, because 0 means now.
    """
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        for partition in range(PARTITIONS):
            producer.produce(
                topic, f"value {number}", f"key {number}", partition=partition, timestamp=number * 1000 + 1
            )
    assert producer.flush(30) == 0


def delete_records(bootstrap: str, topic: str, before: Mapping[int, int]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    places = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    for future in admin.delete_records(places).values():
        future.result(30)


def pipeline_to(kind: str, topic: str, bootstrap: str, folder: Path) -> PipelineDefinition:
    values = {"topic": topic, "bootstrap": bootstrap, "table": f"{kind}:{folder / kind}"}
    return PipelineDefinition.from_mapping(values)


def run(definition: PipelineDefinition, spark: SparkSession) -> Any:
    return Pipeline.of(definition).run(once=True, spark=spark)


def offsets(definition: PipelineDefinition, spark: SparkSession) -> list[tuple[int, int]]:
    """(partition, offset) of each row."""
    rows = tables.open_table(spark, definition.table).read().select("_partition", "_offset").collect()
    return sorted((row[0], row[1]) for row in rows)


def both(numbers: range) -> list[tuple[int, int]]:
    return [(partition, number) for partition in range(PARTITIONS) for number in numbers]


@pytest.mark.parametrize("kind", TABLE_FORMATS)
def test_what_is_read_again_is_there_once(
    kind: str, topic: str, bootstrap_servers: str, spark: SparkSession, tmp_path: Path
) -> None:
    definition = pipeline_to(kind, topic, bootstrap_servers, tmp_path)
    assert run(definition, spark).rows == PARTITIONS * RECORDS
    plan = plan_reset(definition, "1970-01-01T00:02:30Z")
    assert (plan.after, plan.again) == ({0: 150, 1: 150}, 100)
    reset(plan, spark=spark)
    assert offsets(definition, spark) == both(range(150))
    produce(bootstrap_servers, topic, range(RECORDS, RECORDS + 50))
    assert run(definition, spark).rows == 200
    assert offsets(definition, spark) == both(range(RECORDS + 50))
    state = State(definition.table.location)
    assert checkpoint.initial_offsets(state) == {0: 150, 1: 150}
    assert checkpoint.committed_offsets(state) == checkpoint.planned_offsets(state) == {0: 250, 1: 250}
    assert checkpoint.committed_batch(state) == 0


def test_a_reset_that_was_killed_before_trimming_is_finished_by_the_next_run(
    topic: str, bootstrap_servers: str, spark: SparkSession, tmp_path: Path
) -> None:
    definition = pipeline_to("parquet", topic, bootstrap_servers, tmp_path)
    run(definition, spark)
    State(definition.table.location).begin_anew({0: 20, 1: 200}, trim=True)
    assert run(definition, spark).rows == 180
    assert offsets(definition, spark) == both(range(RECORDS))


def test_rows_that_were_written_but_not_committed_are_not_there_twice(
    topic: str, bootstrap_servers: str, spark: SparkSession, tmp_path: Path
) -> None:
    """A driver is killed between the table's commit and Spark's.

    It leaves a batch that only the table knows.
    """
    definition = pipeline_to("parquet", topic, bootstrap_servers, tmp_path)
    run(definition, spark)
    state = State(definition.table.location)
    produce(bootstrap_servers, topic, range(RECORDS, RECORDS + 10))
    run(definition, spark)
    for name in ("1", ".1.crc"):
        Path(state.checkpoint, "commits", name).unlink(missing_ok=True)
    assert checkpoint.position(state) == {0: RECORDS, 1: RECORDS}
    reset(plan_reset(definition, "available"), spark=spark)
    assert offsets(definition, spark) == both(range(RECORDS))
    run(definition, spark)
    assert offsets(definition, spark) == both(range(RECORDS + 10))


def test_expired_records_are_named_and_available_goes_on_without_them(
    topic: str, bootstrap_servers: str, spark: SparkSession, tmp_path: Path
) -> None:
    definition = pipeline_to("parquet", topic, bootstrap_servers, tmp_path)
    run(definition, spark)
    produce(bootstrap_servers, topic, range(RECORDS, RECORDS + 50))
    delete_records(bootstrap_servers, topic, {0: RECORDS + 20})
    with pytest.raises(PipelineError, match=r"partition 0 200 to 219 \(20 offsets\).* --to available"):
        run(definition, spark)
    plan = plan_reset(definition, "available")
    assert (plan.after, plan.again, plan.skipped) == ({0: RECORDS + 20, 1: RECORDS}, 0, 20)
    reset(plan, spark=spark)
    run(definition, spark)
    lost = {(0, offset) for offset in range(RECORDS, RECORDS + 20)}
    assert offsets(definition, spark) == sorted(set(both(range(RECORDS + 50))) - lost)


@pytest.mark.parametrize("records", [30, RECORDS + 50])
def test_a_topic_created_anew_is_noticed_before_spark_reads_it(
    records: int, topic: str, bootstrap_servers: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Also when it has outgrown the position: offsets alone would not tell."""
    definition = pipeline_to("parquet", topic, bootstrap_servers, tmp_path)
    run(definition, spark)
    state = State(definition.table.location)
    recreated = pipeline_to("parquet", topic, bootstrap_servers, tmp_path)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.delete_topics([topic])[topic].result(30)
    recreate(admin, topic)
    produce(bootstrap_servers, topic, range(records))
    for use in (run, audit):
        with pytest.raises(PipelineError, match=r"the topic .* was recreated .* --to earliest"):
            use(recreated, spark)
    reset(plan_reset(recreated, "earliest"), spark=spark)
    run(recreated, spark)
    assert offsets(recreated, spark) == both(range(records))
    assert audit(recreated, spark, deep=True).ok
    assert checkpoint.initial_offsets(state) == {0: 0, 1: 0}


def recreate(admin: AdminClient, topic: str) -> None:
    """Apache Kafka deletes a topic a moment after it has answered."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewTopic

    from interop.support.waiting import wait_until

    def created() -> bool:
        settings = {"retention.ms": "-1"}
        admin.create_topics([NewTopic(topic, PARTITIONS, config=settings)])[topic].result(30)
        return True

    wait_until(created, ignoring=KafkaException)
    wait_until(lambda: topic in admin.list_topics(timeout=30).topics)
