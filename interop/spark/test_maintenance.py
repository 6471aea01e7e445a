"""Maintenance of tables: small files are merged, and what nobody needs is deleted."""

from __future__ import annotations

import datetime
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from interop.conftest import MakeTopic
from interop.spark.other_readers import by_iceberg, contents, merged_rows
from interop.spark.table_batches import (
    RECORD,
    data_frame,
    files_below,
    ids,
    nth,
    numbered,
    record,
    rows,
)
from interop.spark.test_runs import Told, forget_last_commit, produce
from interop.spark.test_runs import numbered as records
from kafkapy.pipeline import Pipeline, PipelineDefinition
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.commands.maintain import maintain
from kafkapy.pipeline.lineage.lineage import lineage
from kafkapy.pipeline.run.run import run
from kafkapy.pipeline.state import State
from kafkapy.pipeline.table_target import TableTarget

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from kafkapy.pipeline.tables import open_table, small_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


MANY = 4


@pytest.fixture(params=["delta", "iceberg"])
def merged_target(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> TableTarget:
    """A table of each format whose files can be merged, and are as soon as they are few."""
    monkeypatch.setattr(small_files, "MANY", MANY)
    return TableTarget(format=request.param, location=str(tmp_path / "orders"))


def files_of(target: TableTarget) -> list[tuple[str, int]]:
    """The path or partition, and the size, of each data file that the last version has."""
    if target.format == "delta":
        import deltalake

        added = pa.table(deltalake.DeltaTable(target.location).get_add_actions())
        return list(
            zip(added.column("path").to_pylist(), added.column("size_bytes").to_pylist(), strict=True)
        )
    inspected = by_iceberg(target).inspect.files()
    wanted = ("content", "partition", "file_size_in_bytes")
    columns = zip(*(inspected.column(name).to_pylist() for name in wanted), strict=True)
    return [(str(partition), size) for content, partition, size in columns if content == 0]


def marks_of(target: TableTarget) -> int:
    """The files of marks that an Iceberg table has."""
    return sum(content != 0 for content in by_iceberg(target).inspect.files().column("content").to_pylist())


def test_maintenance_merges_small_files_and_leaves_the_memory_of_the_pipeline(
    spark: SparkSession, target: TableTarget
) -> None:
    table = open_table(spark, target)
    for number in range(6):
        table.append(numbered(spark, (0, number)), nth(number))
    folder = Path(target.location)
    before = len(files_below(folder))
    memory = folder / "_kafkapy" / "checkpoint" / "offsets" / "0"
    memory.parent.mkdir(parents=True)
    memory.write_text(json.dumps({"orders": {"0": 6}}))
    orphan = folder / ("data" if target.format == "iceberg" else "") / "orphan.parquet"
    if target.format != "parquet":
        orphan.write_bytes(b"PAR1")
    old = time.time() - 30 * 86_400
    for path in folder.rglob("*"):
        os.utime(path, (old, old))
    (merging, *others) = table.maintain(datetime.timedelta(seconds=1))
    assert memory.exists()
    assert not orphan.exists()
    assert ids(table) == list(range(6))
    if target.format == "parquet":
        assert "kept 6 batches as they are" in others[0]
        return
    assert merging.startswith("merged 6 files into 1 ")
    assert before >= 6
    assert table.maintain(datetime.timedelta(seconds=1))[0].startswith("merged 0 files into 0 ")
    open_table(spark, target).append(numbered(spark, (0, 5)), nth(5))  # the last batch is still known
    open_table(spark, target).append(numbered(spark, (0, 6)), nth(6))
    assert ids(table) == list(range(7))


def test_a_batch_is_known_though_others_let_its_snapshot_expire(spark: SparkSession, tmp_path: Path) -> None:
    """A nightly compaction lets snapshots expire.

    It does so while the driver is down, which was killed before Spark's commit.
    """
    target = TableTarget(format="iceberg", location=str(tmp_path / "orders"))
    for number in range(2):
        open_table(spark, target).append(numbered(spark, (0, number), (1, number)), nth(number))
    catalog = "others"
    spark.conf.set(f"spark.sql.catalog.{catalog}", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{catalog}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{catalog}.warehouse", str(tmp_path))
    for procedure in (
        "rewrite_data_files(table => 'orders', options => map('rewrite-all', 'true'))",
        "expire_snapshots(table => 'orders', older_than => TIMESTAMP '2100-01-01', retain_last => 1)",
    ):
        spark.sql(f"CALL {catalog}.system.{procedure}").collect()
    for number in (1, 2, 2):
        open_table(spark, target).append(numbered(spark, (0, number), (1, number)), nth(number))
    assert ids(open_table(spark, target)) == [0, 1, 2, 100, 101, 102]


def test_the_command_says_what_it_did(spark: SparkSession, tmp_path: Path) -> None:
    location = str(tmp_path / "orders")
    open_table(spark, TableTarget(format="iceberg", location=location)).append(
        numbered(spark, (0, 0)), nth(0)
    )
    assert spark.read.format("iceberg").load(location).count() == 1  # as other readers find it
    State(location).begin()
    (tmp_path / "orders.yaml").write_text(f"topic: orders\ntable: iceberg:{location}\n")
    result = CliRunner().invoke(maintain, [str(tmp_path / "orders.yaml"), "--retain", "36h"])
    assert result.exception is None
    assert result.output.splitlines() == [
        "merged 0 files into 0 (rewrite_data_files)",
        "deleted 0 files that no snapshot of the last 36 hours needs (expire_snapshots)",
        "deleted 0 files that no snapshot contains (remove_orphan_files)",
    ]


def test_small_files_are_merged_between_batches(spark: SparkSession, merged_target: TableTarget) -> None:
    table = open_table(spark, merged_target)
    batches = MANY + 2
    look_after, merged = 1, 0
    for number in range(batches):
        table.append(numbered(spark, (0, number)), nth(number))
        look_after -= 1
        if look_after == 0:
            found = table.merge_small_files(spark)
            look_after, merged = found.look_after, merged + found.files
    assert merged == MANY
    assert len(files_of(merged_target)) == 1 + batches - MANY
    for reader, content in contents(merged_target):
        if reader in ("deltalake", "pyiceberg"):  # the others list Iceberg's files of all versions
            assert sorted(content.column("id").to_pylist()) == list(range(batches)), reader
    open_table(spark, merged_target).append(numbered(spark, (0, MANY - 1)), nth(MANY - 1))  # known still
    assert ids(table) == list(range(batches))


def test_a_table_without_rows_has_nothing_to_merge(spark: SparkSession, merged_target: TableTarget) -> None:
    table = open_table(spark, merged_target)
    columns = f"id BIGINT, text STRING, {RECORD}, _deleted BOOLEAN"
    table.upsert(data_frame(spark, columns, [(None, None, *record(0, 0), True)]), ())
    assert table.merge_small_files(spark).files == 0


def test_the_marks_of_upserts_are_merged_too(spark: SparkSession, merged_target: TableTarget) -> None:
    table = open_table(spark, merged_target)
    table.set_merge_mode("merge-on-read")
    columns = f"id BIGINT, text STRING, {RECORD}, _deleted BOOLEAN"
    expected: dict[int, str] = {}
    for number in range(MANY + 2):
        changed = [(key, number == key + 2) for key in range(number % 2, 8, 2)]
        batch = []
        for key, deleted in changed:
            data = (None, None) if deleted else (key, f"{number}-{key}")
            batch.append((*data, *record(0, 100 * number + key, f"k{key}"), deleted))
            expected.pop(key, None)
            if not deleted:
                expected[key] = f"{number}-{key}"
        table.upsert(data_frame(spark, columns, batch), ())
        table.merge_small_files(spark)
    assert len(files_of(merged_target)) < MANY
    if merged_target.format == "iceberg":
        assert marks_of(merged_target) < MANY
    for reader, found in merged_rows(merged_target):
        assert found == expected, reader


def test_only_partitions_with_many_files_are_merged(spark: SparkSession, merged_target: TableTarget) -> None:
    table = open_table(spark, merged_target, partition_by=["country", "day(_timestamp)"])
    countries = [None, "C\u00f4te d'Ivoire \\ %"]
    for number in range(MANY):
        few = [("A", *record(0, 3 * number + 2))] if number % 2 == 0 else []
        many = [(name, *record(0, 3 * number + place)) for place, name in enumerate(countries)]
        table.append(rows(spark, "country STRING", [*many, *few]), nth(number))
    assert len(files_of(merged_target)) == 2 * MANY + MANY // 2
    before = {path for path in files_below(merged_target.location) if "country=A" in str(path)}
    assert table.merge_small_files(spark).files == 2 * MANY
    assert len(files_of(merged_target)) == 2 + MANY // 2
    assert {path for path in files_below(merged_target.location) if "country=A" in str(path)} == before
    found = table.read().groupBy("country").count().collect()
    assert {row.country: row["count"] for row in found} == {countries[0]: 4, countries[1]: 4, "A": 2}


def test_large_files_are_left_alone(
    spark: SparkSession, merged_target: TableTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table(spark, merged_target)
    monkeypatch.setattr(small_files, "TIERS", (limit := small_files.TIERS[0],))
    values = [(index, os.urandom(30_000).hex(), *record(0, index)) for index in range(4)]
    table.append(rows(spark, "id BIGINT, text STRING", values), nth(0))
    (large,) = files_of(merged_target)
    assert large[1] > limit
    for number in range(1, MANY + 1):
        table.append(rows(spark, "id BIGINT, text STRING", [(0, "", *record(1, number))]), nth(number))
    assert table.merge_small_files(spark).files == MANY
    assert large in files_of(merged_target)
    assert len(files_of(merged_target)) == 2


def of_small_batches(
    merged_target: TableTarget, bootstrap_servers: str, topic: str, **more: Any
) -> PipelineDefinition:
    """A pipeline with a batch for each record of a topic of one partition."""
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json("id BIGINT, name STRING")
    pipeline = pipeline.max_offsets_per_trigger(1).maintenance(**more)
    made: Pipeline = getattr(pipeline, f"to_{merged_target.format}")(merged_target.location)
    return made.definition


def test_a_run_maintains_its_table(
    spark: SparkSession,
    merged_target: TableTarget,
    bootstrap_servers: str,
    make_topic: MakeTopic,
) -> None:
    topic, told = make_topic(partitions=1), Told()
    produce(bootstrap_servers, topic, records(range(2 * MANY)), partition=0)
    definition = of_small_batches(merged_target, bootstrap_servers, topic, retain="1s")
    state = State(merged_target.location)
    run(definition, once=True, spark=spark, progress=told)
    done = [report.maintained for report in told.batches if report.maintained.done]
    assert done[0].done == (f"merged {MANY} small files",)
    assert 0 < done[0].seconds < 600
    on_disk = len(files_below(merged_target.location))
    assert on_disk > len(files_of(merged_target))

    state.expired = old = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    time.sleep(1.5)  # until all former versions are older than `retain`
    produce(bootstrap_servers, topic, records(range(2 * MANY, 2 * MANY + 1)), partition=0)
    run(definition, once=True, spark=spark, progress=told)
    assert told.batches[-1].maintained.done[-1].startswith("deleted ")
    assert len(files_below(merged_target.location)) < on_disk
    assert (state.expired or old) > datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=10)

    # Nothing is lost or doubled, and the history of rows is known as far as the table knows it.
    forget_last_commit(definition)
    assert run(definition, once=True, spark=spark).batches == 1
    assert audit(definition, spark=spark).ok
    assert ids(open_table(spark, merged_target)) == list(range(2 * MANY + 1))
    (row,) = lineage(definition, source=f"{topic}-0-0", spark=spark).rows
    forgotten = merged_target.format == "iceberg"  # its snapshot has expired
    assert row.operation == ("" if forgotten else "OPTIMIZE")
    assert row.version


def test_a_run_leaves_the_table_alone_if_the_definition_says_so(
    spark: SparkSession,
    merged_target: TableTarget,
    bootstrap_servers: str,
    make_topic: MakeTopic,
) -> None:
    topic = make_topic(partitions=1)
    produce(bootstrap_servers, topic, records(range(MANY + 1)), partition=0)
    run(of_small_batches(merged_target, bootstrap_servers, topic, within_run=False), once=True, spark=spark)
    assert len(files_of(merged_target)) == MANY + 1
    assert State(merged_target.location).expired is None
