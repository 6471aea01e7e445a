"""Parses JSON values into columns, in the JVM, and detects every wrong value.

Spark's `from_json` reads the first JSON value of a text and ignores the rest, and takes the first object of
an array as the row. So the text is parsed as the only element of an array within an object,

    {"r":[TEXT]}

where anything before or after the value makes the text malformed or changes the length of `r`.
`columnNameOfCorruptRecord` is set in two cases: for a malformed text `r` is null; for a value of a wrong type
`r` has the columns that could be read. The column with the wrong value is searched only in the few wrong
records.

Spark's reader decides that names are case-sensitive; that unknown fields are ignored; that the last of two
fields with one name counts; that a STRING column takes any value as its JSON text; that BINARY is base64;
that timestamps and dates are ISO 8601, and a number for a TIMESTAMP is in seconds since 1970; that a DECIMAL
takes numbers and strings. This module adds that JSON is RFC 8259 (no NaN, no single quotes); that a
TIMESTAMP or DATE is of the years 1 to 9999, beyond which a number was in milliseconds; that a value which its
type cannot hold is an error (`json_exactness.py`); that a TIMESTAMP without a zone is in UTC; and that a
value may have the framing of the schema registry's JSON serializer.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from kafkapy.pipeline.formats.framing import framed_id, unframed
from kafkapy.pipeline.formats.json_exactness import inexact_values
from kafkapy.pipeline.formats.spark_types import (
    Struct,
    array,
    field,
    kind_of,
    nullable,
    sql_name,
    struct_fields,
    struct_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

READER_OPTIONS: Final = {
    "allowNonNumericNumbers": "false",
    "allowSingleQuotes": "false",
    # Otherwise "20260101" and "99" are taken for days since 1970.
    "enableDateTimeParsingFallback": "false",
    "timeZone": "UTC",
}
_YEAR_1: Final = -62_135_596_800
_YEAR_10000: Final = 253_402_300_800
_DAY: Final = 86_400
MISFIT: Final = "does not match the schema: "
"""Begins the error of an object with a value that its column cannot hold."""
# Spark compiles code for each column. In a very wide table, the error of other columns says only "a field".
_MOST_NAMED: Final = 100


def json_text(records: DataFrame) -> DataFrame:
    """Adds `_text`, the value without framing as a string, and `_schema_id`."""
    is_framed = f.substring("value", 1, 1) == f.lit(b"\0")
    return records.withColumns(
        {
            "_text": f.when(is_framed, unframed("value")).otherwise(f.col("value")).cast("string"),
            "_schema_id": f.when(is_framed, framed_id("value")),
        }
    )


def wrapped(text: Column) -> Column:
    return f.concat(f.lit('{"r":['), text, f.lit("]}"))


def looks_like_an_object(text: Column) -> Column:
    return f.is_valid_utf8(text) & f.startswith(f.ltrim(text, f.lit(" \t\r\n")), f.lit("{"))


def parsed_json(columns: Struct) -> Column:
    """`_text` as a struct of `r`, the array of rows, and `_bad`."""
    outer = struct_of([field("r", array(nullable(columns))), field("_bad", "string")])
    options = {**READER_OPTIONS, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_bad"}
    return f.from_json(wrapped(f.col("_text")), StructType.fromJson(outer), options)


def fits_columns() -> Column:
    """Whether `_parsed` is one object in which every value fits its column.

    `parsed_json` made `_parsed`.
    """
    row = f.get(f.col("_parsed.r"), f.lit(0))
    return f.col("_parsed._bad").isNull() & (f.size("_parsed.r") == 1) & row.isNotNull()


def is_one_object() -> Column:
    """Whether `_text` is valid JSON with one object, whose values may not fit the columns."""
    text, rows = f.col("_text"), f.col("_parsed.r")
    return looks_like_an_object(text) & rows.isNotNull() & (f.size(rows) == 1)


def parse_json(records: DataFrame, columns: Struct, unnamed: Column | None = None) -> DataFrame:
    """Adds `_data`, `_error` and `_schema_id` to the records.

    `unnamed` is an additional error computed from `_text` and `_row`, or null.
    """
    data = f.when(f.col("_error").isNull() & f.col("value").isNotNull(), f.col("_row"))
    parsed = with_row_and_error(json_text(records), columns, unnamed)
    return parsed.withColumn("_data", data).select(*records.columns, "_data", "_error", "_schema_id")


def with_row_and_error(texts: DataFrame, columns: Struct, unnamed: Column | None = None) -> DataFrame:
    """Adds `_parsed`, `_row` and `_error`, computed from `_text` and the record's `value`."""
    row = f.get(f.col("_parsed.r"), f.lit(0))
    text = f.col("_text")
    late = [error for errors in beyond(columns).values() for error in errors]
    error = (
        f.when(f.col("value").isNull(), None)
        .when(f.length("value") == 0, "has an empty value")
        .when(~f.is_valid_utf8(text), "is not UTF-8")
        .when(
            fits_columns(),
            f.coalesce(
                *missing_fields(columns, f.col("_row")),
                *late,
                *inexact_values(columns, READER_OPTIONS),
                *([] if unnamed is None else [unnamed]),
                f.lit(None),
            ),
        )
        .when(~looks_like_an_object(text), _no_object(text))
        .when(f.col("_parsed.r").isNull() | (f.size("_parsed.r") != 1), "is not valid JSON")
        .otherwise(f.concat(f.lit(MISFIT), _misfit(columns)))
    )
    return (
        texts.withColumn("_parsed", parsed_json(columns)).withColumn("_row", row).withColumn("_error", error)
    )


def _no_object(text: Column) -> Column:
    return f.when(f.try_parse_json(text).isNull(), "is not valid JSON").otherwise("is not a JSON object")


def at(path: tuple[str, ...]) -> Column:
    """The value at a path of the parsed row."""
    return _within(f.col("_row"), path)


def _within(found: Column, path: tuple[str, ...]) -> Column:
    for name in path:
        found = found.getField(name)
    return found


def missing_fields(columns: Struct, row: Column, place: str = "") -> list[Column]:
    """An error for each field of `row` that is null and may not be.

    It is an error only where the struct around the field is there. `place` begins the names of the fields.
    """
    return [
        f.when(
            _within(row, path[:-1]).isNotNull() & _within(row, path).isNull(),
            f"{MISFIT}{place}{'.'.join(path)} is missing",
        )
        for path, one in struct_fields(columns)
        if not one["nullable"]
    ]


def beyond(columns: Struct) -> dict[tuple[str, ...], list[Column]]:
    """The errors of each TIMESTAMP and DATE that is not of the years 1 to 9999, by its path."""
    errors = {}
    for path, one in struct_fields(columns):
        if one["type"] == "timestamp":
            seconds, numbers = f.unix_seconds(at(path)), " (numbers are seconds)"
        elif one["type"] == "date":
            seconds, numbers = f.unix_date(at(path)).cast("bigint") * _DAY, ""
        else:
            continue
        where = f"{MISFIT}{'.'.join(path)}"
        errors[path] = [
            f.when(seconds >= _YEAR_10000, f"{where} is beyond the year 9999{numbers}"),
            f.when(seconds < _YEAR_1, f"{where} is before the year 1{numbers}"),
        ]
    return errors


def _misfit(columns: Struct) -> Column:
    """The error with the first column whose value does not fit, and the value.

    Such a column is null although the text has a value for it.
    """
    found, containers = [], []
    for path, one in itertools.islice(struct_fields(columns), _MOST_NAMED):
        kind, name = one["type"], ".".join(path)
        if kind_of(kind) in ("array", "map"):
            containers.append(name)
        if any("'" in step for step in path):  # a path of get_json_object has no way to write it
            continue
        given = f.get_json_object("_text", "$" + "".join(f"['{step}']" for step in path))
        quoted = f.concat(f.lit(f"{name} is not {sql_name(kind)} but "), f.left(given, f.lit(60)))
        found.append(f.when(at(path).isNull() & given.isNotNull(), quoted))
    within = f"a value within {' or '.join(containers)}" if 0 < len(containers) <= 5 else "a field"
    return f.coalesce(*found, f.lit(f"{within} is of another type"))
