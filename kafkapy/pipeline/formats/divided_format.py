"""Wraps any format for a table that is partitioned by a text column.

Spark names the folder of a value `country=de`, and that of both null and the empty string
`country=__HIVE_DEFAULT_PARTITION__`, which every reader takes for null. So Delta and Parquet tables cannot
store the empty string, or that name, in a partition column: the value would silently change, and an upsert by
this column would never find its row again. A record with such a value becomes an error instead. Iceberg has
no such limit, since it stores partition values in its metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.formats.format import Format
from kafkapy.pipeline.formats.spark_types import Struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


class DividedFormat(Format):
    def __init__(self, inner: Format, names: Sequence[str]) -> None:
        """`names` are the partition columns.

        Only those of text are checked.
        """
        self._inner = inner
        self._names = [name.lower() for name in names]

    def check(self) -> None:
        self._inner.check()

    @property
    def columns(self) -> Struct | None:
        return self._inner.columns

    def joined_columns(self, spark: SparkSession) -> set[str]:
        return self._inner.joined_columns(spark)

    def learn(self, parsed: DataFrame) -> bool:
        return self._inner.learn(parsed)

    def parse(self, records: DataFrame) -> DataFrame:
        return self._checked(self._inner.parse(records))

    def reparse(self, records: DataFrame) -> DataFrame:
        return self._checked(self._inner.reparse(records))

    def _checked(self, parsed: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f
        from pyspark.sql.types import StringType, StructType

        data = parsed.schema["_data"].dataType
        assert isinstance(data, StructType)
        errors = [f.col("_error")]
        for one in data:
            if one.name.lower() in self._names and isinstance(one.dataType, StringType):
                value = f.col("_data").getField(one.name)
                found = f.when(value == "", "an empty text").when(value == _NULL, f"the text {_NULL}")
                where = f" in the partition column {one.name}, where only Iceberg tells it from null"
                errors.append(f.concat(f.lit("has "), found, f.lit(where)))
        if len(errors) == 1:
            return parsed
        error = f.coalesce(*errors)
        if "_left_out" in parsed.columns:  # what becomes no row needs no partition
            error = f.when(f.col("_left_out").isNull(), error)
        return parsed.withColumns({"_data": f.when(error.isNull(), f.col("_data")), "_error": error})
