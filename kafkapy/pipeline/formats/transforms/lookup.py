"""Finds for each record the row of another table, by equal columns.

The table is read anew for each batch, so a batch has its present rows. It is reduced to one row for each key
first, with the number of rows that have the key: a record never becomes several rows, and one that matches
several is an error. A key with a null matches nothing.
"""

from __future__ import annotations

import functools
from operator import and_
from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.join_definition import JoinedTable
from kafkapy.pipeline.pipeline_error import PipelineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

# Names that no data has.
_MATCHES: Final = "kafkapy: matches"
_KEY: Final = "kafkapy: key"
_WHOLE: Final = {"tinyint": 1, "smallint": 2, "int": 3, "bigint": 4}


class Lookup:
    """The rows of a table that records are joined with."""

    def __init__(self, joined: JoinedTable) -> None:
        self.joined = joined
        self.name = joined.name

    @property
    def matches(self) -> str:
        """The column with how many rows a record matches."""
        return f"{_MATCHES} {self.name}"

    @property
    def key(self) -> str:
        """The column with the struct of what a record's row must equal."""
        return f"{_KEY} {self.name}"

    def read(self, spark: SparkSession) -> DataFrame:
        """The table as it is now."""
        from pyspark.errors import PySparkException

        from kafkapy.pipeline.tables.reader import reader
        from kafkapy.pipeline.tables.sql import dotted, first_line

        joined = self.joined
        try:
            if joined.in_catalog:
                name = dotted(tuple(joined.location.split(".")))
                spark.sql(f"REFRESH TABLE {name}")  # which a catalog may keep in memory
                rows = spark.table(name)
            elif joined.format == "csv":
                rows = reader(spark).csv(joined.location, header=True, mode="FAILFAST")
            elif joined.format == "parquet":
                rows = reader(spark).parquet(joined.location)
            else:
                rows = spark.read.format(joined.format).load(joined.location)
            present = {name.lower() for name in rows.columns}
        except PySparkException as error:
            raise PipelineError(
                f"join.{self.name}: {joined.table} cannot be read: {first_line(error)}"
            ) from None
        for column, _ in joined.match:
            if column.lower() not in present:
                raise PipelineError(
                    f"join.{self.name}: {joined.table} has no column {column}; it has "
                    f"{', '.join(rows.columns[:20])}"
                )
        return rows

    def key_of_records(self, schema: StructType) -> Column:
        """What records have in place of the columns of `match`, in a table with this schema."""
        from pyspark.sql import functions as f

        kinds = {one.name.lower(): one.dataType for one in schema}
        return f.struct(
            *(
                f.expr(text).cast(kinds[column.lower()]).alias(f"k{number}")
                for number, (column, text) in enumerate(self.joined.match)
            )
        )

    def error(self) -> Column:
        """The error of a record that matches several rows, or has no key; null for others."""
        from pyspark.sql import functions as f

        from kafkapy.pipeline.tables.sql import quoted

        matches = f.col(quoted(self.matches))
        failed = ", ".join(text for _, text in self.joined.match)
        several = f.concat(f.lit("matches "), matches.cast("string"), f.lit(f" rows of {self.name}"))
        return f.when(
            f.col(quoted(self.key)).isNull(), f"cannot be computed with join.{self.name}.match: {failed}"
        ).when(matches > 1, several)

    def check_types(self, columns: Sequence[DataType], schema: StructType) -> None:
        """Raises PipelineError if what is compared is not of one type."""
        kinds = {one.name.lower(): one.dataType for one in schema}
        for (column, text), kind in zip(self.joined.match, columns, strict=True):
            own, other = kinds[column.lower()].simpleString(), kind.simpleString()
            if own != other and not _WHOLE.get(other, 5) <= _WHOLE.get(own, 0):
                raise PipelineError(
                    f"join.{self.name}.match: {column} is {own.upper()} in {self.joined.table}, and {text} "
                    f"is {other.upper()}; write {column}: CAST({text} AS {own.upper()})"
                )

    def join(self, records: DataFrame, rows: DataFrame) -> DataFrame:
        """Adds the row, as a struct with the name of the table or null, and the number of matches.

        `records` has the column `key`, and `rows` are those that were read.
        """
        from pyspark.sql import functions as f

        from kafkapy.pipeline.tables.sql import quoted

        keys = {f"{self.key} {number}": column for number, (column, _) in enumerate(self.joined.match)}
        names = [quoted(name) for name in keys]
        whole = f.struct(*(quoted(name) for name in rows.columns)).alias(self.name)
        found = rows.select(*(f.col(quoted(column)).alias(name) for name, column in keys.items()), whole)
        found = found.where(" AND ".join(f"{name} IS NOT NULL" for name in names)).groupBy(*names)
        found = found.agg(f.first(self.name).alias(self.name), f.count(f.lit(1)).alias(self.matches))
        same = (f.col(f"{quoted(self.key)}.k{number}") == f.col(name) for number, name in enumerate(names))
        return records.join(found, functools.reduce(and_, same), "left").drop(*keys)
