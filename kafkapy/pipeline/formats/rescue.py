"""Divides JSON objects into what columns hold and what is kept as rescued data.

The rescued text is a JSON object with the fields that no column has, and those whose values a column's type
cannot hold, at the places where they were sent:

    columns       id BIGINT, s STRUCT<x: BIGINT>, a ARRAY<STRUCT<x: BIGINT>>
    sent          {"id": "n/a", "s": {"x": 1, "new": 1.0e1}, "a": [{"x": 1}, {"y": 2}]}
    the columns   {"s": {"x": 1}, "a": [{"x": 1}, {}]}
    rescued       {"id": "n/a", "s": {"new": 1.0e1}, "a": [null, {"y": 2}]}

Numbers keep their digits. Of an array or map with a value that does not fit, all is rescued. Fields without a
column that are null are left out, as a column for them would be null too. Which columns cannot hold their
value is said by Spark's reader (`json_rescue.py`), apart from half a surrogate pair in a text, and numbers
that it rounds in a STRING column (`rounded_texts.py`).

This runs in the Python of executors.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

from kafkapy.pipeline.formats.spark_types import SparkType, Struct, kind_of, struct_fields

_HALF: Final = re.compile(r"[\ud800-\udfff]")
_NOTHING: Final = object()


class _Number(str):
    """The digits of a number."""

    __slots__ = ()


class Rescue:
    """Divides the texts of objects with these columns.

    `keys` are columns without which a row is of no use: a record whose key does not fit is not divided.
    """

    def __init__(self, columns: Struct, keys: Collection[str] = ()) -> None:
        self._columns = columns
        self._keys = {key.lower() for key in keys}
        self._places = {path: number for number, (path, _) in enumerate(struct_fields(columns))}

    def __call__(self, text: str | None, bad: Collection[int] | None) -> tuple[str, str] | None:
        """The texts for the columns and for the column of rescued data.

        `bad` are the numbers of the fields, in the order of `struct_fields`, that Spark's reader left null or
        took for another value; None if the record has no error. The result is None if nothing is rescued.
        """
        if text is None:
            return None
        try:
            value, twice = _parsed(text)
            if twice and bad is not None:
                return None
            kept, left = self._object(self._columns, value, (), bad)
            if left is _NOTHING or self._has_key(left):
                return None
            return _written(kept), _written(left)
        except (ValueError, RecursionError):
            return None

    def _has_key(self, left: dict[str, Any]) -> bool:
        return any((name,) in self._places and name.lower() in self._keys for name in left)

    def _object(
        self, columns: Struct, value: Any, path: tuple[str, ...] | None, bad: Collection[int] | None
    ) -> tuple[Any, Any]:
        """`path` is None within an array or a map."""
        if not isinstance(value, dict):
            return value, _NOTHING
        kinds = {one["name"]: one["type"] for one in columns["fields"]}
        kept, left = {}, {}
        for name, inner in value.items():
            if name not in kinds:
                if inner is not None:
                    left[name] = inner
                continue
            within = None if path is None else (*path, name)
            if inner is not None and self._is_bad(kinds[name], inner, within, bad):
                left[name] = inner
                continue
            kept[name], rest = self._divided(kinds[name], inner, within, bad)
            if rest is not _NOTHING:
                left[name] = rest
        return kept, left or _NOTHING

    def _is_bad(
        self, kind: SparkType, value: Any, path: tuple[str, ...] | None, bad: Collection[int] | None
    ) -> bool:
        if path is None or bad is None:
            return False
        if kind_of(kind) == "struct":
            return not isinstance(value, dict) and self._places[path] in bad
        return self._places[path] in bad or _has_half(value) or _has_rounded(kind, value)

    def _divided(
        self, kind: SparkType, value: Any, path: tuple[str, ...] | None, bad: Collection[int] | None
    ) -> tuple[Any, Any]:
        if isinstance(kind, str):
            return value, _NOTHING
        if kind["type"] == "struct":
            return self._object(kind, value, path, bad)
        if kind["type"] == "array" and isinstance(value, list):
            parts = [self._divided(kind["elementType"], one, None, bad) for one in value]
            if all(rest is _NOTHING for _, rest in parts):
                return value, _NOTHING
            return [one for one, _ in parts], [None if rest is _NOTHING else rest for _, rest in parts]
        if kind["type"] == "map" and isinstance(value, dict):
            inner = {name: self._divided(kind["valueType"], one, None, bad) for name, one in value.items()}
            left = {name: rest for name, (_, rest) in inner.items() if rest is not _NOTHING}
            return {name: one for name, (one, _) in inner.items()}, left or _NOTHING
        return value, _NOTHING


def restored(columns: str, rescued: str | None) -> str:
    """The object that was sent, from the JSON of its columns and the rescued text."""
    if rescued is None:
        return columns
    return _written(_together(_parsed(columns)[0], _parsed(rescued)[0]))


def _together(kept: Any, left: Any) -> Any:
    if isinstance(kept, dict) and isinstance(left, dict):
        added = {name: _together(kept[name], one) if name in kept else one for name, one in left.items()}
        return {**kept, **added}
    if isinstance(kept, list) and isinstance(left, list) and len(kept) == len(left):
        return [one if rest is None else _together(one, rest) for one, rest in zip(kept, left, strict=True)]
    return left


def _parsed(text: str) -> tuple[Any, bool]:
    """The value, in which numbers are texts, and whether an object has a name twice."""
    twice = False

    def as_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        found = dict(pairs)
        twice = twice or len(found) < len(pairs)
        return found

    value = json.loads(
        text,
        parse_int=_Number,
        parse_float=_Number,
        parse_constant=_no_number,
        object_pairs_hook=as_object,
    )
    return value, twice


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _written(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        return f"{{{','.join(f'{_written(name)}:{_written(one)}' for name, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    return json.dumps(value, ensure_ascii=_has_half(value))


def _has_half(value: Any) -> bool:
    """Whether a text within has half a surrogate pair, which UTF-8 cannot write."""
    if isinstance(value, str):
        return _HALF.search(value) is not None
    if isinstance(value, dict):
        return any(_has_half(name) or _has_half(one) for name, one in value.items())
    return isinstance(value, list) and any(map(_has_half, value))


def _has_rounded(kind: SparkType, value: Any) -> bool:
    """Whether a STRING within has a number that Spark's reader writes as another one."""
    if isinstance(kind, str):
        return kind == "string" and _is_rounded(value)
    if kind["type"] == "array":
        return isinstance(value, list) and any(_has_rounded(kind["elementType"], one) for one in value)
    if not isinstance(value, dict):
        return False
    if kind["type"] == "map":
        return any(_has_rounded(kind["valueType"], one) for one in value.values())
    return any(_has_rounded(one["type"], value.get(one["name"])) for one in kind["fields"])


def _is_rounded(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_is_rounded, value.values()))
    if isinstance(value, list):
        return any(map(_is_rounded, value))
    if not isinstance(value, _Number) or set(value).isdisjoint(".eE"):
        return False
    number = float(value)
    try:
        return math.isinf(number) or Decimal(value) != Decimal(repr(number))
    except InvalidOperation:  # an exponent of more digits than a Decimal takes
        return True
