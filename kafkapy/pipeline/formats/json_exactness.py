"""Finds values of JSON that Spark's reader would store as another value.

    DECIMAL(p,s)    rounds digits beyond s, and drops the commas of a text
    FLOAT, DOUBLE   round whole numbers beyond 2^24 and 2^53, and make Infinity of a number beyond their range
    TIMESTAMP       takes a time without a date for one of today, drops digits beyond microseconds, and lets a
                    number of many digits overflow
    DATE            drops a time
    STRING          has `?` for half a surrogate pair, and rounds numbers (`rounded_texts.py`)

Such a value is an error. A number with a fraction in a FLOAT or DOUBLE is the nearest one that there is.

Few records are looked at closely: those whose parsed FLOAT or DOUBLE is great enough, or whose text has a
column's name with digits, or a time, that its type may not hold. One pattern finds the latter for all
columns, since a search in the text takes a quarter of the time of its parsing. Within arrays and maps, where
no name stands before a value, the pattern is for all values. Such a text is parsed again, with types that
hold what the others do not, and the two results are compared. A schema without such types costs nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from kafkapy.pipeline.formats.balanced import balanced
from kafkapy.pipeline.formats.rounded_texts import rounded_texts
from kafkapy.pipeline.formats.spark_types import (
    SparkType,
    Struct,
    all_types,
    array,
    decimal_digits,
    field,
    kind_of,
    map_of,
    sql_name,
    struct_fields,
    struct_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

_WHOLE: Final = {"float": 2.0**24, "double": 2.0**53}
"""Up to which whole numbers are exact."""

_ELEMENTS: Final = "[]"
_MAPPED: Final = "{}"
_ANY_NAME: Final = r'(?:[^"\\]|\\.)*+'
_PLAIN_NAME: Final = re.compile(r"[ !#-\[\]-~]+")
# What may stand before a value in an array or a map.
_BEFORE: Final = r"[:\[,]\s*+"
_NO_DATE: Final = r"\s*+(?:T|\d{1,2}:)"
_SURPLUS_TIME: Final = r"\.\d{6}0*+[1-9]"
_SURPLUS_SECONDS: Final = r"-?+\d{13}"
_TIME: Final = r"[^\"T ]++[T ]"
# An escaped letter, digit or sign, which may hide a name or a value.
_HIDDEN: Final = r"\\u00[2-7]"
_SURROGATE: Final = r"\\u[dD][89a-fA-F]"
_HALF: Final = (
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)


def inexact_values(columns: Struct, options: dict[str, str]) -> list[Column]:
    """The errors of a record that fits the columns; null if there is none.

    They are computed from `_text` and `_row`. `options` are those of the reader.
    """
    text, row = f.col("_text"), f.col("_row")
    errors = []
    if (again := wider_row(columns, options)) is not None:
        errors.append(f.when(_suspicious(columns, text, row), _difference(columns, row, again, ())))
    if any(kind == "string" for _, kind in all_types(columns)):
        unescaped = f.regexp_replace(text, f.lit(r"\\\\"), f.lit(""))
        half = f.contains(text, f.lit("\\u")) & f.rlike(text, f.lit(_SURROGATE))
        half = half & f.rlike(unescaped, f.lit(_HALF)) & f.contains(f.to_json(row), f.lit("?"))
        errors.append(f.when(half, "does not match the schema: a text has half a surrogate pair"))
    return [*errors, *rounded_texts(columns, text, row)]


def wider_row(columns: Struct, options: dict[str, str]) -> Column | None:
    """`_text` with types that hold what the columns may not; None if they hold everything."""
    wider = _wider(columns)
    if wider is None:
        return None
    assert isinstance(wider, dict)
    return f.from_json(f.col("_text"), StructType.fromJson(wider), options)


def differences(columns: Struct, row: Column, wider: Column) -> dict[tuple[str, ...], list[Column]]:
    """The errors of the fields of `struct_fields` that may be inexact, by their paths."""
    return {
        path: [_difference(one["type"], _within(row, path), _within(wider, path), path)]
        for path, one in struct_fields(columns)
        if kind_of(one["type"]) != "struct" and _wider(one["type"]) is not None
    }


def _within(row: Column, path: tuple[str, ...]) -> Column:
    for name in path:
        row = row.getField(name)
    return row


def _wider(kind: SparkType) -> SparkType | None:
    """The types that hold what those in `kind` may not; None if `kind` has none of them."""
    if isinstance(kind, str):
        if kind_of(kind) == "decimal":
            precision, scale = decimal_digits(kind)
            return f"decimal(38,{max(38 - precision + scale, min(scale + 10, 38))})"
        # A whole number is the same text as a STRING, and no other number is.
        return "string" if kind in ("float", "double", "timestamp", "timestamp_ntz", "date") else None
    if kind["type"] == "struct":
        fields = [(one["name"], _wider(one["type"])) for one in kind["fields"]]
        left = [field(name, inner) for name, inner in fields if inner is not None]
        return struct_of(left) if left else None
    inner = _wider(kind["elementType"] if kind["type"] == "array" else kind["valueType"])
    if inner is None:
        return None
    return array(inner) if kind["type"] == "array" else map_of("string", inner)


def _suspicious(columns: Struct, text: Column, row: Column) -> Column:
    """Whether a value may be inexact."""
    signs = []
    named: dict[str, list[str]] = defaultdict(list)
    patterns = []
    for name, kind, value in _values(columns, row):
        if kind in _WHOLE and value is not None:
            signs.append(f.abs(value) >= _WHOLE[kind])
        elif kind in _WHOLE:
            digits = len(str(int(_WHOLE[kind])))
            patterns.append(_BEFORE + rf"-?+(?:\d{{{digits}}}|\d++(?:\.\d++)?[eE]\+?\d)")
        elif name is None:
            patterns.append(_BEFORE + _inexact(kind))
        else:
            named[_inexact(kind)].append(name)
    if named:
        patterns.insert(0, f'"(?:{"|".join(_after(names, rest) for rest, names in named.items())})')
        signs.append(f.contains(text, f.lit(r"\u00")) & f.rlike(text, f.lit(_HIDDEN)))
    if patterns:
        signs.append(f.rlike(text, f.lit("|".join(dict.fromkeys(patterns)))))
    return balanced(or_, signs)


def _after(names: Iterable[str], pattern: str) -> str:
    """The pattern after one of the names, without its first quote, and a colon."""
    quoted = [re.escape(name) if _PLAIN_NAME.fullmatch(name) else _ANY_NAME for name in names]
    return rf'(?:{"|".join(dict.fromkeys(quoted))})"\s*+:\s*+{pattern}'


def _inexact(kind: str) -> str:
    """The pattern of values of this type that may be inexact."""
    if kind == "date":
        return rf'"\s*+{_TIME}'
    if kind != "timestamp" and kind != "timestamp_ntz":
        _, scale = decimal_digits(kind)
        return rf'(?:"?+[-+]?+\d*+(?:\.\d{{{scale}}}0*+[1-9]|(?:\.\d*+)?[eE])|"[^",]*+,)'
    return rf'(?:"(?:{_NO_DATE}|[^".]*+{_SURPLUS_TIME})|{_SURPLUS_SECONDS})'


def _values(kind: SparkType, value: Column | None, name: str | None = None) -> Iterator[tuple[Any, str, Any]]:
    """The types with wider ones, each with its name and value.

    The value is None within an array or a map, and so is the name if there is none before the value.
    """
    if isinstance(kind, str):
        if _wider(kind) is not None:
            yield name, kind, value
    elif kind["type"] == "struct":
        for one in kind["fields"]:
            yield from _values(
                one["type"], None if value is None else value.getField(one["name"]), one["name"]
            )
    else:
        yield from _values(kind["elementType"] if kind["type"] == "array" else kind["valueType"], None)


def _difference(kind: SparkType, value: Column, wider: Column, path: tuple[str, ...]) -> Column:
    """The error of the first value that is another one with the wider type."""
    if isinstance(kind, str):
        where = ".".join(path).replace(".[]", "[]").replace(".{}", "{}")
        told = f"does not match the schema: {where} is {sql_name(kind)}, which cannot hold "
        text = f.left(_shown(kind, wider), f.lit(60))
        error = f.when(
            value.isNotNull() & _differs(kind, value, wider, path[-1]), f.concat(f.lit(told), text)
        )
        if kind_of(kind) != "decimal":
            return error
        return f.coalesce(f.concat(f.lit(told), _with_comma(kind, value, path[-1])), error)
    if kind["type"] == "struct":
        fields = [(one["name"], one["type"]) for one in kind["fields"] if _wider(one["type"]) is not None]
        errors = [
            _difference(inner, value.getField(name), wider.getField(name), (*path, name))
            for name, inner in fields
        ]
        return f.coalesce(*errors)
    if kind["type"] == "array":
        inner, path = kind["elementType"], (*path, _ELEMENTS)
    else:
        inner, path = kind["valueType"], (*path, _MAPPED)
        value, wider = f.map_values(value), f.map_values(wider)
    each = f.zip_with(value, wider, lambda one, other: _difference(inner, one, other, path))
    return f.get(f.filter(each, lambda error: error.isNotNull()), f.lit(0))


def _differs(kind: str, value: Column, wider: Column, name: str) -> Column:
    if kind in _WHOLE:
        # A BIGINT holds every whole number of a FLOAT or DOUBLE below 2^63.
        whole = f.rlike(wider, f.lit(r"^-?\d+$")) & (f.abs(value) >= _WHOLE[kind])
        below = f.abs(value) < 2.0**63
        return f.isnan(value - value) | (
            whole & ~(below & (f.when(below, value.cast("bigint")).cast("string") == wider))
        )
    if kind == "date":
        return f.rlike(wider, f.lit(f"^\\s*+{_TIME}\\s*+\\S"))
    if kind in ("timestamp", "timestamp_ntz"):
        return f.rlike(wider, f.lit(f"^{_NO_DATE}|{_SURPLUS_TIME}|^{_SURPLUS_SECONDS}"))
    wide = _wider(kind)
    assert isinstance(wide, str)
    # A DECIMAL of 38 digits has none to spare: too great a number is null, and the text decides.
    too_great = wider.isNull() & f.rlike(f.col("_text"), f.lit(_of_name(name, _inexact(kind))))
    return too_great | (value.try_cast(wide) != wider)


def _with_comma(kind: str, value: Column, name: str) -> Column:
    """The text that became the value of a DECIMAL without its commas; null if it had none."""
    given = f.regexp_extract_all(f.col("_text"), f.lit(_of_name(name, r'"([^",]*,[^"]*)"')), f.lit(1))
    # Not a filter by the value, which may be a variable of a lambda around it: Spark plans no Python function
    # whose argument has a lambda that names a variable of another one (its ExtractPythonUDFs looks for the
    # columns of the canonical form, in which such a variable is none).
    without = f.transform(given, lambda one: f.replace(one, f.lit(","), f.lit("")).try_cast(kind))
    return f.get(given, f.array_position(without, value).cast("int") - 1)


def _of_name(name: str, pattern: str) -> str:
    """The pattern of a value, with what stands before it if it has this name."""
    return _BEFORE + pattern if name in (_ELEMENTS, _MAPPED) else f'"{_after([name], pattern)}'


def _shown(kind: str, wider: Column) -> Column:
    """The value in an error."""
    if kind in _WHOLE:
        return f.btrim(wider, f.lit('"'))  # Infinity is written as a string
    if kind_of(kind) != "decimal":
        return wider
    short = f.regexp_replace(wider.cast("string"), f.lit(r"(\.\d*?)0+$"), f.lit("$1"))
    return f.coalesce(short, f.lit("so many digits"))
