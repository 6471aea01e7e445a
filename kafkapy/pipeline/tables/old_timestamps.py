"""Parquet files whose timestamps have the type INT96, Spark's default.

Few readers take it as it is meant: for pyarrow the year 9999 is 1816, deltalake cannot open the table, and
DuckDB loses the zone. Tables are written with TIMESTAMP_MICROS, and `maintain` rewrites what is left.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from kafkapy.pipeline.java_classes import java_class

MICROS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""The setting with which Spark writes timestamps that every reader takes."""


def files_with_int96(spark: SparkSession, files: Iterable[str]) -> list[str]:
    """Those of the files, by their paths, that have a column of type INT96.

    It reads the footer of each.
    """
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    new_path = java_class(spark, "org.apache.hadoop.fs.Path")
    input_file = java_class(spark, "org.apache.parquet.hadoop.util.HadoopInputFile")
    reader = java_class(spark, "org.apache.parquet.hadoop.ParquetFileReader")

    def is_old(file: str) -> bool:
        opened = reader.open(input_file.fromPath(new_path(file), configuration))
        try:
            return "int96 " in str(opened.getFileMetaData().getSchema().toString())
        finally:
            opened.close()

    return [file for file in files if is_old(file)]
