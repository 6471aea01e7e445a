"""Runs of pipelines on real tables: what lands, what is refused, and how a run ends."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from interop.conftest import MakeTopic
from interop.java_tools.test_administration import table
from interop.java_tools.tools import tool
from interop.spark.following import following
from interop.support.waiting import wait_until
from kafkapy.pipeline import Pipeline, PipelineDefinition, PipelineError, checkpoint
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.pipeline_error import LimitError
from kafkapy.pipeline.reset import plan_reset, reset
from kafkapy.pipeline.run.progress import BatchReport, Progress
from kafkapy.pipeline.run.run import RunResult, run
from kafkapy.pipeline.state import State
from kafkapy.pipeline.tables import open_table
from kafkapy.pipeline.tables.batch import Batch
from kafkapy.pipeline.tables.delta import DeltaTable
from kafkapy.pipeline.tables.sql import settings
from kafkapy.pipeline.topics import Topics
from tests.servers.kafkapy_process import KafkapyProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow
SCHEMA = "id BIGINT, name STRING"
Record = tuple[str | bytes | None, str | bytes | None]


def produce(bootstrap: str, topic: str, records: Iterable[Record], **where: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, **where)
                break
            except BufferError:  # its queue is full
                producer.poll(0.1)
    assert producer.flush(60) == 0


def numbered(numbers: range) -> list[tuple[str, str]]:
    return [(f"key {number}", json.dumps({"id": number, "name": f"name {number}"})) for number in numbers]


def rows(definition: PipelineDefinition, spark: SparkSession) -> DataFrame:
    return open_table(spark, definition.table).read()


def ids(definition: PipelineDefinition, spark: SparkSession) -> list[int]:
    return sorted(row.id for row in rows(definition, spark).select("id").collect())


class Told(Progress):
    def __init__(self) -> None:
        self.batches: list[BatchReport] = []
        self.notes: list[str] = []

    def note(self, line: str) -> None:
        self.notes.append(line)

    def batch(self, report: BatchReport) -> None:
        self.batches.append(report)


def follow(
    definition: PipelineDefinition, spark: SparkSession, **how: Any
) -> contextlib.AbstractContextManager[Future[RunResult]]:
    """A run in a thread, asked to stop at the end."""
    return following(lambda stop: run(definition, every="200ms", spark=spark, stop=stop, **how))


def forget_last_commit(definition: PipelineDefinition) -> None:
    """As a kill between the commit of the table and Spark's leaves the checkpoint."""
    state = State(definition.table.location)
    last = checkpoint.committed_batch(state)
    for name in (f"{last}", f".{last}.crc"):
        Path(state.checkpoint, "commits", name).unlink(missing_ok=True)


def restore_older_checkpoint(definition: PipelineDefinition) -> None:
    """As a backup from before the last batch leaves it."""
    state = State(definition.table.location)
    last = checkpoint.planned_batch(state)
    for folder in ("offsets", "commits"):
        for name in (f"{last}", f".{last}.crc"):
            Path(state.checkpoint, folder, name).unlink(missing_ok=True)


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_a_topic_is_appended_in_batches_and_a_further_run_goes_on(
    kind: str, spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap_servers, topic, numbered(range(500)), partition=0)
    produce(bootstrap_servers, topic, numbered(range(500, 1_000)), partition=1)
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA)
    pipeline = getattr(pipeline, f"to_{kind}")(tmp_path / "table")
    definition = replace(pipeline.definition, max_offsets_per_trigger=600)
    told = Told()
    result = run(definition, once=True, spark=spark, progress=told)
    assert result == RunResult(batches=2, rows=1_000, dead_letters=0, stopped=False)
    assert [(batch.batch, batch.lag) for batch in told.batches] == [(0, 400), (1, 0)]
    assert told.batches[1].read == 1_000
    assert ids(definition, spark) == list(range(1_000))

    assert run(definition, once=True, spark=spark).rows == 0
    produce(bootstrap_servers, topic, numbered(range(1_000, 1_100)))
    assert run(definition, once=True, spark=spark).rows == 100
    assert ids(definition, spark) == list(range(1_100))

    forget_last_commit(definition)
    assert run(definition, once=True, spark=spark).batches == 1
    assert ids(definition, spark) == list(range(1_100))
    progress = State(definition.table.location).progress
    assert progress is not None
    assert (progress.batch, progress.rows, progress.total_rows) == (2, 100, 1_100)

    row = rows(definition, spark).where("id = 7").head()
    record = {"_topic": topic, "_key": b"key 7", "_headers": None, "name": "name 7"}
    assert {name: row[name] for name in record} == record


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_a_batch_that_is_planned_over_other_offsets_is_refused_and_a_reset_goes_on(
    kind: str, spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap_servers, topic, numbered(range(100)), partition=0)
    produce(bootstrap_servers, topic, numbered(range(100, 130)), partition=1)
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA)
    definition = getattr(pipeline, f"to_{kind}")(tmp_path / "table").definition
    run(definition, once=True, spark=spark)
    produce(bootstrap_servers, topic, numbered(range(130, 150)), partition=0)
    run(definition, once=True, spark=spark)
    restore_older_checkpoint(definition)
    produce(bootstrap_servers, topic, numbered(range(150, 160)), partition=0)
    with pytest.raises(PipelineError) as refused:
        run(definition, once=True, spark=spark)
    assert "batch 1 is planned with other offsets" in str(refused.value)
    assert "partition 0 is 100 to 129 here and 100 to 119 in the table" in str(refused.value)
    assert f"kafkapy pipeline reset {definition.table.location} --to available" in str(refused.value)
    assert ids(definition, spark) == list(range(150))

    reset(plan_reset(definition, "available"), spark=spark)
    assert run(definition, once=True, spark=spark).rows == 30
    assert ids(definition, spark) == list(range(160))
    assert audit(definition, spark).ok


def test_a_small_batch_is_interpreted_and_a_large_or_joined_one_compiled(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    topic, known = make_topic(), tmp_path / "known"
    produce(bootstrap_servers, topic, numbered(range(1_200)))
    spark.range(1_200).write.parquet(str(known))
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).max_offsets_per_trigger(1_100)
    joined = pipeline.join("known", f"parquet:{known}", {"id": "id"}).select("id", "known.id AS same")
    compiling = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    compiled, interpreted = [*compiling.values()], ["false", "NO_CODEGEN"]
    seen: list[list[str | None]] = []
    write = DeltaTable.append

    def append(table: DeltaTable, rows: DataFrame, batch: Batch) -> None:
        seen.append([rows.sparkSession.conf.get(name) for name in compiling])
        assert {name: spark.conf.get(name) for name in compiling} == compiling  # as other pipelines see it
        write(table, rows, batch)

    monkeypatch.setattr(DeltaTable, "append", append)
    with settings(spark, compiling):
        for name, one in (("plain", pipeline), ("joined", joined)):
            definition = one.to_delta(tmp_path / name).definition
            assert run(definition, once=True, spark=spark).batches == 2
            assert ids(definition, spark) == [*range(1_200)]
    assert seen == [compiled, interpreted, compiled, compiled]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_compacted_topic_is_upserted_by_its_keys(
    kind: str, spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2, cleanup_policy="compact")
    older = [(key, value.replace('"name ', '"older ')) for key, value in numbered(range(100)) if value]
    produce(bootstrap_servers, topic, [*older, *older, *numbered(range(0, 100, 2))])
    produce(bootstrap_servers, topic, [(f"key {number}", None) for number in range(0, 100, 10)])
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).max_offsets_per_trigger(150)
    definition = getattr(pipeline, f"to_{kind}")(tmp_path / "table").definition
    assert run(definition, once=True, spark=spark).rows == 260

    expected = {
        number: f"name {number}" if number % 2 == 0 else f"older {number}"
        for number in range(100)
        if number % 10
    }
    assert {row.id: row.name for row in rows(definition, spark).collect()} == expected
    forget_last_commit(definition)
    assert run(definition, once=True, spark=spark).batches == 1
    assert {row.id: row.name for row in rows(definition, spark).collect()} == expected
    progress = State(definition.table.location).progress
    assert progress is not None
    assert progress.total_rows == 260


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_rows_are_upserted_by_a_column_and_what_has_no_key_is_a_dead_letter(
    kind: str, spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    records: list[Record] = [
        ("a", '{"id": 1, "name": "first"}'),
        ("b", '{"id": 2, "name": "deleted"}'),
        ("c", '{"name": "without id"}'),
        ("d", '{"id": 1, "name": "second"}'),
        ("b", None),
        (None, None),
    ]
    produce(bootstrap_servers, topic, records)
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).upsert("id")
    definition = getattr(pipeline, f"to_{kind}")(tmp_path / "table").dead_letter(f"{topic}.dlq").definition
    result = run(definition, once=True, spark=spark)
    assert (result.rows, result.dead_letters) == (4, 2)
    assert [(row.id, row.name) for row in rows(definition, spark).collect()] == [(1, "second")]
    letters = {
        dict(message.headers())["kafkapy.source"]: dict(message.headers())["kafkapy.error"]
        for message in Topics(bootstrap_servers).consume(f"{topic}.dlq")
    }
    assert letters == {
        f"{topic}-0-2".encode(): b"has no value in the key column id",
        f"{topic}-0-5".encode(): b"is a tombstone without a key",
    }


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_an_empty_text_never_becomes_null_in_a_partition_column(
    kind: str, spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    names = ["", "x", None, "__HIVE_DEFAULT_PARTITION__", " "]
    produce(
        bootstrap_servers,
        topic,
        [(f"key {number}", json.dumps({"id": number, "name": name})) for number, name in enumerate(names)],
    )
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).partition_by("name", "bucket(2, id)")
    definition = getattr(pipeline, f"to_{kind}")(tmp_path / "table").dead_letter(f"{topic}.dlq").definition
    result = run(definition, once=True, spark=spark)
    kept = {row.id: row.name for row in rows(definition, spark).collect()}
    if kind == "iceberg":
        assert kept == dict(enumerate(names))
        return
    assert (result.rows, result.dead_letters) == (3, 2)
    assert kept == {1: "x", 2: None, 4: " "}
    errors = [
        dict(message.headers())["kafkapy.error"].decode()
        for message in Topics(bootstrap_servers).consume(f"{topic}.dlq")
    ]
    where = "in the partition column name, where only Iceberg tells it from null"
    assert errors == [f"has an empty text {where}", f"has the text __HIVE_DEFAULT_PARTITION__ {where}"]


def test_an_upsert_by_a_partition_column_leaves_one_row_a_key(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).upsert("name").partition_by("name")
    definition = pipeline.to_delta(tmp_path / "table").dead_letter(f"{topic}.dlq").definition
    for number in range(2):
        values = [("a", f'{{"id": {number}, "name": ""}}'), ("b", f'{{"id": {number}, "name": "x"}}')]
        produce(bootstrap_servers, topic, values)
        run(definition, once=True, spark=spark)
    assert [(row.id, row.name) for row in rows(definition, spark).collect()] == [(1, "x")]
    assert audit(definition, spark).ok


def test_records_that_do_not_parse_go_to_the_dead_letters_and_the_batch_goes_on(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(bootstrap_servers, topic, [("a", '{"id": 1}'), ("b", "broken"), ("c", '{"id": 3}')])
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).to_delta(tmp_path / "table")
    with pytest.raises(PipelineError) as refused:
        run(pipeline.definition, once=True, spark=spark)
    assert str(refused.value).startswith(f"{topic}: the record {topic}-0-1 ")
    remedy = f"to continue without such records, send them to a topic: dead_letter: {topic}.dlq"
    assert f"nothing of batch 0 was written; {remedy}" in str(refused.value)
    assert not list(tmp_path.glob("table/**/*.parquet")) or not ids(pipeline.definition, spark)

    definition = pipeline.dead_letter(f"{topic}.dlq").max_offsets_per_trigger(2).definition
    produce(bootstrap_servers, topic, [("d", '{"id": "four"}'), ("e", '{"id": 5}'), ("f", '{"id": 6}')])
    told = Told()
    result = run(definition, once=True, spark=spark, progress=told)
    assert (result.rows, result.dead_letters) == (4, 2)
    reasons = [batch.reasons for batch in told.batches]
    assert reasons == [{"is not valid JSON": 1}, {"does not match the schema": 1}, {}]
    assert ids(definition, spark) == [1, 3, 5, 6]
    letters = list(Topics(bootstrap_servers).consume(f"{topic}.dlq"))
    assert [(message.key(), message.value()) for message in letters] == [
        (b"b", b"broken"),
        (b"d", b'{"id": "four"}'),
    ]
    progress = State(definition.table.location).progress
    assert progress is not None
    assert (progress.total_rows, progress.dead_letters) == (4, 2)


def test_a_batch_with_too_many_dead_letters_ends_the_run_and_leaves_nothing(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).to_iceberg(tmp_path / "table")
    pipeline = pipeline.dead_letter(f"{topic}.dlq").max_offsets_per_trigger(100)
    produce(bootstrap_servers, topic, [*numbered(range(98)), ("b", "broken"), ("b", "broken")])
    assert run(pipeline.max_dead_letters("2%").definition, once=True, spark=spark).dead_letters == 2

    bad = [(None, json.dumps({"id": f"{'x' * number}"})) for number in range(1, 4)]
    produce(bootstrap_servers, topic, [*numbered(range(97)), *bad])
    strict = pipeline.max_dead_letters("2%").definition
    for _ in range(2):
        with pytest.raises(LimitError) as refused:
            run(strict, once=True, spark=spark)
    told = f"{topic}: 3 of the 100 records of batch 1 cannot become rows ({topic}-0-197 does not match the"
    assert str(refused.value).startswith(told)
    assert "id is not BIGINT but x; " in str(refused.value)
    assert "max_dead_letters allows 2% of a batch; neither they nor the batch were" in str(refused.value)
    assert ids(strict, spark) == list(range(98))
    assert len(list(Topics(bootstrap_servers).consume(f"{topic}.dlq"))) == 2
    produce(bootstrap_servers, topic, [*numbered(range(100, 199)), bad[0]])
    # A number is of a run, whichever batch they are in.
    with pytest.raises(LimitError, match="allows 3 in a run, which has had 3 already"):
        run(pipeline.max_dead_letters(3).definition, once=True, spark=spark)
    assert len(ids(strict, spark)) == 98 + 97
    assert run(pipeline.max_dead_letters(3).definition, once=True, spark=spark).dead_letters == 1
    produce(bootstrap_servers, topic, [*numbered(range(199, 298)), bad[0]])
    called = tmp_path / "called"
    noted = pipeline.max_dead_letters(0).limit(on_limit=f"touch '{called}'").definition
    assert run(noted, once=True, spark=spark).dead_letters == 1
    wait_until(called.exists)
    assert audit(strict, spark).ok


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_columns_that_come_later_are_added(
    kind: str, spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json()
    definition = getattr(pipeline, f"to_{kind}")(tmp_path / "table").definition
    produce(bootstrap_servers, topic, [("a", '{"id": 1}')])
    run(definition, once=True, spark=spark)
    produce(bootstrap_servers, topic, [("b", '{"id": 2, "colour": "red"}')])
    run(definition, once=True, spark=spark)
    assert sorted((row.id, row.colour) for row in rows(definition, spark).collect()) == [
        (1, None),
        (2, "red"),
    ]


def test_a_run_that_follows_writes_what_comes_and_ends_when_it_is_asked_to(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(bootstrap_servers, topic, numbered(range(10)))
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).group(f"{topic}-table")
    definition = pipeline.to_parquet(tmp_path / "table").definition
    state = State(definition.table.location)

    def written() -> int:
        return state.progress.total_rows if state.progress else 0

    with follow(definition, spark) as done:
        wait_until(lambda: written() == 10 or done.done(), timeout=120)
        with pytest.raises(PipelineError, match="its pipeline is running already"):
            run(definition, once=True, spark=spark)
        produce(bootstrap_servers, topic, numbered(range(10, 15)))
        wait_until(lambda: written() == 15 or done.done(), timeout=120)
    result = done.result()
    assert (result.rows, result.stopped) == (15, True)
    # What was written is Spark's too: nothing is run again.
    assert checkpoint.committed_offsets(state) == checkpoint.planned_offsets(state) == {0: 15}
    assert run(definition, once=True, spark=spark).batches == 0
    assert group_offsets(bootstrap_servers, f"{topic}-table") == {(topic, 0): 15}
    produce(bootstrap_servers, topic, numbered(range(15, 18)))
    (shown,) = table(tool("consumer-groups", bootstrap_servers, "--describe", "--group", f"{topic}-table"))
    assert (shown["CURRENT-OFFSET"], shown["LOG-END-OFFSET"], shown["LAG"]) == ("15", "18", "3")
    named_later = pipeline.group(f"{topic}-later").to_parquet(tmp_path / "table").definition
    commit_group(bootstrap_servers, f"{topic}-later", topic, 17)
    # The table is the truth: the run begins at 15, and the group is where the table is.
    assert run(named_later, once=True, spark=spark).rows == 3
    assert group_offsets(bootstrap_servers, f"{topic}-later") == {(topic, 0): 18}
    commit_group(bootstrap_servers, f"{topic}-later", topic, 2)
    assert run(named_later, once=True, spark=spark).batches == 0
    assert group_offsets(bootstrap_servers, f"{topic}-later") == {(topic, 0): 18}


def commit_group(bootstrap: str, group: str, topic: str, offset: int) -> None:
    Topics(bootstrap).commit_group_offsets(group, topic, {0: offset})


def group_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {(place.topic, place.partition): place.offset for place in future.result(30).topic_partitions}


def test_a_run_that_follows_stops_when_its_topic_is_another_one(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Created anew and longer than before within a second, it would seem to continue."""
    topic = make_topic()
    produce(bootstrap_servers, topic, numbered(range(10)))
    definition = (
        Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).to_delta(tmp_path / "table").definition
    )
    state = State(definition.table.location)
    with follow(definition, spark) as done:
        wait_until(lambda: state.progress is not None or done.done(), timeout=120)
        written = state.read_json("incarnation.json")
        state.write_json("incarnation.json", {**written, "topic_id": "of the former topic"})
        produce(bootstrap_servers, topic, numbered(range(10, 15)))
        with pytest.raises(PipelineError, match=f"the topic {topic} was recreated"):
            done.result(120)
    assert ids(definition, spark) == list(range(10))


def test_records_that_expired_unread_are_named_and_a_reset_goes_on_without_them(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(bootstrap_servers, topic, numbered(range(10)))
    definition = (
        Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).to_delta(tmp_path / "table").definition
    )
    run(definition, once=True, spark=spark)
    produce(bootstrap_servers, topic, numbered(range(10, 20)))
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 0, 14)]).values():
        future.result(30)
    with pytest.raises(PipelineError, match=r"partition 0 10 to 13 \(4 offsets\).*reset .* --to available"):
        run(definition, once=True, spark=spark)
    unread = audit(definition, spark)
    reset(plan_reset(definition, "available"), spark=spark)
    assert run(definition, once=True, spark=spark).rows == 6
    assert ids(definition, spark) == [*range(10), *range(14, 20)]
    skipped = audit(definition, spark)
    for report, matching in ((unread, 0), (skipped, 6)):
        assert (report.ok, report.count("lost"), report.count("matching")) == (True, 4, matching)
        assert str(report).splitlines()[:2] == [
            "4 offsets expired before the pipeline read them, and the table does not have them:",
            f"  {topic}-0: 10..13",
        ]
        assert "Incomplete: 4 offsets expired unread." in str(report)


def test_a_run_outlasts_a_broker_that_is_away_for_longer_than_its_clients_wait(
    spark: SparkSession, tmp_path: Path
) -> None:
    with KafkapyProcess(tmp_path / "broker") as broker:
        topic = "orders"
        assert Topics(broker.bootstrap_servers).create(topic)
        produce(broker.bootstrap_servers, topic, numbered(range(10)))
        pipeline = Pipeline(topic, bootstrap=broker.bootstrap_servers).json(SCHEMA)
        # A minute otherwise.
        pipeline = pipeline.kafka(default_api_timeout_ms="1000", request_timeout_ms="500")
        definition = pipeline.to_parquet(tmp_path / "table").definition
        told = Told()
        with follow(definition, spark, progress=told) as done:
            wait_until(lambda: told.batches or done.done(), timeout=120)
            broker.stop()
            wait_until(lambda: any("trying again" in note for note in told.notes) or done.done(), timeout=120)
            broker.start()
            produce(broker.bootstrap_servers, topic, numbered(range(10, 20)))
            wait_until(lambda: sum(batch.rows for batch in told.batches) == 20 or done.done(), timeout=120)
        assert done.result().rows == 20
        assert ids(definition, spark) == list(range(20))


def test_a_topic_that_is_deleted_under_a_run_ends_it_in_one_line(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(bootstrap_servers, topic, numbered(range(10)))
    definition = (
        Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).to_parquet(tmp_path / "table").definition
    )
    told = Told()
    with follow(definition, spark, progress=told) as done:
        wait_until(lambda: told.batches or done.done(), timeout=120)
        admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        admin.delete_topics([topic])[topic].result(30)
        with pytest.raises(PipelineError, match=f"there is no topic '{topic}'"):
            done.result(timeout=120)


def test_a_table_that_is_another_pipelines_is_refused(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, other = make_topic(), make_topic()
    produce(bootstrap_servers, topic, numbered(range(3)))
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA).to_delta(tmp_path / "table")
    run(pipeline.definition, once=True, spark=spark)
    with pytest.raises(PipelineError, match=f"holds the topic {topic}, not {other}"):
        run(replace(pipeline.definition, topic=other), once=True, spark=spark)
    with pytest.raises(PipelineError, match="was written with mode append, not upsert"):
        run(pipeline.upsert().definition, once=True, spark=spark)
    with pytest.raises(PipelineError, match="the column name is STRING in the table and INT in the topic"):
        run(pipeline.json("id BIGINT, name INT").definition, once=True, spark=spark)

    spark.range(3).write.format("delta").save(str(tmp_path / "foreign"))
    with pytest.raises(PipelineError, match="this is not a pipeline's table"):
        run(pipeline.to_delta(tmp_path / "foreign").definition, once=True, spark=spark)


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_a_table_may_be_named_by_a_file_uri(
    kind: str, spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json(SCHEMA)
    definition = getattr(pipeline, f"to_{kind}")(f"file://{tmp_path}/the table").definition
    for numbers in (range(3), range(3, 5)):
        produce(bootstrap_servers, topic, numbered(numbers))
        run(definition, once=True, spark=spark)
    assert ids(definition, spark) == list(range(5))
    by_path = getattr(pipeline, f"to_{kind}")(tmp_path / "the table").definition
    assert ids(by_path, spark) == list(range(5))
    assert run(by_path, once=True, spark=spark).rows == 0
    reset(plan_reset(definition, '{"0": 4}'), spark=spark)
    assert ids(definition, spark) == list(range(4))
