"""Python functions over Arrow batches on Spark's executors, without pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def map_in_arrow(rows: DataFrame, function: Any, schema: Any) -> DataFrame:
    """Does what DataFrame.mapInArrow does.

    That method requires pandas, although it does not use it.
    """
    from pyspark.sql import DataFrame as SparkDataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    udf = UserDefinedFunction(function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = udf(*[rows[f"`{name}`"] for name in rows.columns])
    return SparkDataFrame(rows._jdf.mapInArrow(column._jc, False, None), rows.sparkSession)
