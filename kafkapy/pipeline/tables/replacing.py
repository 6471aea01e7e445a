"""Replaces rows of a table by others, in one commit."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkapy.pipeline.tables.sql import quoted
from kafkapy.pipeline.tables.upserts import DELETED, stored, view


def replace_rows(table: str, places: DataFrame, rows: DataFrame) -> None:
    """Deletes every row that has the values of one of `places`, and inserts `rows`.

    `table` is its name in SQL. `places` has some columns of the table, and no row twice; null equals null.
    `rows` has all columns, and `_deleted`, which is false.
    """
    match = " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in places.columns)
    names = [quoted(name) for name in rows.columns if name != DELETED]
    empty = [
        f.col(quoted(field.name)) if field.name in places.columns else f.lit(None).cast(field.dataType)
        for field in rows.schema
        if field.name != DELETED
    ]
    gone = places.select(*empty, f.lit(True)).toDF(*rows.columns)
    with stored(gone.union(rows)) as source, view(source) as merged:
        source.sparkSession.sql(
            f"MERGE INTO {table} t USING {merged} s ON s.{DELETED} AND {match} "
            "WHEN MATCHED THEN DELETE "
            f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN "
            f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
        )
