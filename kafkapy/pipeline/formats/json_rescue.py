"""Parses JSON values into columns, with a further column of rescued data (`rescue.py`).

Each value is parsed as without that column. Of the few records with a wrong value, or with a field that may
have no column, the text is divided in Python. What is left for the columns is parsed once more, so Spark's
reader alone decides what fits. A record that still has an error keeps the one that it had first.

A field for which a column can be added is none of these: its column is added first (`inferred_json.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from kafkapy.pipeline.formats.json_exactness import differences, wider_row
from kafkapy.pipeline.formats.json_parsing import (
    READER_OPTIONS,
    at,
    beyond,
    is_one_object,
    json_text,
    parse_json,
    parsed_json,
    with_row_and_error,
)
from kafkapy.pipeline.formats.rescue import Rescue
from kafkapy.pipeline.formats.spark_types import Struct, field, kind_of, struct_fields, struct_of
from kafkapy.pipeline.formats.unnamed_fields import WITHOUT_COLUMN, may_have_unnamed_field
from kafkapy.pipeline.tables.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DIVIDED: Final = StructType([StructField("kept", StringType()), StructField("rescued", StringType())])


def parsed_records(
    records: DataFrame,
    columns: Struct,
    rescued: str | None,
    keys: Sequence[str] = (),
    unnamed: Column | None = None,
) -> DataFrame:
    """Does what `parse_json` does; the last of the columns is `rescued`, if it has a name.

    `keys` are the columns whose values are never rescued.
    """
    if rescued is None:
        return parse_json(records, columns, unnamed)
    parsed = with_row_and_error(json_text(records), columns, unnamed)
    error = f.col("_error")
    wrong = error.isNotNull() & is_one_object() & ~f.endswith(error, f.lit(WITHOUT_COLUMN))
    more = error.isNull() & may_have_unnamed_field(columns).isNotNull()
    parsed = parsed.withColumn("_wrong", f.coalesce(wrong, f.lit(False)))
    if (wider := wider_row(columns, READER_OPTIONS)) is not None:
        parsed = parsed.withColumn("_wider", f.when(f.col("_wrong"), wider))
    divide = f.udf(Rescue(columns, keys), _DIVIDED, useArrow=False)
    # Spark would push a condition on the rows below both parsings, and write each column anew for each of its
    # uses there: plans of an audit had no end. It pushes none through what may differ when it is repeated.
    divide = divide.asNondeterministic()
    bad = f.array_compact(f.array(*_bad_fields(columns))).cast("array<int>")
    divided = divide(f.when(f.col("_wrong") | more, f.col("_text")), f.when(f.col("_wrong"), bad))
    first = parsed.withColumn("_divided", divided).select(
        *records.columns,
        "_schema_id",
        f.col("_error").alias("_first_error"),
        f.col("_row").alias("_first_row"),
        "_divided",
        f.col("_divided.kept").alias("_text"),
    )
    second, is_divided = with_row_and_error(first, columns), f.col("_divided").isNotNull()
    fitting = is_divided & f.col("_error").isNull()
    left = f.coalesce("_first_error", f.when(is_divided, f.col("_error")))
    error = f.when(~fitting, left)
    row = f.when(is_divided, f.col("_row")).otherwise(f.col("_first_row"))
    row = row.withField(quoted(rescued), f.col("_divided.rescued"))
    return second.select(
        *records.columns,
        f.when(error.isNull() & f.col("value").isNotNull(), row).alias("_data"),
        error.alias("_error"),
        "_schema_id",
    )


def _bad_fields(columns: Struct) -> Iterator[Column]:
    """Each field's number in `struct_fields`, or null if the reader kept its value.

    A field that the record does not have counts as well.
    """
    late, inexact = beyond(columns), differences(columns, f.col("_row"), f.col("_wider"))
    for number, (path, one) in enumerate(struct_fields(columns)):
        found = at(path).isNull()
        for error in (*late.get(path, ()), *inexact.get(path, ())):
            found = found | error.isNotNull()
        if kind_of(one["type"]) in ("array", "map"):
            found = found | parsed_json(_only(path, one["type"]))["_bad"].isNotNull()
        yield f.when(found, f.lit(number))


def _only(path: tuple[str, ...], kind: object) -> Struct:
    """Columns with this field alone."""
    for name in reversed(path):
        kind = struct_of([field(name, kind)])  # type: ignore[arg-type]
    assert isinstance(kind, dict)
    return kind
