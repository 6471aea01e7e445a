"""Which records a command shows: by key, and by what is in their values.

    total>100    customer.name=alice    lines[0].sku~^A    paid    $header.trace=17

A condition is a path, and an operator with a value. The path begins at the record's value, or at one of
`$key`, `$value`, `$topic`, `$partition`, `$offset`, `$timestamp` and `$header`.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kafkapy.commands.decoding.decoder import Decoder
from kafkapy.errors import UserError
from kafkapy.patterns import Pattern, PatternError, compile_pattern

_CONDITION: Final = re.compile(
    r"(?P<path>\$?[^=!<>~\[\].]+(?:\.[^=!<>~\[\].]+|\[\d{1,9}\])*)(?:(?P<operator>!=|>=|<=|=|>|<|~)(?P<value>.*))?",
    re.DOTALL,
)
_STEP: Final = re.compile(r"\[(\d{1,9})\]|([^.\[\]]+)")
_MOST_DIGITS: Final = 400
"""A text that is longer is no number that anybody compares with."""
_SHOWN: Final = 100
"""So many characters of what is wrong are in a message."""
_MISSING: Final = object()
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
_OF_RECORDS: Final[Mapping[str, Callable[[Any, Decoder], Any]]] = {
    "$key": lambda record, decoder: decoder.value(record.key),
    "$value": lambda record, decoder: decoder.value(record.value),
    "$topic": lambda record, _: record.topic,
    "$partition": lambda record, _: record.partition,
    "$offset": lambda record, _: record.offset,
    "$timestamp": lambda record, _: record.timestamp,
    "$header": lambda record, decoder: {key: decoder.value(value) for key, value in record.headers or ()},
}


class RecordFilter:
    """Records that fulfil all conditions.

    Args:
        key: a regular expression that is searched in the key's text.
        conditions: as above.

    Raises:
        UserError: one cannot be read.
    """

    def __init__(self, key: str | None, conditions: Sequence[str], decoder: Decoder) -> None:
        self.decoder = decoder
        self._key = None if key is None else _pattern(f"key {key[:_SHOWN]}", key)
        self._conditions = [_Condition(text) for text in conditions]

    def takes(self, record: Any) -> bool:
        """Whether a record is one of them."""
        if self._key is not None and (
            record.key is None or not _matches(self._key, self.decoder.text(record.key))
        ):
            return False
        read = _Read(record, self.decoder)
        return all(each.holds(read) for each in self._conditions)


class _Read:
    """A record whose parts are decoded once, when they are asked for."""

    def __init__(self, record: Any, decoder: Decoder) -> None:
        self._record, self._decoder = record, decoder
        self._parts: dict[str, Any] = {}

    def part(self, name: str) -> Any:
        if name not in self._parts:
            self._parts[name] = _OF_RECORDS[name](self._record, self._decoder)
        return self._parts[name]


class _Condition:
    def __init__(self, text: str) -> None:
        found = _CONDITION.fullmatch(text)
        if found is None or (found["operator"] in _ORDERS and not found["value"].strip()):
            raise UserError(
                f"condition {text[:_SHOWN]}: expected one such as total>100 or customer.name=alice"
            )
        first, *rest = _STEP.findall(found["path"].strip())
        self._begin = "$value"
        self._steps = [first, *rest]
        if first[1].startswith("$"):
            if first[1] not in _OF_RECORDS:
                raise UserError(f"condition {text[:_SHOWN]}: expected one of {', '.join(_OF_RECORDS)}")
            self._begin, self._steps = first[1], rest
        self._operator, self._text = found["operator"], (found["value"] or "").strip()
        self._pattern = _pattern(f"condition {text[:_SHOWN]}", self._text) if self._operator == "~" else None
        try:
            self._value = json.loads(self._text) if self._text else ""
        except (ValueError, RecursionError):
            self._value = self._text

    def holds(self, read: _Read) -> bool:
        found = read.part(self._begin)
        for number, name in self._steps:
            found = _step(found, number, name)
        if self._operator is None:
            return found is not _MISSING and found is not None and found is not False
        if self._operator == "!=":
            return not self._is_equal(found)
        if found is _MISSING:
            return False
        if self._pattern is not None:
            return _matches(self._pattern, found if isinstance(found, str) else json.dumps(found))
        return self._is_equal(found) if self._operator == "=" else self._compares(found)

    def _is_equal(self, found: Any) -> bool:
        """A value is equal to what it is in JSON, and a text to how it is written."""
        if isinstance(found, bool) or isinstance(self._value, bool):
            return found is self._value
        return bool(found == self._value) or found == self._text

    def _compares(self, found: Any) -> bool:
        """Numbers as numbers, texts (times, for instance) as texts; nothing else has an order."""
        compare = _ORDERS[self._operator]
        if isinstance(found, str):
            # A key, a header, or a whole value that is written as a number is a text otherwise.
            number = _number(found) if _is_number(self._value) else None
            return compare(found, self._text) if number is None else compare(number, self._value)
        return _is_number(found) and _is_number(self._value) and compare(found, self._value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(text: str) -> int | float | None:
    """What a text is as a number of JSON; None if it is none."""
    try:
        value = json.loads(text) if len(text) <= _MOST_DIGITS else None
    except (ValueError, RecursionError):
        return None
    return value if _is_number(value) else None


def _step(value: Any, number: str, name: str) -> Any:
    if number and isinstance(value, list) and int(number) < len(value):
        return value[int(number)]
    if name and isinstance(value, Mapping) and name in value:
        return value[name]
    return _MISSING


def _matches(pattern: Pattern, text: str) -> bool:
    # A text of JSON may have half of a surrogate pair.
    return pattern.fullmatch(text.encode(errors="replace").decode()) is not None


def _pattern(about: str, text: str) -> Pattern:
    """What matches a text if the expression matches a part of it, in linear time."""
    try:
        return compile_pattern(f"(?s:.*)(?:{text})(?s:.*)")
    except PatternError as error:
        raise UserError(f"{about}: it is no regular expression: {error}") from None
