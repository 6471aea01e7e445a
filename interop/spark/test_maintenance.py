"""Maintenance of tables: small files are merged, and what nobody needs is deleted."""

from __future__ import annotations

import datetime
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from interop.spark.table_batches import (
    files_below,
    ids,
    nth,
    numbered,
)
from kafkapy.pipeline.commands.maintain import maintain
from kafkapy.pipeline.state import State
from kafkapy.pipeline.table_target import TableTarget

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from kafkapy.pipeline.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


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
