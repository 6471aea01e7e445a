"""The audit finds each kind of damage and nothing else, and knows what is not damage."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from interop.conftest import MakeTopic
from interop.support.waiting import wait_until
from kafkapy.cli import main
from kafkapy.pipeline import Pipeline, PipelineError
from kafkapy.pipeline.audit.report import AuditReport
from kafkapy.pipeline.dead_letters.reader import dead_letters
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.state import State
from kafkapy.pipeline.table_target import TABLE_FORMATS
from kafkapy.pipeline.topics import Topics

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from pyspark.sql import functions as f

from interop.spark.damage import rewrite, rows_of
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.audit.repair import repair
from kafkapy.pipeline.reset import plan_reset, reset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow


def produce(bootstrap: str, topic: str, records: Iterable[tuple[int, Any, Any]]) -> None:
    """(partition, key, value) of each."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, key, value in records:
        producer.produce(topic, value, key, partition=partition)
    assert producer.flush(30) == 0


def pipeline(kind: str, topic: str, bootstrap: str, folder: Path, **more: Any) -> PipelineDefinition:
    values = {"topic": topic, "bootstrap": bootstrap, "table": f"{kind}:{folder / kind}", **more}
    return PipelineDefinition.from_mapping(values)


def run(definition: PipelineDefinition, spark: SparkSession) -> None:
    Pipeline.of(definition).run(once=True, spark=spark)


def found(report: AuditReport) -> dict[str, list[str]]:
    """The examples of each finding."""
    return {finding.kind: [str(example) for example in finding.examples] for finding in report.findings}


def numbered(partitions: int, count: int) -> list[tuple[int, str, str]]:
    return [(p, f"key {n}", f"value {n}") for n in range(count) for p in range(partitions)]


def changed(rows: DataFrame, condition: str, **values: str) -> DataFrame:
    """SQL UPDATE."""
    columns = [
        f.when(f.expr(condition), f.expr(values[name])).otherwise(f.col(name)).alias(name)
        if name in values
        else name
        for name in rows.columns
    ]
    return rows.select(*columns)


@pytest.mark.parametrize("kind", TABLE_FORMATS)
def test_appended_rows_that_are_missing_repeated_or_made_up_are_found(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path, kind: str
) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap_servers, topic, numbered(2, 200))
    definition = pipeline(kind, topic, bootstrap_servers, tmp_path)
    run(definition, spark)
    produce(bootstrap_servers, topic, numbered(2, 100))
    run(definition, spark)
    healthy = audit(definition, spark)
    assert healthy.ok, str(healthy)
    assert healthy.notes == {"matching": 600}

    def damage(rows: DataFrame) -> DataFrame:
        rows = rows.where("NOT (_partition = 0 AND _offset BETWEEN 100 AND 149) AND _offset <> 299")
        rows = changed(rows, "_partition = 1 AND _offset = 7", _offset="9000L")
        rows = changed(rows, "_partition = 1 AND _offset = 8", _topic="'another'")
        rows = changed(rows, "_partition = 1 AND _offset = 9", _partition="5")
        return rows.union(rows.where("_partition = 1 AND _offset BETWEEN 20 AND 22"))

    rewrite(spark, definition.table, damage)
    assert found(audit(definition, spark)) == {
        "missing": [f"{topic}-0: 100..149", f"{topic}-0: 299", f"{topic}-1: 7..9", f"{topic}-1: 299"],
        "duplicated": [f"{topic}-1: 20..22"],
        "beyond_end": [f"{topic}-1: 9000"],
        "foreign": ["another-1: 8", f"{topic}-5: 9"],
    }
    (first, *_) = audit(definition, spark, examples=1).findings
    assert (first.count, len(first.examples)) == (55, 1)


@pytest.mark.parametrize(("kind", "key"), [("delta", None), ("iceberg", "id")])
def test_upserted_rows_that_are_stale_or_should_be_gone_are_found(
    spark: SparkSession,
    make_topic: MakeTopic,
    bootstrap_servers: str,
    tmp_path: Path,
    kind: str,
    key: str | None,
) -> None:
    topic = make_topic(partitions=1, cleanup_policy="compact")
    form = {"format": {"kind": "json", "schema": "id INT, n INT"}} if key else {}
    definition = pipeline(kind, topic, bootstrap_servers, tmp_path, **form, **({"key": key} if key else {}))

    def updates(n: int, ids: Iterable[int]) -> list[tuple[int, str, str]]:
        return [(0, f"k{i}", json.dumps({"id": i, "n": n})) for i in ids]

    tombstones = [(0, f"k{i}", None) for i in range(5)]
    produce(bootstrap_servers, topic, updates(0, range(40)))  # offsets 0 to 39
    run(definition, spark)
    old = rows_of(spark, definition.table).localCheckpoint()
    produce(bootstrap_servers, topic, [*updates(1, range(20, 40)), *tombstones])  # 40 to 59, 60 to 64
    produce(bootstrap_servers, topic, [*updates(2, [4])])  # 65: comes back
    run(definition, spark)
    healthy = audit(definition, spark)
    assert healthy.ok, str(healthy)
    assert healthy.notes == {"matching": 36, "deleted": 4}

    def damage(rows: DataFrame) -> DataFrame:
        rows = rows.where("string(_key) NOT IN ('k10', 'k11', 'k30')")
        rows = rows.unionByName(old.where("string(_key) IN ('k1', 'k30')"))
        return rows.union(rows.where("string(_key) = 'k15'"))

    rewrite(spark, definition.table, damage)

    def shown(i: int) -> str:
        return f"id={i}" if key else f"'k{i}'"

    assert found(audit(definition, spark)) == {
        "missing": [f"{topic}-0: 10 key {shown(10)}", f"{topic}-0: 11 key {shown(11)}"],
        "duplicated": [f"{topic}-0: 15 key {shown(15)}"],
        "stale": [f"{topic}-0: 30 key {shown(30)}, the last is 50"],
        "undeleted": [f"{topic}-0: 1 key {shown(1)}, the last is 61"],
    }


def test_dead_letters_are_not_missing(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    definition = pipeline(
        "delta",
        topic,
        bootstrap_servers,
        tmp_path,
        format={"kind": "json", "schema": "n INT"},
        dead_letter=f"{topic}.dlq",
    )
    values = ["{" if n % 10 == 3 else json.dumps({"n": n}) for n in range(100)]
    produce(bootstrap_servers, topic, [(0, None, value) for value in values])
    run(definition, spark)
    report = audit(definition, spark)
    assert report.ok, str(report)
    assert report.notes == {"matching": 90, "dead_letters": 10}
    rewrite(spark, definition.table, lambda rows: rows.where("_offset NOT BETWEEN 10 AND 14"))
    # 13 is a dead letter
    assert found(audit(definition, spark)) == {"missing": [f"{topic}-0: 10..12", f"{topic}-0: 14"]}


def test_dead_letters_of_a_former_name_and_of_a_former_topic_are_not_missing(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1)
    form = {"format": {"kind": "json", "schema": "n INT"}}
    named = [("first", f"{topic}.dlq"), ("second", f"{topic}.dlq"), ("second", f"{topic}.other")]
    for name, dead_letter in named:
        produce(bootstrap_servers, topic, [(0, None, "{"), (0, None, '{"n": 1}')])
        definition = pipeline(
            "delta", topic, bootstrap_servers, tmp_path, name=name, dead_letter=dead_letter, **form
        )
        run(definition, spark)
    report = audit(definition, spark)
    assert report.ok, str(report)
    assert report.notes == {"matching": 3, "dead_letters": 3}


def test_a_dead_letter_of_another_table_or_of_a_former_topic_hides_no_missing_row(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1)

    def definition_of(schema: str, folder: str) -> PipelineDefinition:
        form = {"kind": "json", "schema": schema}
        return pipeline(
            "delta", topic, bootstrap_servers, tmp_path / folder, format=form, dead_letter="shared.dlq"
        )

    produce(bootstrap_servers, topic, [(0, None, '{"id": "x"}'), (0, None, "{")])
    numbers, texts = definition_of("id INT", "numbers"), definition_of("id STRING", "texts")
    for one in (numbers, texts):
        run(one, spark)
    topics = Topics(bootstrap_servers)
    assert [one.source.offset for one in dead_letters(numbers, topics)] == [0, 1]
    assert [one.source.offset for one in dead_letters(texts, topics)] == [1]
    rewrite(spark, texts.table, lambda rows: rows.where("id <> 'x'"))
    assert found(audit(texts, spark)) == {"missing": [f"{topic}-0: 0"]}

    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: not topics.exists(topic))
    topics.create(topic)
    produce(bootstrap_servers, topic, [(0, None, "["), (0, None, '{"id": "y"}')])
    reset(plan_reset(texts, "earliest"), spark=spark)
    run(texts, spark)
    present = [(one.source.offset, one.value) for one in dead_letters(texts, topics) if not one.former]
    assert present == [(0, b"[")]
    report = audit(texts, spark)
    assert report.ok, str(report)
    assert report.notes == {"matching": 1, "dead_letters": 1}
    rewrite(spark, texts.table, lambda rows: rows.where("id <> 'y'"))
    assert found(audit(texts, spark)) == {"missing": [f"{topic}-0: 1"]}


def test_a_topic_of_dead_letters_only_has_no_table_and_is_clean(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1, cleanup_policy="compact")
    definition = pipeline(
        "delta",
        topic,
        bootstrap_servers,
        tmp_path,
        format={"kind": "json", "schema": "n INT"},
        key="n",
        dead_letter=f"{topic}.dlq",
    )
    produce(bootstrap_servers, topic, [(0, "k", "{"), (0, "l", "[")])
    run(definition, spark)
    report = audit(definition, spark)
    assert report.ok, str(report)
    assert report.notes == {"dead_letters": 2}


def test_rows_whose_records_have_expired_are_fine(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap_servers, topic, numbered(2, 100))
    definition = pipeline("parquet", topic, bootstrap_servers, tmp_path)
    run(definition, spark)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 1, 40)]).values():
        future.result(30)
    report = audit(definition, spark)
    assert report.ok, str(report)
    assert report.notes == {"matching": 160, "expired": 40, "expired_offsets": 40}


def test_a_batch_that_is_being_written_is_neither_missing_nor_beyond_the_end(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1, cleanup_policy="compact")
    keyed = pipeline("delta", topic, bootstrap_servers, tmp_path)
    appended = pipeline("iceberg", topic, bootstrap_servers, tmp_path, mode="append")
    both = (keyed, appended)
    produce(bootstrap_servers, topic, [(0, f"k{n}", "first") for n in range(20)])
    for definition in both:
        run(definition, spark)
    produce(bootstrap_servers, topic, [(0, f"k{n}", "second" if n % 2 else None) for n in range(10, 30)])
    for definition in both:
        run(definition, spark)
        (Path(State(definition.table.location).checkpoint) / "commits" / "1").unlink()
    assert audit(keyed, spark).notes == {"matching": 10, "later": 15}
    assert audit(appended, spark).notes == {"matching": 20, "later": 20}
    # the same batch before it is written
    rewrite(spark, appended.table, lambda rows: rows.where("_offset < 20"))
    assert audit(appended, spark).notes == {"matching": 20}
    assert audit(keyed, spark).ok


def test_partitions_that_were_added_and_rows_of_before_a_reset_are_compared(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1)
    definition = pipeline("delta", topic, bootstrap_servers, tmp_path)
    produce(bootstrap_servers, topic, numbered(1, 100))
    run(definition, spark)
    reset(plan_reset(definition, '{"0": 60}'), spark=spark)
    with pytest.raises(PipelineError, match="has not run since it was reset"):
        audit(definition, spark)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    wait_until(lambda: len(admin.list_topics(topic).topics[topic].partitions) == 2)
    produce(bootstrap_servers, topic, [(1, None, "new")])
    run(definition, spark)
    report = audit(definition, spark)
    assert report.ok, str(report)
    assert report.notes == {"matching": 101}
    rewrite(spark, definition.table, lambda rows: changed(rows, "_offset = 59", _offset="61L"))
    assert found(audit(definition, spark)) == {
        "missing": [f"{topic}-0: 59"],
        "duplicated": [f"{topic}-0: 61"],
    }


@pytest.mark.parametrize(("kind", "key"), [("delta", None), ("iceberg", "id")])
def test_a_key_that_a_later_record_of_another_partition_deleted_is_found(
    spark: SparkSession,
    make_topic: MakeTopic,
    bootstrap_servers: str,
    tmp_path: Path,
    kind: str,
    key: str | None,
) -> None:
    """An earlier version brought it back, if it read the older record in a later batch."""
    topic = make_topic(partitions=2, cleanup_policy="compact")
    form = {"format": {"kind": "json", "schema": "id INT"}, "key": key} if key else {}
    definition = pipeline(kind, topic, bootstrap_servers, tmp_path, mode="upsert", **form)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for name, partition, value, time in [
        ("1", 0, '{"id": 1}', 1_000),
        ("2", 0, '{"id": 2}', 5_000),
        ("3", 0, '{"id": 3}', 1_000),
        ("1", 1, None, 2_000),
        ("2", 1, None, 2_000),
    ]:
        producer.produce(topic, value, name, partition, timestamp=time)
    assert producer.flush(30) == 0
    run(definition, spark)
    assert sorted(row[0] for row in rows_of(spark, definition.table).select("_offset").collect()) == [1, 2]
    assert audit(definition, spark).ok

    def undone(rows: DataFrame) -> DataFrame:
        values = {"_key": "CAST('1' AS BINARY)", "_offset": "0L", **({"id": "1"} if key else {})}
        return rows.union(changed(rows.where("_offset = 2"), "true", **values))

    rewrite(spark, definition.table, undone)
    assert {kind: len(keys) for kind, keys in found(audit(definition, spark)).items()} == {"undeleted": 1}
    assert repair(definition, agree=lambda plan: True, spark=spark)
    assert audit(definition, spark).ok


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_reset_hides_no_missing_row_and_what_it_skips_is_not_missing(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path, policy: str
) -> None:
    topic = make_topic(partitions=1, cleanup_policy=policy)
    definition = pipeline("delta", topic, bootstrap_servers, tmp_path)
    produce(bootstrap_servers, topic, [(0, f"k{n}", "value") for n in range(20)])
    run(definition, spark)
    produce(bootstrap_servers, topic, [(0, "k5", None), (0, "k6", "skipped")])  # 20, 21
    produce(bootstrap_servers, topic, [(0, f"k{n}", "value") for n in range(22, 30)])
    reset(plan_reset(definition, '{"0": 25}'), spark=spark)
    run(definition, spark)
    reset(plan_reset(definition, "available"), spark=spark)
    run(definition, spark)
    report = audit(definition, spark, deep=True)
    assert report.ok, str(report)
    assert report.notes == {"matching": 25, "not_read": 5}
    rewrite(spark, definition.table, lambda rows: rows.where("_offset NOT IN (3, 4, 26)"))
    (missing,) = audit(definition, spark).findings
    places = [(example.first, example.last) for example in missing.examples]
    whole = [(3, 4), (26, 26)] if policy == "delete" else [(3, 3), (4, 4), (26, 26)]
    assert (missing.kind, missing.count, places) == ("missing", 3, whole)


def test_a_deep_audit_compares_contents(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap_servers, topic, [(n % 2, f"k{n}", json.dumps({"n": n, "s": [n]})) for n in range(100)])
    definition = pipeline("iceberg", topic, bootstrap_servers, tmp_path, format="json")
    run(definition, spark)
    healthy = audit(definition, spark, deep=True)
    assert healthy.ok, str(healthy)

    def damage(rows: DataFrame) -> DataFrame:
        rows = changed(rows, "_partition = 0 AND _offset IN (3, 4)", n="n + 1")
        return changed(rows, "_partition = 1 AND _offset = 9", _key="binary('other')")

    rewrite(spark, definition.table, damage)
    assert audit(definition, spark).ok
    assert found(audit(definition, spark, deep=True)) == {"changed": [f"{topic}-0: 3..4", f"{topic}-1: 9"]}


def test_the_command_says_by_its_exit_status_what_it_found(
    spark: SparkSession,
    make_topic: MakeTopic,
    bootstrap_servers: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def command(*arguments: str) -> tuple[Any, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["pipeline", "audit", *arguments])
        return ended.value.code, *capsys.readouterr()

    topic = make_topic(partitions=1)
    definition = pipeline("parquet", topic, bootstrap_servers, tmp_path)
    code, _, said = command(definition.table.location)
    assert (code, said.count("\n")) == (2, 1)
    (tmp_path / "orders.yaml").write_text(definition.to_yaml())
    code, _, said = command(str(tmp_path / "orders.yaml"))
    assert code == 2
    assert "has not run" in said
    produce(bootstrap_servers, topic, numbered(1, 10))
    run(definition, spark)
    code, printed, _ = command(definition.table.location)
    assert code == 0
    assert "Clean" in printed
    rewrite(spark, definition.table, lambda rows: rows.where("_offset <> 4"))
    code, printed, _ = command(definition.table.location, "--json", "--report", str(tmp_path / "report"))
    assert code == 1
    assert json.loads(printed) == json.loads((tmp_path / "report").read_text())
    assert json.loads(printed)["findings"][0]["examples"][0]["first"] == 4
    assert json.loads(printed)["files_to_rewrite"]  # Spark wrote them with its own defaults


def test_a_pipeline_that_has_not_run_cannot_be_audited(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    definition = pipeline("delta", make_topic(), bootstrap_servers, tmp_path)
    with pytest.raises(PipelineError, match="has not run: nothing to compare; run it first"):
        audit(definition, spark)
