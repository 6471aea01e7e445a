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
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import chain
from typing import Any, Final, NoReturn

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
_BEYOND: Final = 10**_MOST_DIGITS  # the least whole number that no DECIMAL holds
_MOST_LEVELS: Final = 32
"""Of a JSON object and what it contains.

Python and Spark recurse several times for each, and Spark's analyzer takes a step for each, of at most 100.
"""


class _Real(str):
    """The text of a number with a fraction or an exponent."""

    __slots__ = ()


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
    """The JSON objects among some texts.

    Other texts are left out, and objects with too many levels, which no column could hold.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._objects = list(_objects(texts))
        self._seen = _Seen(self._objects)

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
        return _fitting(self._objects, self._seen, columns)


def _fitting(objects: list[Any], seen: _Seen, columns: Struct) -> int:
    """Halves the objects until each part fits, since most of them do."""
    if seen.fit(columns):
        return len(objects)
    if len(objects) == 1:
        return 0
    middle = len(objects) // 2
    return sum(_fitting(half, _Seen(half), columns) for half in (objects[:middle], objects[middle:]))


class _Seen:
    """The values at one place, counted together: a call for each takes several times as long."""

    __slots__ = ("counts", "elements", "fields", "reals")

    def __init__(self, values: Iterable[Any]) -> None:
        present = [value for value in values if value is not None]
        types = Counter(map(type, present))
        self.counts: Counter[_Kind] = Counter()
        for kind, count in types.items():
            if kind is int:
                self.counts += _whole_kinds([value for value in present if type(value) is int])
            else:
                self.counts[_KINDS[kind]] = count
        self.reals: list[_Real] = [value for value in present if type(value) is _Real]
        inner: defaultdict[str, list[Any]] = defaultdict(list)
        if dict in types:
            for one in present:
                if type(one) is dict:
                    for name, value in one.items():
                        inner[name].append(value)
            inner.pop("", None)
        self.fields = {name: _Seen(found) for name, found in inner.items()}
        lists = [value for value in present if type(value) is list] if list in types else []
        self.elements = _Seen(chain.from_iterable(lists)) if lists else None

    def fit(self, kind: SparkType) -> bool:
        """Whether all values fit."""
        kinds = set(self.counts)
        if kind == "string":
            return True
        if isinstance(kind, str):
            if kind_of(kind) == "decimal":
                before, after = _digits(kind)
                big = _Kind.BIG in kinds and before < _MOST_DIGITS
                return kinds <= _NUMBERS and not big and all(_after(one) <= after for one in self.reals)
            return any(name == kind and kinds <= fitting for fitting, name in _TYPES)
        if kind["type"] == "array":
            inner = kind["elementType"]
            return kinds <= {_Kind.ARRAY} and (self.elements is None or self.elements.fit(inner))
        columns = {one["name"]: one["type"] for one in kind["fields"]}
        spelled = {name.lower() for name in columns}
        return kinds <= {_Kind.OBJECT} and all(
            found.fit(columns[name]) if name in columns else not found.counts or name.lower() not in spelled
            for name, found in self.fields.items()
        )

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
            nothing = _Seen(())
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
        beyond, counts = 0, Counter(map(_after, self.reals))
        for digits in sorted(counts, reverse=True):
            beyond += counts[digits]
            if beyond * _MINORITY > total:
                return digits
        return 0


def _digits(kind: str) -> tuple[int, int]:
    """The digits of a DECIMAL before and after the point."""
    precision, scale = decimal_digits(kind)
    return precision - scale, scale


def _objects(texts: Iterable[str]) -> Iterator[dict[str, Any]]:
    for text in texts:
        try:
            value = _DECODER.decode(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and not _too_deep(text, value):
            yield value


def _too_deep(text: str, value: Any) -> bool:
    if text.count("{") + text.count("[") <= _MOST_LEVELS:
        return False
    within = [value]
    for _ in range(_MOST_LEVELS):
        values = (one.values() if isinstance(one, dict) else one for one in within)
        within = [one for one in chain.from_iterable(values) if isinstance(one, dict | list)]
        if not within:
            return False
    return True


def _whole(text: str) -> int:
    # Python reads a number of any length, but the time it takes grows with the square of it.
    return int(text) if len(text) <= _MOST_DIGITS + 1 else _BEYOND


def _whole_kinds(numbers: list[int]) -> Counter[_Kind]:
    if min(numbers) >= -_EXACT_IN_A_DOUBLE and max(numbers) <= _EXACT_IN_A_DOUBLE:
        return Counter({_Kind.WHOLE: len(numbers)})
    return Counter(map(_whole_kind, numbers))


def _whole_kind(number: int) -> _Kind:
    if abs(number) <= _EXACT_IN_A_DOUBLE:
        return _Kind.WHOLE
    if -(2**63) <= number < 2**63:
        return _Kind.LONG
    return _Kind.BIG if abs(number) < _BEYOND else _Kind.HUGE


def _after(number: _Real) -> int:
    """The digits of a number after the point.

    One that has more before the point than a BIGINT counts as one with very many after it.
    """
    match = _PARTS.fullmatch(number)
    assert match is not None
    whole, fraction, exponent = match[1], match[2] or "", match[3] or "0"
    if len(exponent) > 4:
        return _MOST_DIGITS
    digits = (whole + fraction).strip("0")
    zeros = len(fraction) - len((whole + fraction).rstrip("0")) + len(whole) if digits else 0
    after = max(len(fraction) - zeros - int(exponent), 0) if digits else 0
    before = len((whole + fraction).lstrip("0")) - len(fraction) + int(exponent) if digits else 0
    return after if before <= _DIGITS_OF_A_LONG else _MOST_DIGITS


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_KINDS: Final = {
    bool: _Kind.BOOLEAN,
    _Real: _Kind.REAL,
    str: _Kind.TEXT,
    dict: _Kind.OBJECT,
    list: _Kind.ARRAY,
}
_DECODER: Final = json.JSONDecoder(parse_int=_whole, parse_float=_Real, parse_constant=_no_number)
