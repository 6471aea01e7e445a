"""Repairs: what the topic does not account for goes in one commit, and nothing else."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from interop.conftest import MakeTopic
from interop.spark.damage import rewrite, rows_of
from interop.spark.test_audit import changed, found, numbered, pipeline, produce, run
from interop.spark.test_audit_kafka import transaction
from kafkapy.pipeline import PipelineError
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.audit.repair import RepairPlan, repair
from kafkapy.pipeline.commands.cli import pipeline as commands
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.reset import plan_reset, reset
from kafkapy.pipeline.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow


def content(spark: SparkSession, definition: PipelineDefinition) -> list[Any]:
    columns = [name for name in rows_of(spark, definition.table).columns if name != "_headers"]
    return sorted(map(tuple, rows_of(spark, definition.table).select(columns).collect()), key=repr)


def commits(spark: SparkSession, definition: PipelineDefinition) -> int:
    if definition.table.format == "delta":
        return int(spark.sql(f"DESCRIBE HISTORY delta.`{definition.table.location}`").count())
    metadata = max(
        Path(definition.table.location, "metadata").glob("v*.metadata.json"),
        key=lambda path: int(path.name[1:].partition(".")[0]),
    )
    return len(json.loads(metadata.read_text())["snapshots"])


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_rows_that_were_appended_twice_or_made_up_are_deleted(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path, kind: str
) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap_servers, topic, numbered(2, 30))
    definition = pipeline(kind, topic, bootstrap_servers, tmp_path)
    run(definition, spark)
    healthy = content(spark, definition)

    def damage(rows: DataFrame) -> DataFrame:
        twice = rows.where("_offset < 4")
        foreign = changed(rows.where("_offset = 9"), "true", _topic="'another'")
        beyond = changed(rows.where("_offset = 9"), "true", _offset="9000L")
        return rows.union(twice).union(twice).union(foreign).union(beyond)

    rewrite(spark, definition.table, damage)
    damaged, before = content(spark, definition), commits(spark, definition)
    shown: list[RepairPlan] = []

    def refuse(plan: RepairPlan) -> bool:
        shown.append(plan)
        return False

    assert not repair(definition, agree=refuse, spark=spark)
    counts = {"duplicated": 8, "foreign": 2, "beyond_end": 2}
    assert shown == [RepairPlan(counts=counts, deleted=28, kept=8)]
    assert (content(spark, definition), commits(spark, definition)) == (damaged, before)
    assert repair(definition, agree=lambda plan: True, spark=spark)
    assert (content(spark, definition), commits(spark, definition)) == (healthy, before + 1)
    assert audit(definition, spark, deep=True).ok
    produce(bootstrap_servers, topic, numbered(2, 1))
    run(definition, spark)
    assert audit(definition, spark).notes == {"matching": 62}


@pytest.mark.parametrize(("kind", "key"), [("delta", None), ("iceberg", "id")])
def test_keys_that_are_there_twice_or_should_be_gone_are_mended(
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

    def updates(n: int, ids: range) -> list[tuple[int, str, str | None]]:
        return [(0, f"k{i}", json.dumps({"id": i, "n": n})) for i in ids]

    produce(bootstrap_servers, topic, updates(0, range(20)))
    run(definition, spark)
    old = rows_of(spark, definition.table).localCheckpoint()
    produce(bootstrap_servers, topic, [*updates(1, range(10, 20)), *((0, f"k{i}", None) for i in range(3))])
    run(definition, spark)
    healthy = content(spark, definition)

    def damage(rows: DataFrame) -> DataFrame:
        """Deleted keys come back, others are there twice, and of one no record is left."""
        ghosts = old.where("_offset < 3")
        twice = old.where("_offset BETWEEN 10 AND 13").union(rows.where("_offset = 27"))
        compacted = old.where("_offset = 5")
        for name, value in {"_key": "CAST('never' AS BINARY)", **({"id": "999"} if key else {})}.items():
            compacted = changed(compacted, "true", **{name: value})
        columns = rows.columns
        return (
            rows.union(ghosts.select(columns)).union(twice.select(columns)).union(compacted.select(columns))
        )

    rewrite(spark, definition.table, damage)
    before = commits(spark, definition)
    assert set(found(audit(definition, spark))) == {"duplicated", "undeleted"}
    assert repair(definition, agree=lambda plan: True, spark=spark)
    assert (content(spark, definition), commits(spark, definition)) == (healthy, before + 1)
    assert audit(definition, spark, deep=True).ok


def test_rows_of_an_older_checkpoint_are_left_for_a_reset(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1)
    definition = pipeline("delta", topic, bootstrap_servers, tmp_path, max_offsets_per_trigger=5)
    produce(bootstrap_servers, topic, numbered(1, 5))
    run(definition, spark)
    checkpoint = Path(State(definition.table.location).checkpoint)
    shutil.copytree(checkpoint, tmp_path / "older")
    produce(bootstrap_servers, topic, numbered(1, 5))
    run(definition, spark)
    healthy = content(spark, definition)
    shutil.rmtree(checkpoint)
    shutil.copytree(tmp_path / "older", checkpoint)
    assert set(found(audit(definition, spark))) == {"beyond_end"}
    assert not repair(definition, agree=lambda plan: True, spark=spark)
    run(definition, spark)
    assert content(spark, definition) == healthy
    assert audit(definition, spark).ok


def test_a_row_whose_record_a_compaction_may_have_removed_stays(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1)
    definition = pipeline("delta", topic, bootstrap_servers, tmp_path)
    for _ in range(2):  # 0 to 2 and a marker, 4 to 6 and a marker
        transaction(bootstrap_servers, topic, 3, commit=True)
    run(definition, spark)
    rewrite(spark, definition.table, lambda rows: rows.union(changed(rows.limit(1), "true", _offset="3L")))
    assert found(audit(definition, spark)) == {"foreign": [f"{topic}-0: 3"]}
    assert not repair(definition, agree=lambda plan: True, spark=spark)


def test_rows_that_were_written_with_another_schema_stay(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1)
    form = {"kind": "json", "schema": "id INT, n DECIMAL(5,2)"}
    definition = pipeline("delta", topic, bootstrap_servers, tmp_path, format=form, key="id", mode="upsert")
    produce(bootstrap_servers, topic, [(0, "x", '{"id": 1, "n": 1.5}'), (0, "y", '{"id": 2, "n": 7.25}')])
    run(definition, spark)
    healthy = content(spark, definition)
    narrower = dataclasses.replace(
        definition, format=dataclasses.replace(definition.format, schema="id INT, n DECIMAL(5,1)")
    )
    assert not repair(narrower, agree=lambda plan: True, spark=spark)
    assert content(spark, definition) == healthy


def test_the_command_shows_asks_and_audits(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1)
    produce(bootstrap_servers, topic, numbered(1, 5))
    definition = pipeline("delta", topic, bootstrap_servers, tmp_path)
    run(definition, spark)
    rewrite(spark, definition.table, lambda rows: rows.union(rows.where("_offset = 3")))

    def command(*options: str, answer: str = "") -> tuple[int, str]:
        words = ["audit", definition.table.location, "--repair", *options]
        result = CliRunner().invoke(commands, words, input=answer, standalone_mode=False)
        return result.return_value, result.output

    status, shown = command("--dry-run")
    assert status == 1
    assert "duplicated: 1, in the table more than once: one row of each stays" in shown
    assert "1 rows are deleted, in one commit of the table" in shown
    status, shown = command(answer="n\n")
    assert status == 2
    assert "nothing was changed" in shown
    status, shown = command(answer="y\n")
    assert status == 0
    assert "Clean" in shown
    assert "There is nothing that a repair mends" in command("--yes")[1]


def test_a_parquet_table_is_refused_with_the_remedy(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1)
    produce(bootstrap_servers, topic, numbered(1, 5))
    definition = pipeline("parquet", topic, bootstrap_servers, tmp_path)
    run(definition, spark)
    rewrite(spark, definition.table, lambda rows: rows.union(rows.where("_offset = 3")))
    with pytest.raises(PipelineError, match=r"cannot be replaced in one commit; .* --to earliest"):
        repair(definition, agree=lambda plan: pytest.fail("asked in vain"), spark=spark)


def test_a_dead_letter_that_has_become_a_row_since_is_right(
    spark: SparkSession, make_topic: MakeTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(cleanup_policy="compact")
    narrow, wide = (
        pipeline(
            "delta", topic, bootstrap_servers, tmp_path, dead_letter=f"{topic}.dlq", widen_types=True,
            format={"kind": "json", "schema": schema},
        ) for schema in ("n INT", "n BIGINT")
    )  # fmt: skip
    produce(bootstrap_servers, topic, [(0, "a", '{"n": 1}'), (0, "b", f'{{"n": {2**40}}}')])
    run(narrow, spark)
    assert audit(narrow, spark).notes == {"matching": 1, "dead_letters": 1}
    reset(plan_reset(narrow, "earliest"), spark=spark)
    run(wide, spark)
    healthy = content(spark, wide)
    assert len(healthy) == 2
    assert not repair(wide, agree=lambda plan: True, spark=spark)
    assert content(spark, wide) == healthy
    report = audit(wide, spark)
    assert (found(report), report.notes) == ({}, {"matching": 2})
