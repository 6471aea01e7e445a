"""Columns that a table can only be appended with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from kafkapy.pipeline import PipelineError
from kafkapy.pipeline.table_target import TableTarget
from kafkapy.pipeline.tables.partitioning import Partitioning
from kafkapy.pipeline.tables.widening import Widening

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")


@pytest.mark.parametrize("name", ["_metadata", "_METADATA"])
def test_a_column_that_deltas_merge_takes_for_another_is_named_before_it(name: str, tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    from kafkapy.pipeline.tables.delta import DeltaTable
    from kafkapy.pipeline.tables.iceberg import IcebergTable

    columns = StructType([StructField("id", LongType()), StructField(name, LongType())])
    no_session = cast("Any", None)
    for kind in (DeltaTable, IcebergTable):
        target = TableTarget(format=kind.format, location=str(tmp_path / "table"))
        table = kind(no_session, target, Partitioning.parse(()), Widening(kind.format, False))
        if kind is IcebergTable:
            table.check_upserts(columns)
            continue
        with pytest.raises(
            PipelineError, match=f"takes the column {name} of the data for what Spark"
        ) as told:
            table.check_upserts(columns)
        assert "\n" not in str(told.value)
