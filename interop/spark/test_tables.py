"""Tables as batches are written to them, in each format."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset
import pytest

from interop.spark.table_batches import (
    APP,
    files_below,
    ids,
    nth,
    numbered,
    record,
    rows,
)
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.table_target import TableTarget

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from kafkapy.pipeline.tables import open_table
from kafkapy.pipeline.tables.batch import Batch
from kafkapy.pipeline.tables.sql import settings
from kafkapy.pipeline.tables.table import in_few_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow


# -- exactly once


def test_a_batch_that_runs_again_is_there_once(spark: SparkSession, target: TableTarget) -> None:
    table = open_table(spark, target)
    assert not table.exists()
    for batch, places in enumerate([[(0, 0), (1, 0)], [], [(0, 1)]]):
        table.append(numbered(spark, *places), nth(batch))
        table.append(numbered(spark, *places), nth(batch))
    again = open_table(spark, target)
    again.append(numbered(spark, (0, 1)), nth(2))
    assert ids(again) == [0, 1, 100]
    again.append(numbered(spark, (0, 2)), nth(0, "orders-2"))
    assert ids(again) == [0, 1, 2, 100]


def test_a_batch_in_a_stream_is_written_once_and_in_few_files(
    spark: SparkSession, target: TableTarget, tmp_path: Path
) -> None:
    numbered(spark, *((0, offset) for offset in range(40))).repartition(8).write.parquet(str(tmp_path / "in"))
    source = spark.readStream.schema(spark.read.parquet(str(tmp_path / "in")).schema)
    table = open_table(spark, target)

    def write(batch: DataFrame, number: int) -> None:
        for _ in range(2):
            table.append(batch, nth(number))

    writer = source.option("maxFilesPerTrigger", "4").parquet(str(tmp_path / "in")).writeStream
    query = writer.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert ids(table) == list(range(40))
    made_with_table = 1  # Delta's, without rows
    assert len(files_below(target.location)) <= 2 * spark.sparkContext.defaultParallelism + made_with_table


@pytest.mark.parametrize(
    ("master", "records", "files"),
    [("local[2]", 20_000, 2), ("spark://host:7077", 20_000, 1), ("yarn", 1_000, 1), ("local[2]", None, 2)],
)
def test_a_batch_of_many_tasks_becomes_few_files(
    spark: SparkSession, tmp_path: Path, master: str, records: int | None, files: int
) -> None:
    with settings(spark, {"spark.sql.adaptive.enabled": "true"}):
        few = in_few_files(spark.range(0, 20_000, 1, 8), records, master)
        few.write.parquet(str(tmp_path / "rows"))
    assert len(files_below(tmp_path / "rows")) == files
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 20_000


def test_a_number_with_other_offsets_is_another_batch_and_refused(
    spark: SparkSession, target: TableTarget
) -> None:
    table = open_table(spark, target)
    for number in range(3):
        table.append(numbered(spark, (0, number)), nth(number))
    longer = Batch(APP, 2, {0: (2, 4), 1: (0, 1)})
    where = "partition 0 is 2 to 3 here and 2 to 2 in the table, partition 1 is 0 to 0 here and nothing in"
    with pytest.raises(PipelineError, match=f"batch 2 is planned with other offsets .*{where} the table"):
        open_table(spark, target).append(numbered(spark, (0, 2), (0, 3), (1, 0)), longer)
    with pytest.raises(PipelineError, match="batch 1 is planned with other offsets"):
        table.append(numbered(spark, (0, 1), (0, 2)), Batch(APP, 1, {0: (1, 3)}))
    assert ids(table) == [0, 1, 2]
    for number in (1, 2, 3):
        table.append(numbered(spark, (0, number)), nth(number))
    assert ids(table) == [0, 1, 2, 3]


def test_a_batch_of_unknown_offsets_is_known_by_its_rows(spark: SparkSession, target: TableTarget) -> None:
    """Commits of a former version did not have them."""
    table = open_table(spark, target)
    table.append(numbered(spark, (0, 0), (1, 0)), Batch(APP, 0, None))
    table.append(numbered(spark, (0, 0), (1, 0)), Batch(APP, 0, {0: (0, 1), 1: (0, 1)}))
    with pytest.raises(PipelineError, match="the table has 2 of its 3 rows"):
        table.append(numbered(spark, (0, 0), (1, 0), (1, 1)), Batch(APP, 0, {0: (0, 1), 1: (0, 2)}))
    table.append(numbered(spark, (1, 1)), Batch(APP, 1, {1: (1, 2)}))
    assert ids(table) == [0, 100, 101]


def test_a_batch_that_delta_skips_for_another_driver_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one commits between this one's look at the table and its own commit."""
    target = TableTarget(format="delta", location=str(tmp_path / "orders"))
    first, second = open_table(spark, target), open_table(spark, target)
    first.append(numbered(spark, (0, 0)), nth(0))
    prepare = second._prepare

    def meanwhile(rows: DataFrame) -> DataFrame:
        first.append(numbered(spark, (0, 1)), nth(1))
        return prepare(rows)

    monkeypatch.setattr(second, "_prepare", meanwhile)
    with pytest.raises(PipelineError, match="batch 1 is planned with other offsets"):
        second.append(numbered(spark, (0, 1), (0, 2)), Batch(APP, 1, {0: (1, 3)}))
    monkeypatch.undo()
    # A former version, or another user of the number, leaves no word of its offsets.
    writer = numbered(spark, (0, 2)).write.format("delta").mode("append").option("txnAppId", APP)
    writer.option("txnVersion", 2).save(target.location)
    second.append(numbered(spark, (0, 2)), nth(2))
    with pytest.raises(PipelineError, match="the table has 1 of its 2 rows"):
        second.append(numbered(spark, (0, 2), (0, 3)), Batch(APP, 2, {0: (2, 4)}))
    assert ids(second) == [0, 1, 2]


def test_readers_of_parquet_see_only_whole_batches(spark: SparkSession, tmp_path: Path) -> None:
    target = TableTarget(format="parquet", location=str(tmp_path / "orders"))
    table = open_table(spark, target)
    table.append(numbered(spark, (0, 0)), nth(0))
    # As a killed driver leaves it: part of the next batch, and a file without its end.
    staging = tmp_path / "orders" / "_kafkapy" / "staging" / "batch=00000001"
    numbered(spark, (0, 1)).write.parquet(str(staging))
    (staging / "_temporary").mkdir()
    (staging / "part-00000.parquet").write_bytes(b"")
    assert pyarrow.dataset.dataset(target.location, partitioning="hive").to_table()["id"].to_pylist() == [0]
    assert [row.id for row in spark.read.parquet(target.location).collect()] == [0]
    table.append(numbered(spark, (0, 1), (0, 2)), nth(1))
    assert not staging.exists()
    read = pyarrow.dataset.dataset(target.location, partitioning="hive").to_table()
    assert sorted(read["id"].to_pylist()) == [0, 1, 2]


def test_parquet_finishes_or_undoes_what_a_killed_trim_left(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    target = TableTarget(format="parquet", location=str(folder))
    open_table(spark, target).append(numbered(spark, (0, 0), (0, 1)), nth(0))
    replaced = folder / "_kafkapy" / "replaced" / "batch=00000000"
    replaced.parent.mkdir(parents=True)
    (folder / "batch=00000000").rename(replaced)  # killed before the new one came to its place
    table = open_table(spark, target)
    assert table.exists()
    table.trim({0: 1})
    assert ids(table) == [0]
    replaced.mkdir(parents=True)  # killed before the old one was deleted
    table.append(numbered(spark, (0, 1)), nth(0, "orders-2"))
    assert not replaced.exists()
    assert ids(table) == [0, 1]


# -- shape


def test_columns_are_added_and_older_rows_have_null(spark: SparkSession, target: TableTarget) -> None:
    table = open_table(spark, target)
    first = [(1, {"a": 1}, [{"x": 1}], *record(0, 0))]
    table.append(rows(spark, "id BIGINT, s STRUCT<a: INT>, many ARRAY<STRUCT<x: INT>>", first), nth(0))
    columns = "new STRING, id INT, S STRUCT<b: STRING, A: INT>, many ARRAY<STRUCT<y: INT, x: INT>>"
    second = [("n", 2, {"b": "b", "A": 2}, [{"y": 3, "x": 2}], *record(0, 1))]
    table.append(rows(spark, columns, second), nth(1))
    table.append(rows(spark, "nothing VOID", [(None, *record(0, 2))]), nth(2))
    read = table.read().orderBy("_offset")
    assert [row.id for row in read.collect()] == [1, 2, None]
    assert [row.new for row in read.collect()] == [None, "n", None]
    assert [row.s and row.s.asDict() for row in read.collect()] == [
        {"a": 1, "b": None},
        {"a": 2, "b": "b"},
        None,
    ]
    assert [row.many and row.many[0].asDict() for row in read.collect()] == [
        {"x": 1, "y": None},
        {"x": 2, "y": 3},
        None,
    ]
    assert "nothing" not in table.schema().names


def test_a_changed_type_writes_nothing(spark: SparkSession, target: TableTarget) -> None:
    table = open_table(spark, target)
    table.append(numbered(spark, (0, 0)), nth(0))
    with pytest.raises(PipelineError, match="the column id is BIGINT in the table and STRING in the topic"):
        table.append(rows(spark, "id STRING", [("x", *record(0, 1))]), nth(1))
    assert ids(table) == [0]


def test_names_that_a_format_cannot_have_are_refused(spark: SparkSession, target: TableTarget) -> None:
    table = open_table(spark, target)
    refused = {"delta": "first name", "iceberg": "_file", "parquet": "Batch"}[target.format]
    for columns in (f"`{refused}` INT, b INT", "id INT, ID INT", "x INT, _OFFSET INT"):
        batch = rows(spark, columns, [(1, 2, *record(0, 0))])
        with pytest.raises(PipelineError) as raised:
            table.append(batch, nth(0))
        assert "give the format a schema with" in str(raised.value)
        assert "\n" not in str(raised.value)
    assert not table.exists()
    taken = {"delta": "we.ird-`ü", "iceberg": "a b.c;=", "parquet": "a b.c;="}[target.format]
    quoted = "`" + taken.replace("`", "``") + "`"
    table.append(rows(spark, f"{quoted} INT", [(7, *record(0, 0))]), nth(0))
    table.append(rows(spark, f"{quoted} INT, s STRUCT<`p.q`: INT>", [(8, (9,), *record(0, 1))]), nth(1))
    assert sorted(row[taken] for row in table.read().collect()) == [7, 8]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_of_another_shape_is_refused(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "foreign")
    if kind == "delta":
        spark.range(3).write.format("delta").save(path)
    else:
        own = open_table(spark, TableTarget(format=kind, location=path))
        spark.range(3).writeTo(own._in_catalog(spark)).using("iceberg").create()  # type: ignore[attr-defined]
    table = open_table(spark, TableTarget(format=kind, location=path))
    with pytest.raises(PipelineError, match="this is not a pipeline's table, it lacks the column _topic"):
        table.check_shape()


def test_batches_that_no_pipeline_wrote_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "orders" / "batch=1"))
    table = open_table(spark, TableTarget(format="parquet", location=str(tmp_path / "orders")))
    with pytest.raises(PipelineError, match="batch=1 was not written by a pipeline"):
        table.check_shape()


# -- partitions


def test_partitions_are_of_utc_and_hide_in_the_rows(spark: SparkSession, target: TableTarget) -> None:
    by = ["day(timestamp)", "bucket(4, id)", "country"]
    table = open_table(spark, target, partition_by=by)
    late = datetime.datetime(2025, 1, 31, 23, 30, tzinfo=datetime.UTC)
    early = datetime.datetime(2025, 2, 1, 0, 30, tzinfo=datetime.UTC)
    values = [(1, "nl", *record(0, 0, time=late)), (2, "de", *record(0, 1, time=early))]
    values += [(3, None, *record(0, 2, time=datetime.datetime(1969, 12, 31, 23, tzinfo=datetime.UTC)))]
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    try:
        table.check_shape(rows(spark, "id INT, country STRING", []).select("id", "country").schema)
        table.append(rows(spark, "id INT, country STRING", values), nth(0))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    table.append(rows(spark, "id INT, country STRING", [(4, "de", *record(0, 3))]), nth(1))
    table.check_shape()
    assert table.schema().names[:2] == ["id", "country"]
    assert sorted(table.read().columns) == sorted(table.schema().names)
    read = {row.id: row.country for row in table.read().collect()}
    assert read == {1: "nl", 2: "de", 3: None, 4: "de"}
    folders = {part for path in files_below(target.location) for part in path.parts if "_day=" in part}
    named = "_timestamp_day" if target.format == "iceberg" else "timestamp_day"
    assert folders == {f"{named}={day}" for day in ("2025-01-31", "2025-02-01", "1969-12-31")}
    with pytest.raises(PipelineError, match=r"the table is partitioned by .*, not by country; keep"):
        open_table(spark, target, partition_by=["country"]).check_shape()


@pytest.mark.parametrize(
    ("by", "problem"),
    [
        (["region"], "the data has no column region; it has id, _topic"),
        (["day(id)"], "cannot be applied to the type of the column, bigint"),
    ],
)
def test_partitions_that_the_data_does_not_allow_are_refused(
    spark: SparkSession, target: TableTarget, by: list[str], problem: str
) -> None:
    table = open_table(spark, target, partition_by=by)
    with pytest.raises(PipelineError, match=problem):
        table.append(numbered(spark, (0, 0)), nth(0))
    assert not table.exists()


def test_parquet_is_not_divided_into_folders_that_readers_skip(spark: SparkSession, tmp_path: Path) -> None:
    target = TableTarget(format="parquet", location=str(tmp_path / "orders"))
    with pytest.raises(PipelineError, match="readers of Parquet skip folders like _partition="):
        open_table(spark, target, partition_by=["_partition"]).append(numbered(spark, (0, 0)), nth(0))


# -- going back


def test_a_trim_deletes_what_lies_at_and_after_a_position(spark: SparkSession, target: TableTarget) -> None:
    table = open_table(spark, target)
    table.append(numbered(spark, (0, 0), (1, 0), (2, 0)), nth(0))
    table.append(numbered(spark, (0, 1), (1, 1), (2, 1)), nth(1))
    table.append(numbered(spark, (0, 2)), nth(2))
    table.trim({})
    table.trim({0: 1, 1: 0})
    table.trim({0: 1, 1: 0})
    assert ids(table) == [0, 200, 201]
    table.append(numbered(spark, (0, 1), (1, 0)), nth(0, "orders-2"))
    assert ids(table) == [0, 1, 100, 200, 201]
