"""The source kafkapy-log gives the rows that Spark's Kafka source gives.

It takes them from files instead of a broker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.spark.transactions import transactions_left_open, write_every_shape
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_process import KafkaProcess
from interop.support.s3_server import S3Server
from interop.support.waiting import wait_until
from kafkapy import Broker
from kafkapy.protocol import types
from kafkapy.storage.disk.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, read_offsets
from kafkapy.storage.disk.files import FileSystem
from tests.ports import free_ports
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow
ISOLATIONS = ("read_committed", "read_uncommitted")
QUICK_CHECKPOINTS = {
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "log.flush.start.offset.checkpoint.interval.ms": "200",
}


def make_topic(server: ServerProcess, topic: str, partitions: int, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    config = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in settings.items()}}
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(60)
    wait_until(lambda: topic in admin.list_topics(timeout=30).topics)


def kafka_rows(
    spark: SparkSession, server: ServerProcess, topic: str, isolation: str, **options: str
) -> DataFrame:
    """What Spark's Kafka source reads."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", server.bootstrap_servers)
    reader = reader.option("subscribe", topic).option("includeHeaders", "true")
    return reader.option("kafka.isolation.level", isolation).options(**options).load()


def log_rows(spark: SparkSession, data: Path | str, topics: str, isolation: str, **options: str) -> DataFrame:
    """What lies in the files."""
    reader = spark.read.format("kafkapy-log").option("path", str(data)).option("topics", topics)
    return reader.option("isolation", isolation).options(**options).load()


def assert_same(found: DataFrame, expected: DataFrame) -> int:
    """Both have the same columns and, in any order, the same rows; how many."""
    assert [(name, kind) for name, kind in found.dtypes] == [(name, kind) for name, kind in expected.dtypes]
    expected = expected.persist()
    found = found.persist()
    try:
        rows = int(expected.count())
        assert found.count() == rows
        assert found.exceptAll(expected).count() == 0
        assert expected.exceptAll(found).count() == 0
    finally:
        found.unpersist()
        expected.unpersist()
    return rows


def keep(rows: DataFrame, folder: Path) -> DataFrame:
    """The rows as they are now, to be compared when the broker is gone."""
    rows.write.parquet(str(folder))
    return rows.sparkSession.read.schema(rows.schema).parquet(str(folder))


# --- a directory of kafkapy's -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kafkapy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkapyProcess]:
    with KafkapyProcess(tmp_path_factory.mktemp("kafkapy")) as server:
        yield server


def test_every_codec_header_null_and_timestamp_comes_as_from_the_broker(
    spark: SparkSession, kafkapy: KafkapyProcess, tmp_path: Path
) -> None:
    make_topic(kafkapy, "created", 2, segment_bytes="1048576", compression_type="producer")
    make_topic(kafkapy, "appended", 1, segment_bytes="1048576", message_timestamp_type="LogAppendTime")
    kept = {}
    for topic, partitions in (("created", 2), ("appended", 1)):
        write_every_shape(kafkapy.bootstrap_servers, topic, partitions)
        assert len(list((kafkapy.data / f"{topic}-0").glob("*.log"))) > 2
        kept[topic] = keep(kafka_rows(spark, kafkapy, topic, "read_committed"), tmp_path / topic)
        assert assert_same(log_rows(spark, kafkapy.data, topic, "read_committed"), kept[topic]) > 500
    assert_same(log_rows(spark, kafkapy.data, "created", "read_uncommitted"), kept["created"])
    assert sorted(row[0] for row in kept["appended"].select("timestampType").distinct().collect()) == [1]
    kafkapy.stop()
    try:
        both = log_rows(spark, kafkapy.data, "appended,created", "read_committed")
        assert_same(both, kept["created"].union(kept["appended"]))
    finally:
        kafkapy.start()


def test_offsets_and_times_bound_the_same_rows(spark: SparkSession, kafkapy: KafkapyProcess) -> None:
    make_topic(kafkapy, "bounds", 2)
    producer = Producer({"bootstrap.servers": kafkapy.bootstrap_servers, "batch.num.messages": 7})
    start = 1_700_000_000_000
    for number in range(400):
        producer.produce("bounds", b"%d" % number, partition=number % 2, timestamp=start + number * 10)
    assert producer.flush(60) == 0
    for options in (
        {"startingTimestamp": str(start + 500), "endingTimestamp": str(start + 2500)},
        {"startingTimestamp": str(start + 3990), "endingOffsets": "latest"},
        {"startingOffsets": json.dumps({"bounds": {"0": 17, "1": -2}})},
        {"endingOffsets": json.dumps({"bounds": {"0": 17, "1": -1}})},
    ):
        lenient = {"startingOffsetsByTimestampStrategy": "latest"} if "startingTimestamp" in options else {}
        expected = kafka_rows(spark, kafkapy, "bounds", "read_committed", **options, **lenient)
        assert_same(log_rows(spark, kafkapy.data, "bounds", "read_committed", **options), expected)


def test_topics_are_chosen_as_in_the_kafka_source(spark: SparkSession, kafkapy: KafkapyProcess) -> None:
    producer = Producer({"bootstrap.servers": kafkapy.bootstrap_servers})
    for topic in ("chosen-a", "chosen-b", "other"):
        make_topic(kafkapy, topic, 2)
        for number in range(20):
            producer.produce(topic, b"%d" % number, partition=number % 2)
    assert producer.flush(60) == 0
    for choice, rows in (
        ({"subscribe": "chosen-a,other"}, 40),
        ({"subscribePattern": "chosen-[ab]"}, 40),
        ({"assign": json.dumps({"chosen-a": [1], "other": [0, 1]})}, 30),
    ):
        kafka, log = spark.read.format("kafka"), spark.read.format("kafkapy-log").option("path", kafkapy.data)
        kafka = kafka.option("kafka.bootstrap.servers", kafkapy.bootstrap_servers)
        expected = kafka.option("includeHeaders", "true").options(**choice).load()
        assert assert_same(log.options(**choice).load(), expected) == rows


def test_headers_can_be_left_out(spark: SparkSession, kafkapy: KafkapyProcess) -> None:
    make_topic(kafkapy, "bare", 1)
    producer = Producer({"bootstrap.servers": kafkapy.bootstrap_servers})
    producer.produce("bare", b"v", headers=[("h", b"1")])
    assert producer.flush(60) == 0
    rows = log_rows(spark, kafkapy.data, "bare", "read_committed", includeHeaders="false")
    expected = kafka_rows(spark, kafkapy, "bare", "read_committed", includeHeaders="false")
    assert assert_same(rows, expected) == 1


def test_what_is_wrong_is_said_in_the_words_of_the_source(
    spark: SparkSession, kafkapy: KafkapyProcess
) -> None:
    make_topic(kafkapy, "words", 1)
    with pytest.raises(Exception, match=r"There is no topic wrods in .*; did you mean words"):
        log_rows(spark, kafkapy.data, "wrods", "read_committed").count()
    with pytest.raises(Exception, match=r"There is no option kafka\.group\.id; there are path"):
        log_rows(spark, kafkapy.data, "words", "read_committed", **{"kafka.group.id": "words"}).count()


def test_a_stream_follows_a_running_broker_and_goes_on_from_its_checkpoint(
    spark: SparkSession, kafkapy: KafkapyProcess, tmp_path: Path
) -> None:
    make_topic(kafkapy, "followed", 2)
    producer = Producer({"bootstrap.servers": kafkapy.bootstrap_servers})

    def write(first: int, last: int) -> None:
        for number in range(first, last):
            producer.produce("followed", b"%d" % number, partition=number % 2)
        assert producer.flush(60) == 0

    def follow(**trigger: Any) -> Any:
        reader = spark.readStream.format("kafkapy-log").option("path", str(kafkapy.data))
        options = {"topics": "followed"}
        if "processingTime" in trigger:
            options["maxOffsetsPerTrigger"] = "100"
        writer = reader.options(**options).load().writeStream.format("parquet")
        return (
            writer.option("checkpointLocation", f"{tmp_path}/checkpoint")
            .trigger(**trigger)
            .start(f"{tmp_path}/rows")
        )

    def rows() -> int:
        return int(spark.read.parquet(f"{tmp_path}/rows").count()) if (tmp_path / "rows").exists() else 0

    write(0, 300)
    assert follow(availableNow=True).awaitTermination(120)
    assert rows() == 300
    write(300, 800)
    query = follow(processingTime="0 seconds")

    def sizes() -> list[int]:
        return [progress["numInputRows"] for progress in query.recentProgress]

    try:
        # A batch is reported after its rows are there.
        wait_until(lambda: sum(sizes()) == 500 or query.exception(), timeout=120)
    finally:
        query.stop()
    assert max(sizes()) <= 100
    assert rows() == 800
    expected = kafka_rows(spark, kafkapy, "followed", "read_committed")
    assert_same(spark.read.schema(expected.schema).parquet(f"{tmp_path}/rows"), expected)


# --- a directory of Apache Kafka's --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProcess]:
    properties = {
        **QUICK_CHECKPOINTS,
        "log.cleaner.backoff.ms": "200",
        "log.retention.check.interval.ms": "500",
    }
    server = KafkaProcess(tmp_path_factory.mktemp("kafka"), properties=properties, heap="512m")
    with skipped_without_jars():
        server.start()
    yield server
    server.stop()


def wait_for_checkpoint(
    kafka: KafkaProcess, name: str, topic: str, reached: Callable[[int, int], bool]
) -> None:
    """Until the checkpoint file says of each partition what `reached(partition, offset)` wants."""

    def all_reached() -> bool:
        offsets = read_offsets(FileSystem(), str(kafka.data / name))
        partitions = len(list(kafka.data.glob(f"{topic}-[0-9]*")))
        return all(
            reached(partition, offsets.get(types.TopicPartition(topic, partition), -1))
            for partition in range(partitions)
        )

    wait_until(all_reached)


def wait_for_high_watermarks(spark: SparkSession, kafka: KafkaProcess, topic: str) -> None:
    ends = kafka_rows(spark, kafka, topic, "read_uncommitted").groupBy("partition").agg({"offset": "max"})
    last = {row[0]: row[1] for row in ends.collect()}
    # The last record may be followed by a transaction's marker.
    wait_for_checkpoint(kafka, HIGH_WATERMARKS, topic, lambda partition, at: at > last[partition])


def test_transactions_show_as_they_do_through_apache_kafka(
    spark: SparkSession, kafka: KafkaProcess, tmp_path: Path
) -> None:
    make_topic(kafka, "transactions", 2, segment_bytes="1048576")
    write_every_shape(kafka.bootstrap_servers, "transactions", 2)
    with transactions_left_open(kafka.bootstrap_servers, "transactions", 2):
        wait_for_high_watermarks(spark, kafka, "transactions")
        kept, counts = {}, {}
        for isolation in ISOLATIONS:
            expected = keep(kafka_rows(spark, kafka, "transactions", isolation), tmp_path / isolation)
            counts[isolation] = assert_same(log_rows(spark, kafka.data, "transactions", isolation), expected)
            kept[isolation] = expected
        assert counts["read_committed"] < counts["read_uncommitted"]
        kafka.stop()
        try:
            for isolation, expected in kept.items():
                assert_same(log_rows(spark, kafka.data, "transactions", isolation), expected)
        finally:
            kafka.start()
    wait_for_high_watermarks(spark, kafka, "transactions")
    expected = kafka_rows(spark, kafka, "transactions", "read_committed")
    assert_same(log_rows(spark, kafka.data, "transactions", "read_committed"), expected)


def test_a_compacted_topic_shows_what_compaction_left(spark: SparkSession, kafka: KafkaProcess) -> None:
    make_topic(
        kafka,
        "compacted",
        1,
        cleanup_policy="compact",
        segment_bytes="1048576",
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="100",
    )
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 20})
    for number in range(6_000):
        value = None if number % 50 == 0 else b"%d" % number + b"." * 1_000
        producer.produce("compacted", value, b"key %d" % (number % 100))
        if number % 500 == 0:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0
    wait_until(lambda: kafka_rows(spark, kafka, "compacted", "read_committed").count() < 3_000, timeout=60)

    def same() -> bool:
        # The cleaner may run between the two reads.
        expected = kafka_rows(spark, kafka, "compacted", "read_committed")
        return assert_same(log_rows(spark, kafka.data, "compacted", "read_committed"), expected) < 3_000

    wait_until(same, timeout=60, ignoring=AssertionError)


def test_deleted_records_are_gone_from_both(spark: SparkSession, kafka: KafkaProcess) -> None:
    make_topic(kafka, "deleted", 1, segment_bytes="1048576")
    write_every_shape(kafka.bootstrap_servers, "deleted", 1)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for offset in (100, 400):
        [deleted] = admin.delete_records([TopicPartition("deleted", 0, offset)]).values()
        assert deleted.result(60).low_watermark == offset
        wait_for_checkpoint(kafka, LOG_START_OFFSETS, "deleted", lambda _, at, offset=offset: at == offset)  # type: ignore[misc]
        wait_for_high_watermarks(spark, kafka, "deleted")
        expected = kafka_rows(spark, kafka, "deleted", "read_committed")
        assert_same(log_rows(spark, kafka.data, "deleted", "read_committed"), expected)
    with pytest.raises(Exception, match="Offsets 17 to 399 of deleted-0 are deleted: its log starts at 400"):
        log_rows(
            spark,
            kafka.data,
            "deleted",
            "read_committed",
            startingOffsets=json.dumps({"deleted": {"0": 17}}),
        ).count()


# --- a copy in an object store ------------------------------------------------------------------------------


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    pytest.importorskip("moto", reason="moto is not installed (pip install 'moto[server]')")
    pytest.importorskip("s3fs", reason="s3fs is not installed (pip install s3fs)")
    (port,) = free_ports(1)
    with S3Server(tmp_path, port) as started:
        yield started


def test_a_copy_in_s3_has_the_rows_of_the_directory(
    spark: SparkSession, s3: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    with Broker(data_dir=data, config={"num.partitions": 2, "log.segment.bytes": 1 << 20}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for number in range(8_000):
            producer.produce(
                "copied", b"%d" % number + b"." * 400, b"k%d" % (number % 9), partition=number % 2
            )
        assert producer.flush(60) == 0
    url = s3.copy(data, "data")
    options = {"storageOptions": json.dumps(s3.fsspec_options)}
    stored = log_rows(spark, url, "copied", "read_committed", **options)
    assert assert_same(stored, log_rows(spark, data, "copied", "read_committed")) == 8_000
    one = {
        "startingOffsets": '{"copied": {"0": 9, "1": -1}}',
        "endingOffsets": '{"copied": {"0": 10, "1": -1}}',
    }
    found = log_rows(spark, url.replace("s3:", "s3a:"), "copied", "read_committed", **options, **one)
    assert [(row.partition, row.offset) for row in found.collect()] == [(0, 9)]

    stream = spark.readStream.format("kafkapy-log").options(path=url, subscribe="copied", **options).load()
    writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{tmp_path}/checkpoint")
    assert writer.trigger(availableNow=True).start(f"{tmp_path}/rows").awaitTermination(120)
    assert spark.read.parquet(f"{tmp_path}/rows").count() == 8_000

    found.explain(True)
    assert s3.fsspec_options["secret"] not in capsys.readouterr().out
    for path in (tmp_path / "checkpoint").rglob("*"):
        assert not path.is_file() or s3.fsspec_options["endpoint_url"].encode() not in path.read_bytes()
    with pytest.raises(Exception, match="There is no directory s3://lake/other: name the data directory"):
        log_rows(spark, "s3://lake/other", "copied", "read_committed", **options).count()
