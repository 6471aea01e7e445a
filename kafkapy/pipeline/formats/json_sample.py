"""Counts the kinds of values in a sample of JSON records, which decide the columns' types.

A kind that at most one value in a hundred of a field has does not decide the field's type: such a record will
be a dead letter. The other kinds together do:

    whole numbers of 64 bits                      BIGINT
    whole numbers, some beyond 64 bits            DECIMAL(38,0)
    numbers with a fraction or an exponent        DOUBLE, also with whole numbers up to 2^53 beside them
    true and false                                BOOLEAN
    objects, arrays                               STRUCT, ARRAY
    strings; whole numbers beyond 38 digits; all other mixtures  STRING

A place that has only null, [] or {} has no type yet.

A BIGINT becomes wider in the same way (`widened`): DECIMAL(20+S,S) for numbers with S digits after the
point, of which at most one number in a hundred has more, or DECIMAL(38,0) for whole numbers beyond 64 bits.
So does a DECIMAL with more of these digits. Both hold all the former values.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final, NamedTuple, NoReturn

from kafkapy.pipeline.formats.spark_types import (
    SparkType,
    Struct,
    array,
    decimal_digits,
    field,
    kind_of,
    struct_of,
)

_MINORITY: Final = 100  # of so many values, one decides nothing
_EXACT_IN_A_DOUBLE: Final = 2**53
_MOST_DIGITS: Final = 38
_PARTS: Final = re.compile(r"-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?")
_DIGITS_OF_A_LONG: Final = 20  # of the least DECIMAL to which Delta changes a BIGINT


class _Real(NamedTuple):
    """A number with a fraction or an exponent, by its digits after the point.

    One that has more before the point than a BIGINT counts as one with very many after it.
    """

    digits: int


class _Kind(Enum):
    BOOLEAN = "boolean"
    WHOLE = "whole"
    LONG = "whole, beyond 2^53"
    BIG = "whole, beyond 64 bits"
    HUGE = "whole, beyond 38 digits"
    REAL = "with a fraction or an exponent"
    TEXT = "text"
    ARRAY = "array"
    OBJECT = "object"


_TYPES: Final[tuple[tuple[frozenset[_Kind], str], ...]] = (
    (frozenset({_Kind.BOOLEAN}), "boolean"),
    (frozenset({_Kind.WHOLE, _Kind.LONG}), "long"),
    (frozenset({_Kind.WHOLE, _Kind.LONG, _Kind.BIG}), "decimal(38,0)"),
    (frozenset({_Kind.WHOLE, _Kind.REAL}), "double"),
)


_NUMBERS: Final = frozenset({_Kind.WHOLE, _Kind.LONG, _Kind.BIG, _Kind.REAL})


class Sample:
    """The JSON objects among some texts; other texts are left out."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._objects = list(_objects(texts))
        self._seen = _Seen()
        for one in self._objects:
            self._seen.add(one)

    def __len__(self) -> int:
        return len(self._objects)

    def found(self, known: Struct) -> Struct:
        """The fields, in the order of their names.

        Of names that differ only by case, the most frequent one comes first. Where `known` has an object or
        an array, there is one.
        """
        return self._seen.struct(known)

    def widened(self, columns: Struct) -> Struct:
        """The columns, of which some have a wider type."""
        found = self._seen.widened(columns)
        assert isinstance(found, dict)
        return found

    def fitting(self, columns: Struct) -> int:
        """The number of objects whose values all fit the columns."""
        return sum(1 for one in self._objects if _fits(columns, one))


class _Seen:
    """The values at one place."""

    __slots__ = ("counts", "digits", "elements", "fields")

    def __init__(self) -> None:
        self.counts: Counter[_Kind] = Counter()
        self.digits: Counter[int] = Counter()  # after the point
        self.fields: dict[str, _Seen] = {}
        self.elements: _Seen | None = None

    def add(self, value: Any) -> None:
        if value is None:
            return
        self.counts[_kind(value)] += 1
        if isinstance(value, _Real):
            self.digits[value.digits] += 1
        if isinstance(value, dict):
            for name, inner in value.items():
                if name:
                    self.fields.setdefault(name, _Seen()).add(inner)
        elif isinstance(value, list):
            self.elements = self.elements or _Seen()
            for one in value:
                self.elements.add(one)

    def struct(self, known: Struct) -> Struct:
        kinds = {one["name"]: one["type"] for one in known["fields"]}
        first: dict[str, str] = {}
        for name in sorted(self.fields):
            first.setdefault(name.lower(), name)

        def place(name: str) -> tuple[str, int]:
            return first[name.lower()], -self.fields[name].counts.total()

        found = [
            (name, self.fields[name].type(kinds.get(name))) for name in sorted(sorted(self.fields), key=place)
        ]
        return struct_of([field(name, kind) for name, kind in found if kind is not None])

    def type(self, known: SparkType | None) -> SparkType | None:
        """The type; None if there is none yet."""
        total = self.counts.total()
        kinds = {kind for kind, count in self.counts.items() if count * _MINORITY > total}
        wanted = None if known is None else kind_of(known)
        if wanted == "struct" or (wanted is None and kinds == {_Kind.OBJECT}):
            inner = self.struct(known if isinstance(known, dict) else struct_of([]))
            return inner if inner["fields"] else None
        if wanted == "array" or (wanted is None and kinds == {_Kind.ARRAY}):
            inside = known["elementType"] if isinstance(known, dict) else None
            element = self.elements.type(inside) if self.elements else None
            return None if element is None else array(element)
        if not kinds:
            return None
        return next((name for fitting, name in _TYPES if kinds <= fitting), "string")

    def widened(self, known: SparkType) -> SparkType:
        """The known type, or the wider one that the values here need."""
        if isinstance(known, dict):
            if known["type"] == "array":
                return known if self.elements is None else array(self.elements.widened(known["elementType"]))
            nothing = _Seen()
            return struct_of(
                [
                    field(one["name"], self.fields.get(one["name"], nothing).widened(one["type"]))
                    for one in known["fields"]
                ]
            )
        if known != "long" and kind_of(known) != "decimal":
            return known
        # Other values are dead letters with any type.
        numbers = {kind: count for kind, count in self.counts.items() if kind in _NUMBERS}
        total = sum(numbers.values())
        kinds = {kind for kind, count in numbers.items() if count * _MINORITY > total}
        before, after = (_DIGITS_OF_A_LONG, 0) if known == "long" else _digits(known)
        if _Kind.BIG in kinds:
            before = _MOST_DIGITS
        if _Kind.REAL in kinds:
            after = max(after, self._digits_after_the_point(total))
        if known == "long" and not kinds & {_Kind.BIG, _Kind.REAL}:
            return known
        return f"decimal({before + after},{after})" if before + after <= _MOST_DIGITS else known

    def _digits_after_the_point(self, total: int) -> int:
        """The number of digits that at most one value in a hundred exceeds."""
        beyond = 0
        for digits in sorted(self.digits, reverse=True):
            beyond += self.digits[digits]
            if beyond * _MINORITY > total:
                return digits
        return 0


def _digits(kind: str) -> tuple[int, int]:
    """The digits of a DECIMAL before and after the point."""
    precision, scale = decimal_digits(kind)
    return precision - scale, scale


def _objects(texts: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The objects, in which numbers are their kinds."""
    for text in texts:
        try:
            value = json.loads(text, parse_int=_whole, parse_float=_real, parse_constant=_no_number)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _whole(text: str) -> _Kind:
    if len(text) <= 15:
        return _Kind.WHOLE
    if len(text.removeprefix("-")) > _MOST_DIGITS:
        return _Kind.HUGE
    number = int(text)
    if abs(number) <= _EXACT_IN_A_DOUBLE:
        return _Kind.WHOLE
    return _Kind.LONG if -(2**63) <= number < 2**63 else _Kind.BIG


def _real(text: str) -> _Real:
    match = _PARTS.fullmatch(text)
    assert match is not None
    whole, fraction, exponent = match[1], match[2] or "", match[3] or "0"
    if len(exponent) > 4:
        return _Real(_MOST_DIGITS)
    digits = (whole + fraction).strip("0")
    zeros = len(fraction) - len((whole + fraction).rstrip("0")) + len(whole) if digits else 0
    after = max(len(fraction) - zeros - int(exponent), 0) if digits else 0
    before = len((whole + fraction).lstrip("0")) - len(fraction) + int(exponent) if digits else 0
    return _Real(after if before <= _DIGITS_OF_A_LONG else _MOST_DIGITS)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _kind(value: Any) -> _Kind:
    if isinstance(value, _Kind):
        return value
    if isinstance(value, _Real):
        return _Kind.REAL
    if isinstance(value, bool):
        return _Kind.BOOLEAN
    if isinstance(value, str):
        return _Kind.TEXT
    return _Kind.OBJECT if isinstance(value, dict) else _Kind.ARRAY


def _fits(kind: SparkType, value: Any) -> bool:
    if value is None or kind == "string":
        return True
    if isinstance(kind, str):
        return any(name == kind and _kind(value) in fitting for fitting, name in _TYPES)
    if kind["type"] == "array":
        return isinstance(value, list) and all(_fits(kind["elementType"], one) for one in value)
    if not isinstance(value, dict):
        return False
    kinds = {one["name"]: one["type"] for one in kind["fields"]}
    spelled = {name.lower() for name in kinds}
    return all(
        _fits(kinds[name], inner) if name in kinds else inner is None or name.lower() not in spelled
        for name, inner in value.items()
    )
