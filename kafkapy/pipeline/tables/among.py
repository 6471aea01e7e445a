"""A condition that names the keys of a small batch.

A MERGE of Iceberg shuffles the whole table by its key, since it may have to insert rows that the table lacks.
With this condition, which all rows of the keys fulfil, the rows of other keys are left out where they are
read:

    t.`id` IN (CAST(17 AS BIGINT), CAST(23 AS BIGINT))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

from kafkapy.pipeline.tables.sql import ddl, quoted

_LONGEST: Final = 200
"""The most bytes of a key: all are in the text of a statement."""


def among_keys(source: DataFrame, keys: Sequence[str]) -> str | None:
    """The condition that the key of a row of the table (alias t) is one of those of `source`.

    None if a key has no notation that is surely exact, is too long, or there is none. Of several columns,
    each has one of the values.
    """
    kinds = {key: source.select(quoted(key)).schema[0].dataType for key in keys}
    noted = {key: _noted(quoted(key), kind) for key, kind in kinds.items()}
    if any(one is None for one in noted.values()):
        return None
    rows = source.selectExpr(*(one for one in noted.values() if one is not None)).collect()
    conditions = []
    for place, (key, kind) in enumerate(kinds.items()):
        values = {row[place] for row in rows}
        if not values or None in values:
            return None
        listed = ", ".join(_literal(value, kind) for value in sorted(values))
        conditions.append(f"t.{quoted(key)} IN ({listed})")
    return " AND ".join(conditions)


def _noted(key: str, kind: DataType) -> str | None:
    """The SQL expression for a text of the key; null if it is too long."""
    if isinstance(kind, (ByteType, ShortType, IntegerType, LongType)):
        return f"CAST({key} AS STRING)"
    if isinstance(kind, DateType):
        return f"CAST(unix_date({key}) AS STRING)"
    if isinstance(kind, BinaryType) or kind == StringType():  # in bytes, without a collation
        return f"IF(octet_length({key}) <= {_LONGEST}, hex({key}), NULL)"
    return None


def _literal(value: str, kind: DataType) -> str:
    if isinstance(kind, DateType):
        return f"date_from_unix_date({value})"
    if isinstance(kind, BinaryType):
        return f"X'{value}'"
    if isinstance(kind, StringType):
        return f"CAST(X'{value}' AS STRING)"
    return f"CAST({value} AS {ddl(kind)})"
