"""Instants of all years are the same in every reader of a table."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interop.spark.other_readers import live_files, readers
from interop.spark.table_batches import nth, record, rows
from kafkapy.pipeline.table_target import TableTarget

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")
pytest.importorskip("deltalake", reason="deltalake is not installed (pip install deltalake)")
pytest.importorskip("duckdb", reason="duckdb is not installed (pip install duckdb)")
pytest.importorskip("pyiceberg", reason="pyiceberg is not installed (pip install 'pyiceberg[pyarrow]')")

from kafkapy.pipeline.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_INT96 = {"spark.sql.parquet.outputTimestampType": "INT96"}


def _micros(text: str) -> int:
    instant = datetime.datetime.fromisoformat(text)
    return (instant - _EPOCH) // datetime.timedelta(microseconds=1)


_INSTANTS = [
    _micros(text)
    for text in (
        "0001-01-01T00:00:00+00:00",
        "0099-12-31T23:59:59.999999+00:00",
        "1582-10-04T12:00:00+00:00",
        "1582-10-10T12:00:00+00:00",  # which the Julian calendar has, and the Gregorian has not
        "1677-09-21T00:12:43.145224+00:00",  # the first that nanoseconds in 64 bits can hold
        "1816-03-29T05:56:08+00:00",
        "1883-11-18T17:00:00+00:00",
        "1969-12-31T23:59:59.999999+00:00",
        "2025-03-30T01:30:00+00:00",
        "2262-04-11T23:47:16.854776+00:00",
        "9999-12-31T23:59:59.999999+00:00",
    )
]


def _instants(spark: SparkSession, first: int = 0) -> DataFrame:
    values = [(first + number, micros, *record(0, first + number)) for number, micros in enumerate(_INSTANTS)]
    made = rows(spark, "id BIGINT, micros BIGINT", values)
    return made.selectExpr("id", "timestamp_micros(micros) AS sent", *made.columns[2:])


def _check(target: TableTarget, expected: dict[int, int]) -> None:
    for name, reader in readers(target):
        assert reader(target, "sent") == expected, name


def test_instants_of_the_years_1_to_9999_are_the_same_in_every_reader(
    spark: SparkSession, target: TableTarget
) -> None:
    table = open_table(spark, target)
    table.append(_instants(spark), nth(0))
    _check(target, dict(enumerate(_INSTANTS)))
    assert table.files_to_rewrite() == []


def test_a_merge_and_a_trim_write_instants_for_every_reader(spark: SparkSession, tmp_path: Path) -> None:
    target = TableTarget(format="delta", location=str(tmp_path / "orders"))
    table = open_table(spark, target)
    marked = _instants(spark).selectExpr("*", "false AS _deleted")
    later = marked.selectExpr("* EXCEPT (_offset)", "_offset + 100L AS _offset").select(marked.columns)
    table.upsert(marked, ["id"])
    table.upsert(later, ["id"])
    last = len(_INSTANTS) - 1
    table.trim({0: 100 + last})
    _check(target, dict(enumerate(_INSTANTS[:last])))


@pytest.mark.parametrize("table_format", ["delta", "parquet"])
def test_maintenance_rewrites_files_that_many_readers_misread(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    target = TableTarget(format=table_format, location=str(tmp_path / "or ders"))
    table = open_table(spark, target)
    table.append(_instants(spark), nth(0))
    _write_as_int96(spark, target, tmp_path / "aside")
    table.append(_instants(spark, 100), nth(1))
    new = len(live_files(target))
    old = table.files_to_rewrite()
    assert 0 < len(old) < new
    done = table.maintain(datetime.timedelta(days=7))
    assert "INT96" in done[0]
    assert table.files_to_rewrite() == []
    both = {first + number: micros for first in (0, 100) for number, micros in enumerate(_INSTANTS)}
    _check(target, both)
    assert "INT96" not in "".join(table.maintain(datetime.timedelta(days=7)))
    table = open_table(spark, target)
    table.append(_instants(spark, 100), nth(1))  # the last batch is still known
    assert table.read().count() == len(both)


def _write_as_int96(spark: SparkSession, target: TableTarget, aside: Path) -> None:
    """Make the files of a table what they are with Spark's default."""
    from kafkapy.pipeline.tables.sql import settings

    with settings(spark, _INT96):
        if target.format == "delta":
            stored = spark.read.format("delta").load(target.location)
            writer = stored.write.format("delta").mode("overwrite").option("dataChange", "false")
            writer.save(target.location)
            return
        for file in live_files(target):
            spark.read.parquet(str(file)).coalesce(1).write.mode("overwrite").parquet(str(aside))
            (written,) = aside.glob("*.parquet")
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            shutil.copy(written, file)
