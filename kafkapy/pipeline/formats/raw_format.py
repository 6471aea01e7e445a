"""Raw: the value as it is, in one BINARY column `value`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.pipeline.formats.format import Format
from kafkapy.pipeline.formats.spark_types import Struct, struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RawFormat(Format):
    def check(self) -> None:
        """Checks nothing: every value is valid."""

    @property
    def columns(self) -> Struct:
        return struct({"value": "binary"})

    def parse(self, records: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        data = f.when(f.col("value").isNotNull(), f.struct(f.col("value")))
        error, schema_id = f.lit(None).cast("string"), f.lit(None).cast("bigint")
        return records.withColumns({"_data": data, "_error": error, "_schema_id": schema_id})
