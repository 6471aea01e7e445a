"""Upserts that mark rows as deleted instead of writing files again, as others read them."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interop.spark.other_readers import merged_rows
from interop.spark.table_batches import RECORD, data_frame, files_below, record
from kafkapy.pipeline.table_target import TableTarget

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from kafkapy.pipeline.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkapy.pipeline.tables.table import Table

pytestmark = pytest.mark.slow

MARKING, REWRITING = "merge-on-read", "copy-on-write"
ROWS = 2_000


@pytest.fixture(params=["delta", "iceberg"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> TableTarget:
    return TableTarget(format=request.param, location=str(tmp_path / "orders"))


def upsert(spark: SparkSession, table: Table, first: int, *numbers: int, deleted: bool = False) -> None:
    columns = f"id BIGINT, text STRING, {RECORD}, _deleted BOOLEAN"
    rows = []
    for place, number in enumerate(numbers):
        data = (None, None) if deleted else (number, f"{first}-{number}" * 8)
        rows.append((*data, *record(0, first + place, f"k{number}"), deleted))
    table.upsert(data_frame(spark, columns, rows), ())


def written_into(target: TableTarget, before: set[Path]) -> int:
    """Bytes of rows that were written since, and of marks."""
    folder = Path(target.location)
    files = {path for path in folder.rglob("*") if path.suffix in (".parquet", ".bin", ".puffin")}
    return sum(path.stat().st_size for path in files - before)


def files_of(target: TableTarget) -> set[Path]:
    return set(Path(target.location).rglob("*"))


def expected(*changes: tuple[int, int | None]) -> dict[int, str]:
    """The text of each id, after some ids were upserted at an offset, or deleted."""
    rows = {number: f"0-{number}" * 8 for number in range(ROWS)}
    for number, first in changes:
        if first is None:
            del rows[number]
        else:
            rows[number] = f"{first}-{number}" * 8
    return rows


def test_a_small_upsert_writes_little_until_maintenance_removes_its_marks(
    spark: SparkSession, target: TableTarget
) -> None:
    table = open_table(spark, target)
    table.set_merge_mode(MARKING)
    upsert(spark, table, 0, *range(ROWS))
    whole = sum(path.stat().st_size for path in files_below(target.location))
    before = files_of(target)
    upsert(spark, table, ROWS, 3, 1999)
    upsert(spark, table, ROWS + 2, 5, 1000, deleted=True)
    assert written_into(target, before) < whole / 2
    rows = expected((3, ROWS), (1999, ROWS), (5, None), (1000, None))
    for reader, found in merged_rows(target):
        assert found == rows, reader
    assert marks(spark, table) > 0
    table.maintain(datetime.timedelta(days=7))
    assert marks(spark, table) == 0
    for reader, found in merged_rows(target):
        assert found == rows, reader


def test_a_table_keeps_its_mode_until_another_is_named(spark: SparkSession, target: TableTarget) -> None:
    first = open_table(spark, target)
    first.set_merge_mode(REWRITING)
    upsert(spark, first, 0, *range(ROWS))
    again = open_table(spark, target)
    again.set_merge_mode(None)
    upsert(spark, again, ROWS, 3)
    assert marks(spark, again) == 0
    versions = len(files_of(target))
    again.set_merge_mode(REWRITING)
    assert len(files_of(target)) == versions
    again.set_merge_mode(MARKING)
    upsert(spark, again, ROWS + 1, 4)
    assert marks(spark, again) > 0
    again.set_merge_mode(REWRITING)
    again.maintain(datetime.timedelta(days=7))
    upsert(spark, again, ROWS + 2, 5)
    assert marks(spark, again) == 0
    assert {row.id: row.text for row in again.read().select("id", "text").collect()} == expected(
        (3, ROWS), (4, ROWS + 1), (5, ROWS + 2)
    )


def test_without_a_mode_a_new_table_is_one_that_its_readers_take(
    spark: SparkSession, target: TableTarget
) -> None:
    table = open_table(spark, target)
    table.set_merge_mode(None)
    upsert(spark, table, 0, *range(ROWS))
    upsert(spark, table, ROWS, 3)
    assert (marks(spark, table) > 0) == (target.format == "iceberg")
    if target.format == "delta":
        import deltalake

        assert deltalake.DeltaTable(target.location).to_pyarrow_table(columns=["id"]).num_rows == ROWS
    for reader, found in merged_rows(target):
        assert found == expected((3, ROWS)), reader


def marks(spark: SparkSession, table: Table) -> int:
    """How many of the table's files have rows that are marked as deleted."""
    if table.format == "iceberg":
        files: int = spark.read.format("iceberg").load(f"{table.location}#delete_files").count()
        return files
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, table.location)
    given = [getattr(log, f"update$default${number}")() for number in (1, 2, 3)]
    marked: int = log.update(*given).allFiles().where("deletionVector IS NOT NULL").count()
    return marked
