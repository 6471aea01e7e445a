"""Spark on a cluster of three while brokers are killed and come back.

Each record is one row.

Stock Spark streams a topic into a table, and a pipeline writes the same topic into another one, both at once
and without a restart. Records arrive all the time.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.spark.kill_load import Expected, Load, records
from interop.support.cluster_processes import ClusterProcesses
from interop.support.cluster_server import ClusterServer
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.waiting import wait_until
from interop.support.watermarks import watermarks
from kafkapy.pipeline import PipelineDefinition, checkpoint
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.run.progress import Shown
from kafkapy.pipeline.run.run import run
from kafkapy.pipeline.state import State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.slow
TOPIC, PARTITIONS, SEED = "events", 3, 20_261_123
AT_ONCE, PAUSE, PER_BATCH = 6_000, 0.2, 10_000
DEADLINE = 300.0
FEW = 100
"""Records that arrive, and are read, while a broker is gone."""


class PipelineThread:
    """A pipeline that runs until it is told to stop."""

    def __init__(self, definition: PipelineDefinition, spark: SparkSession) -> None:
        self.state = State(definition.table.location)
        self.failure: Exception | None = None
        self._definition, self._spark, self._stop = definition, spark, threading.Event()
        self._thread = threading.Thread(target=self._run, name="pipeline")
        self._thread.start()

    def _run(self) -> None:
        try:
            progress = Shown(self._definition.name)
            run(self._definition, every="1s", spark=self._spark, stop=self._stop, progress=progress)
        except Exception as error:
            self.failure = error

    def position(self) -> int:
        assert self._thread.is_alive(), self.failure
        return sum((checkpoint.committed_offsets(self.state) or {}).values())

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


@dataclass
class Survivors:
    """What worked while brokers died, at the end of the topic."""

    servers: str
    pipeline: PipelineThread
    table: Path
    streamed: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterServer]:
    with skipped_without_jars(), ClusterServer(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def survivors(
    server: ClusterServer, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Survivors:
    cluster, servers, folder = server.brokers, server.bootstrap_servers, tmp_path_factory.mktemp("loss")
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    new = NewTopic(TOPIC, PARTITIONS, config={"retention.ms": "-1"})
    admin.create_topics([new])[TOPIC].result(30)
    cluster.wait_until_in_sync(TOPIC)
    definition = PipelineDefinition.from_mapping(
        {
            "name": "pipeline",
            "bootstrap": servers,
            "topic": TOPIC,
            "table": f"delta:{folder / 'table'}",
            "format": {"kind": "json", "schema": "id BIGINT, text STRING"},
            "dead_letter": "pipeline.dlq",
            "max_offsets_per_trigger": PER_BATCH,
        }
    )
    load = Load(servers, [TOPIC], at_once=AT_ONCE, seed=SEED, pause=PAUSE)
    query = stream(spark, servers, folder)
    pipeline = PipelineThread(definition, spark)
    try:
        reach(query, pipeline, AT_ONCE)
        for lose in (leader, controller):
            number = lose(cluster)
            cluster[number].kill()
            cluster.wait_until_in_sync(TOPIC, 2, timeout=120)
            reach(query, pipeline, end_of(servers) + FEW)
            cluster[number].start()
            cluster.wait_until_in_sync(TOPIC, timeout=120)
        load.end()
        reach(query, pipeline, end_of(servers))
    finally:
        load.end()
        pipeline.end()
        query.stop()
    return Survivors(servers, pipeline, folder / "table", folder / "streamed")


def stream(spark: SparkSession, servers: str, folder: Path) -> StreamingQuery:
    """Spark's own source, with no settings but those that it needs."""
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    rows = source.options(
        subscribe=TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger=str(PER_BATCH)
    ).load()
    sink = rows.writeStream.format("delta").option("checkpointLocation", str(folder / "checkpoint"))
    return sink.trigger(processingTime="1 second").start(str(folder / "streamed"))


def reach(query: StreamingQuery, pipeline: PipelineThread, offsets: int) -> None:
    """Wait until both have committed so many offsets.

    They do so once a second, and to ask Spark costs several milliseconds.
    """
    wait_until(lambda: pipeline.position() >= offsets, timeout=DEADLINE, pause=0.25)
    wait_until(lambda: position_of(query) >= offsets, timeout=DEADLINE, pause=0.25)


def position_of(query: StreamingQuery) -> int:
    assert query.isActive, query.exception()
    if (told := query.lastProgress) is None:
        return 0
    (source,) = told.sources
    return sum(json.loads(source.endOffset)[TOPIC].values())


def end_of(servers: str) -> int:
    """The sum of the end offsets."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "unused", "log_level": 0})
    try:
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        return sum(watermarks(consumer, each)[1] for each in partitions)
    finally:
        consumer.close()


def leader(cluster: ClusterProcesses) -> int:
    return cluster.leader(TOPIC)


def controller(cluster: ClusterProcesses) -> int:
    return int(cluster.metadata().controller_id)


def test_a_stream_of_spark_has_each_record_once(survivors: Survivors, spark: SparkSession) -> None:
    rows = spark.read.format("delta").load(str(survivors.streamed))
    found = Counter(
        (row.partition, row.offset, None if row.value is None else bytes(row.value))
        for row in rows.select("partition", "offset", "value").collect()
    )
    sent = [(each.partition(), each.offset(), each.value()) for each in records(survivors.servers, TOPIC)]
    assert found == Counter(sent)


def test_a_pipeline_has_each_good_record_once_and_each_bad_one_as_a_dead_letter(
    survivors: Survivors, spark: SparkSession
) -> None:
    assert survivors.pipeline.failure is None
    expected = Expected.of(survivors.servers, TOPIC)
    assert expected.bad
    rows = spark.read.format("delta").load(str(survivors.table)).select("_partition", "_offset", "id")
    found = Counter(((row[0], row[1]), row[2]) for row in rows.collect())
    assert found == Counter(expected.good.items())
    letters = Counter(
        dict(message.headers() or [])["kafkapy.source"].decode()
        for message in records(survivors.servers, "pipeline.dlq")
    )
    assert letters == Counter(f"{TOPIC}-{partition}-{offset}" for partition, offset in expected.bad)


def test_the_audit_finds_nothing_missing_and_nothing_twice(survivors: Survivors, spark: SparkSession) -> None:
    report = audit(str(survivors.table), spark)
    assert report.ok, report
    assert report.findings == ()
