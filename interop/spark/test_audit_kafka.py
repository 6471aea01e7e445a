"""The audit on topics of Apache Kafka itself.

They have transactions, and records that were compacted away.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.spark.test_audit import changed, found, pipeline, produce, run
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_process import KafkaProcess
from interop.support.waiting import OPEN_AT_MOST_MS, wait_until
from kafkapy.pipeline.topics import Topics

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from interop.spark.damage import rewrite, rows_of
from kafkapy.pipeline.audit.audit import audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

# The cleaner looks often, and compacts whatever is in closed segments.
PROPERTIES = {"log.cleaner.backoff.ms": "100", "transaction.state.log.num.partitions": "1"}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "0",
    "segment.ms": "500",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with skipped_without_jars():
        server = KafkaProcess(tmp_path_factory.mktemp("kafka"), properties=PROPERTIES, heap="512m").start()
    yield server.bootstrap_servers
    server.stop()


def create(bootstrap: str, topic: str, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(30)
    wait_until(lambda: topic in admin.list_topics(timeout=30).topics)


def transaction(bootstrap: str, topic: str, count: int, *, commit: bool) -> None:
    """`count` records, and the marker after them."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, b"value", b"key %d" % number)
    producer.flush(30)
    (producer.commit_transaction if commit else producer.abort_transaction)(60)


def test_aborted_records_and_markers_are_neither_missing_nor_allowed(
    spark: SparkSession, kafka: str, tmp_path: Path
) -> None:
    create(kafka, "paid")
    for commit in (True, False, True):  # 0 to 9 and a marker, 11 to 20 aborted, 22 to 31
        transaction(kafka, "paid", 10, commit=commit)
    definition = pipeline("delta", "paid", kafka, tmp_path)
    run(definition, spark)
    report = audit(definition, spark)
    assert report.ok, str(report)
    assert report.notes == {"matching": 20, "no_record": 13}
    rewrite(
        spark,
        definition.table,
        lambda rows: rows.union(changed(rows.where("_offset IN (3, 4)"), "true", _offset="_offset + 10")),
    )
    assert found(audit(definition, spark)) == {"foreign": ["paid-0: 13..14"]}


def test_an_open_transaction_ends_what_is_compared(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    create(kafka, "open")
    transaction(kafka, "open", 5, commit=True)
    producer = Producer(
        {
            "bootstrap.servers": kafka,
            "transactional.id": "left open",
            "transaction.timeout.ms": OPEN_AT_MOST_MS,
        }
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("open", b"value", b"key")
    producer.flush(30)
    definition = pipeline("parquet", "open", kafka, tmp_path)
    run(definition, spark)
    report = audit(definition, spark)
    producer.abort_transaction(60)
    assert report.ok, str(report)
    assert report.notes == {"matching": 5, "no_record": 1}


def test_rows_whose_records_were_compacted_away_are_fine(
    spark: SparkSession, kafka: str, tmp_path: Path
) -> None:
    create(kafka, "changes", **COMPACTED)
    changes = [(0, f"k{n % 20}", f"value {n}") for n in range(200)]
    produce(kafka, "changes", changes)
    definition = pipeline("delta", "changes", kafka, tmp_path, mode="append")
    run(definition, spark)
    _compact(kafka, "changes", 180)
    report = audit(definition, spark)
    assert report.ok, str(report)
    assert report.notes == {"matching": 20, "compacted": 180, "no_record": 180}


def test_an_upserted_row_whose_tombstone_was_compacted_away_is_found(
    spark: SparkSession, kafka: str, tmp_path: Path
) -> None:
    create(kafka, "states", **COMPACTED)
    states = [(0, f"k{n % 20}", f"value {n}") for n in range(100)]
    gone = [(0, f"k{n}", None) for n in range(5)]
    produce(kafka, "states", states)
    definition = pipeline("iceberg", "states", kafka, tmp_path)
    run(definition, spark)
    old = rows_of(spark, definition.table).localCheckpoint()
    produce(kafka, "states", gone)
    run(definition, spark)
    _compact(kafka, "states", 90)  # tombstones too
    report = audit(definition, spark)
    assert report.ok, str(report)
    rewrite(spark, definition.table, lambda rows: rows.unionByName(old.where("string(_key) = 'k1'")))
    assert found(audit(definition, spark)) == {"undeleted": ["states-0: 81 key 'k1'"]}


def _compact(bootstrap: str, topic: str, gone: int) -> None:
    """Waits until at least so many records are gone.

    Only closed segments are compacted, so other records follow.
    """
    before = sum(Topics(bootstrap).end_offsets(topic).values())

    def compacted() -> bool:
        produce(bootstrap, topic, [(0, "filler", "x")])
        left = [message for message in Topics(bootstrap).consume(topic) if message.offset() < before]
        return before - len(left) >= gone

    wait_until(compacted, timeout=60, pause=0.6)
