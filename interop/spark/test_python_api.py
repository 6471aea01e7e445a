"""Pipelines from Python, as the documentation shows them.

They are written `Pipeline(topic)....to_delta(path).run()`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

import kafkapy.spark
from interop.conftest import MakeTopic
from kafkapy.pipeline import Pipeline, PipelineError
from kafkapy.pipeline.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
ORDER = "id INT, item STRING, amount DOUBLE"


def produce(bootstrap: str, topic: str, *values: object) -> None:
    """Send orders; the order's id is the record's key.

    None is a tombstone for order 1, and text is sent as it is.
    """
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        if isinstance(value, dict):
            producer.produce(topic, json.dumps(value), str(value["id"]))
        else:
            producer.produce(topic, value, "1")
    assert producer.flush(30) == 0


def order(number: int, item: str = "tea", amount: float = 1.5) -> dict[str, object]:
    return {"id": number, "item": item, "amount": amount}


def test_the_documented_chain_of_calls(
    make_topic: MakeTopic, bootstrap_servers: str, spark: SparkSession, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2, cleanup_policy="compact")
    dead, table = f"{topic}.dlq", tmp_path / "orders"
    produce(bootstrap_servers, topic, order(1), order(2), order(3), order(2, "milk"), None, "no order")
    pipeline = (
        Pipeline(topic, bootstrap=bootstrap_servers)
        .json(ORDER)
        .upsert(key="id")
        .to_delta(table)
        .dead_letter(dead)
        .group(f"{topic}-table")
    )
    result = pipeline.run(once=True, spark=spark)
    assert (result.batches, result.dead_letters, result.stopped) == (1, 1, False)
    rows = spark.read.format("delta").load(str(table)).select("id", "item", "amount").collect()
    assert sorted((row.id, row.item, row.amount) for row in rows) == [(2, "milk", 1.5), (3, "tea", 1.5)]

    status = pipeline.status()
    assert (status.lag, status.process, status.batch) == (0, None, 0)
    assert status.progress is not None
    assert status.progress.dead_letters == 1
    assert json.loads(status.to_json())["lag"] == 0

    produce(bootstrap_servers, topic, order(3, "jam"), order(4))
    assert Pipeline.load(table).status().lag == 2
    assert Pipeline.load(table).run(once=True, spark=spark).rows == 2
    rows = spark.read.format("delta").load(str(table)).select("id", "item").collect()
    assert sorted((row.id, row.item) for row in rows) == [(2, "milk"), (3, "jam"), (4, "tea")]
    assert Pipeline.load(table).audit(spark=spark).ok

    (bad,) = Topics(bootstrap_servers).consume(dead)
    assert bad.value() == b"no order"
    committed = group_offsets(bootstrap_servers, f"{topic}-table")
    assert committed == Topics(bootstrap_servers).end_offsets(topic)


def group_offsets(bootstrap: str, group: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {place.partition: place.offset for place in future.result(30).topic_partitions}


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_a_pipeline_goes_on_where_it_was(
    kind: str, make_topic: MakeTopic, bootstrap_servers: str, spark: SparkSession, tmp_path: Path
) -> None:
    topic = make_topic(partitions=3)
    bare = Pipeline(topic, bootstrap=bootstrap_servers).json(ORDER)
    pipeline = getattr(bare, f"to_{kind}")(tmp_path / "orders")
    produce(bootstrap_servers, topic, *(order(number) for number in range(100)))
    assert pipeline.run(once=True, spark=spark).rows == 100
    assert pipeline.run(once=True, spark=spark).rows == 0
    produce(bootstrap_servers, topic, *(order(number) for number in range(100, 130)))
    assert pipeline.run(once=True, spark=spark).rows == 30
    assert pipeline.audit(spark=spark).ok


def test_latest_leaves_out_what_was_there(
    make_topic: MakeTopic, bootstrap_servers: str, spark: SparkSession, tmp_path: Path
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).start("latest").to_delta(tmp_path / "orders")
    produce(bootstrap_servers, topic, order(1))
    assert pipeline.run(once=True, spark=spark).rows == 0
    produce(bootstrap_servers, topic, order(2), order(3))
    assert pipeline.status().lag == 2
    assert pipeline.run(once=True, spark=spark).rows == 2


def test_what_is_wrong_is_a_pipeline_error(
    make_topic: MakeTopic, bootstrap_servers: str, spark: SparkSession, tmp_path: Path
) -> None:
    topic = make_topic()
    with pytest.raises(PipelineError, match=f"there is no topic '{topic}x'.*did you mean '{topic}'"):
        Pipeline(f"{topic}x", bootstrap=bootstrap_servers).to_delta(tmp_path / "a").run(
            once=True, spark=spark
        )
    produce(bootstrap_servers, topic, order(1), "no order")
    strict = Pipeline(topic, bootstrap=bootstrap_servers).json(ORDER).to_delta(tmp_path / "b")
    with pytest.raises(PipelineError, match=rf"{topic}-0-1 .*dead_letter: {topic}\.dlq"):
        strict.run(once=True, spark=spark)
    assert strict.status().lag == 2


def test_a_topic_is_a_data_frame(make_topic: MakeTopic, bootstrap_servers: str, spark: SparkSession) -> None:
    topic = make_topic()
    produce(bootstrap_servers, topic, order(1), order(2))
    records = kafkapy.spark.read_topic(spark, topic, bootstrap=bootstrap_servers)
    assert [json.loads(row.value)["id"] for row in records.orderBy("offset").collect()] == [1, 2]
