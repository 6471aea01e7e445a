"""Finds fields of JSON records that no column has.

To look at the names of every record takes as long as parsing it. So they are counted first. Each name has a
colon: if the text has no more colons than the parsed row has values, no name is left. That costs one search.
Where texts within have colons too, as times do, `":` is counted, which the text has as many of as names, or
more. Those before null are left out. Whitespace before a colon would hide a name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from operator import add, or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkapy.pipeline.formats.balanced import balanced
from kafkapy.pipeline.formats.changes.envelope import Envelope
from kafkapy.pipeline.formats.spark_types import SparkType, Struct, all_types, array, kind_of

if TYPE_CHECKING:
    from pyspark.sql import Column

WITHOUT_COLUMN: Final = "which no column has"
"""Ends the error of a record with a field for which a column can be added."""

# The type of a value of 900 levels takes more stack than Spark's threads have.
_MOST_LEVELS: Final = 200
_OBJECT: Final = "map<string, variant>"
_ARRAY: Final = "array<variant>"
# A type, as schema_of_variant writes it, other than those of null and of objects and arrays of nothing else.
_VALUE: Final = "(?:^|: |ARRAY<)(?!VOID|OBJECT<|ARRAY<)[A-Z]"
# A field with an empty name, which is ignored, with a type of some levels.
_NAMELESS: Final = "``: [A-Z]++(?:<(?:[^<>]|<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>)*>)?+"


def unnamed_field(
    columns: Struct, *, taken: Collection[str], forbidden: str, envelope: Envelope | None = None
) -> Column:
    """The error of a record that has a field without a column, null for all others.

    It is computed from `_text` and `_row`. `taken` and `forbidden` are those of `merged_columns`. Fields that
    are null, [] or {} do not count, nor those of an envelope that are no part of its row.
    """
    found = f.from_json(f.col("_text"), _OBJECT, {"maxNestingDepth": str(_MOST_LEVELS)})
    # A VARIANT has each name once, which a struct does not demand.
    unclear = f.when(
        found.isNull(),
        f"has an object with a name twice or more than {_MOST_LEVELS} levels, and may have a field without a "
        "column",
    )
    error = f.coalesce(unclear, _Names(taken, forbidden, envelope).in_object(columns, found, ""))
    return f.when(may_have_unnamed_field(columns), error)


def may_have_unnamed_field(columns: Struct) -> Column:
    """Whether a record may have a field without a column."""
    text, row = f.col("_text"), f.col("_row")
    names, values = _times(text, '":'), _values(columns, row)
    searched = f.call_function("substring_index", text, f.lit(":"), values + 1)
    more_colons = f.octet_length(searched) != f.octet_length(text)
    spaced = balanced(or_, [f.contains(text, f.lit(f"{space}:")) for space in " \t\r\n"])
    nulls = _times(text, '":null') + _times(text, '": null')
    return more_colons & (spaced | ((names != values) & (names != values + nulls)))


def _times(text: Column, part: str) -> Column:
    """How many times the part is in the text."""
    shorter = f.octet_length(f.replace(text, f.lit(part), f.lit(part[:-1])))
    return f.octet_length(text) - shorter


def _values(kind: SparkType, value: Column) -> Column:
    """The number of fields that are not null."""
    if isinstance(kind, str):
        return f.lit(0)
    if kind["type"] == "map":
        keys = f.when(value.isNotNull(), f.size(value)).otherwise(0)
        return keys + _values(array(kind["valueType"]), f.map_values(value))
    if kind["type"] == "array":
        inner = kind["elementType"]
        if not _has_names(inner):
            return f.lit(0)
        return f.coalesce(
            f.aggregate(value, f.lit(0), lambda count, one: count + _values(inner, one)), f.lit(0)
        )
    fields = [(value.getField(one["name"]), one["type"]) for one in kind["fields"]]
    counts = [one.isNotNull().cast("int") for one, _ in fields]
    counts += [_values(inner, one) for one, inner in fields if _has_names(inner)]
    return balanced(add, [f.lit(0), *counts])


def _all_names(kind: SparkType) -> Iterator[str]:
    if isinstance(kind, str):
        return
    if kind["type"] in ("array", "map"):
        yield from _all_names(kind["elementType"] if kind["type"] == "array" else kind["valueType"])
    else:
        for one in kind["fields"]:
            yield one["name"]
            yield from _all_names(one["type"])


def _has_names(kind: SparkType) -> bool:
    return any(kind_of(one) in ("struct", "map") for _, one in all_types(array(kind)))


def _type_of(value: Column) -> Column:
    """The type of a variant, without fields that have an empty name."""
    return f.regexp_replace(f.schema_of_variant(value), f.lit(_NAMELESS), f.lit(""))


class _Names:
    """The names of objects, each compared with its columns."""

    def __init__(self, taken: Collection[str], forbidden: str, envelope: Envelope | None) -> None:
        self._taken, self._forbidden, self._envelope = taken, forbidden, envelope
        self._rows = ("",) if envelope is None else envelope.row_paths

    def in_object(self, columns: Struct, found: Column, path: str) -> Column:
        """The error of the first field without a column in a map of variants."""
        names = [one["name"] for one in columns["fields"]]
        among = None if self._envelope is None else self._envelope.names_at(path)
        unnamed = f.map_keys(
            f.map_filter(
                found,
                lambda name, value: (
                    ~name.isin(names)
                    & (name != "" if among is None else name.isin(*among))
                    & f.rlike(_type_of(value), f.lit(_VALUE))
                ),
            )
        )
        errors = [f.get(f.transform(unnamed, lambda name: self._error(name, names, path)), f.lit(0))]
        for one in columns["fields"]:
            if _has_names(one["type"]):
                inner = f.try_element_at(found, f.lit(one["name"]))
                errors.append(self._in_value(one["type"], inner, f"{path}{one['name']}"))
        return f.coalesce(*errors)

    def _in_value(self, kind: SparkType, value: Column, path: str) -> Column:
        """The error of the first field without a column in a variant."""
        assert isinstance(kind, dict)
        if kind["type"] == "struct":
            return self.in_object(kind, f.try_variant_get(value, "$", _OBJECT), f"{path}.")
        elements = f.try_variant_get(value, "$", _ARRAY)
        inner = kind["elementType"]
        errors = f.transform(elements, lambda one: self._in_value(inner, one, f"{path}[]"))
        return f.get(f.filter(errors, lambda error: error.isNotNull()), f.lit(0))

    def _error(self, name: Column, names: list[str], path: str) -> Column:
        lower = f.lower(name)
        why = f.when(f.lit(False), "")
        if path in self._rows:
            why = why.when(lower.isin(*self._taken), "which has the name of one of the table's own columns")
        if names:
            holders = f.create_map(*(f.lit(text) for one in names for text in (one.lower(), one)))
            told = f.concat(
                f.lit("which differs from the column "),
                f.try_element_at(holders, lower),
                f.lit(" by case only"),
            )
            why = why.when(told.isNotNull(), told)
        if self._forbidden:
            odd = balanced(or_, [f.contains(name, f.lit(one)) for one in self._forbidden])
            why = why.when(odd, "which has a name that the table does not allow for a column")
        return f.concat(f.lit(f"has a field {path}"), name, f.lit(", "), why.otherwise(WITHOUT_COLUMN))
