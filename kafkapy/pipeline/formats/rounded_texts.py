"""Finds numbers that Spark's JSON reader rounds on their way into a STRING column.

Such a column takes any value as its JSON text, but the reader writes a number with a fraction or an exponent
as a DOUBLE: 0.12345678901234567890 becomes 0.12345678901234568, and 1e400 becomes "Infinity". 1.10 becomes
1.1, which is the same number. A text that looks like a number, or like an array or an object, is compared
with the numbers of the record: if none is equal to it, it has been rounded.

Few records are compared: those whose column looks so, and whose text has a number of many digits or with an
exponent.
"""

from __future__ import annotations

from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkapy.pipeline.formats.balanced import balanced
from kafkapy.pipeline.formats.spark_types import SparkType, Struct

if TYPE_CHECKING:
    from pyspark.sql import Column

_LIKE_A_NUMBER: Final = r'^(?:-?+\d++\.\d|"-?+Infinity"|[\[{])'
_LONG: Final = r"(?=[\d.]{17})\d++\.\d|\d[eE][-+]?\d"
"""A number that a DOUBLE may not hold: of 16 digits or more, or with an exponent."""
_NUMBER: Final = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_ROUNDED: Final = r"-?\d+\.\d+(?:E-?\d+)?"
_MANTISSA: Final = r"^[-+]?0*(\d*)\.?(\d*)(?:[eE]\+?(-?\d+))?$"


def rounded_texts(columns: Struct, text: Column, row: Column) -> list[Column]:
    """The errors of a record with a rounded number in a STRING column; null if there is none."""
    if not _has_text(columns):
        return []
    numbers = f.transform(f.regexp_extract_all(text, f.lit(rf'[:\[,]\s*"?({_NUMBER})'), 1), _canonical)
    looked_at = _may_be_rounded(columns, text, row)
    return [f.when(looked_at, _error(columns, row, text, numbers, ()))]


def _has_text(kind: SparkType) -> bool:
    if isinstance(kind, str):
        return kind == "string"
    if kind["type"] == "struct":
        return any(_has_text(one["type"]) for one in kind["fields"])
    return _has_text(_inner(kind))


def _inner(kind: dict[str, SparkType]) -> SparkType:
    return kind["elementType"] if kind["type"] == "array" else kind["valueType"]


def _may_be_rounded(kind: SparkType, text: Column, value: Column) -> Column:
    if isinstance(kind, str):
        long = f.rlike(text, f.lit(_LONG)) | f.rlike(value, f.lit(_LONG))
        return f.coalesce(f.rlike(value, f.lit(_LIKE_A_NUMBER)), f.lit(False)) & long
    if kind["type"] == "struct":
        return balanced(
            or_,
            [
                _may_be_rounded(one["type"], text, value.getField(one["name"]))
                for one in kind["fields"]
                if _has_text(one["type"])
            ],
        )
    inner, values = _inner(kind), value if kind["type"] == "array" else f.map_values(value)
    return f.coalesce(f.exists(values, lambda one: _may_be_rounded(inner, text, one)), f.lit(False))


def _error(kind: SparkType, value: Column, text: Column, numbers: Column, path: tuple[str, ...]) -> Column:
    """The error of the first text in `value` that has a rounded number."""
    if isinstance(kind, str):
        where = "".join(path).removeprefix(".")
        told = f"does not match the schema: {where} is STRING, in which a number would become "
        return f.when(_is_rounded(value, text, numbers), f.concat(f.lit(told), f.left(value, f.lit(60))))
    if kind["type"] == "struct":
        return f.coalesce(
            *(
                _error(one["type"], value.getField(one["name"]), text, numbers, (*path, f".{one['name']}"))
                for one in kind["fields"]
                if _has_text(one["type"])
            )
        )
    inner, values, sign = _inner(kind), value, "[]"
    if kind["type"] == "map":
        values, sign = f.map_values(value), "{}"
    errors = f.transform(values, lambda one: _error(inner, one, text, numbers, (*path, sign)))
    return f.get(f.filter(errors, lambda error: error.isNotNull()), f.lit(0))


def _is_rounded(value: Column, text: Column, numbers: Column) -> Column:
    within = f.regexp_extract_all(value, f.lit(rf"[:\[,]({_ROUNDED})"), 1)
    found = f.when(f.rlike(value, f.lit(rf"^{_ROUNDED}$")), f.array(value)).when(
        f.rlike(value, f.lit(r"^[\[{]")), within
    )
    unlike = f.exists(found, lambda one: ~f.array_contains(numbers, _canonical(one)))
    infinite = f.rlike(value, f.lit('"-?Infinity"')) & ~f.contains(text, f.lit("Infinity"))
    return f.coalesce(unlike, f.lit(False)) | infinite


def _canonical(number: Column) -> Column:
    """A text that two numbers have in common only if they are equal."""
    whole, fraction, exponent = (f.regexp_extract(number, _MANTISSA, group) for group in (1, 2, 3))
    digits = f.regexp_replace(f.concat(whole, fraction), f.lit("^0+"), f.lit(""))
    kept = f.regexp_replace(digits, f.lit("0+$"), f.lit(""))
    power = f.coalesce(exponent.try_cast("bigint"), f.lit(0)) - f.length(fraction)
    power = power + f.length(digits) - f.length(kept)
    sign = f.when(f.startswith(number, f.lit("-")), "-").otherwise("")
    return f.when(kept == "", "0").otherwise(f.concat(sign, kept, f.lit("e"), power.cast("string")))
