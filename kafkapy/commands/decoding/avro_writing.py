"""JSON as Avro's binary encoding: the reverse of avro.py, for values as it shows them.

A value is written as it is, or refused: a record has all of its fields and no other, and of a union exactly
one branch takes the value. Bytes are `{"base64": …}`; decimals, dates and times are texts.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import io
import json
import re
import struct
from collections.abc import Callable
from typing import Any, Final

from avro import constants
from avro.io import BinaryEncoder

from kafkapy.commands.decoding.avro import MOST_DECIMAL, MOST_DEPTH, MOST_PARTS

_INTEGERS: Final = {"int": 31, "long": 63}
_FLOATS: Final = {"float": "<f", "double": "<d"}
_DECIMAL: Final = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?")
_MILLI: Final = 1000
"""Microseconds."""


def encoding(schema: Any) -> Callable[[Any], bytes]:
    """What encodes JSON values by a schema; it raises ValueError for values that do not fit."""
    return lambda value: _Writing().encoded(schema, value, 0, in_union=False)


class _Writing:
    """Writes one value, within bounds: a union tries all of its branches."""

    def __init__(self) -> None:
        self._left = MOST_PARTS

    def encoded(self, schema: Any, value: Any, depth: int, *, in_union: bool) -> bytes:
        self._left -= 1
        if self._left < 0:
            raise _TooMuchError(f"it has more than {MOST_PARTS:,} parts")
        if depth == MOST_DEPTH:
            raise _TooMuchError("it is nested too deeply")
        match schema.type:
            case "union" | "error_union":
                return self._union(schema, value, depth)
            case "record" | "error":
                return self._record(schema, value, depth)
            case "array":
                _expect(isinstance(value, list), "an array", value)
                each = [self.encoded(schema.items, item, depth + 1, in_union=False) for item in value]
                return _blocks(each)
            case "map":
                _expect(isinstance(value, dict), "an object", value)
                pairs = value.items()
                return _blocks(
                    [
                        _leaf("write_utf8", name)
                        + self.encoded(schema.values, item, depth + 1, in_union=False)
                        for name, item in pairs
                    ]
                )
        return _scalar(schema, value, in_union=in_union)

    def _union(self, schema: Any, value: Any, depth: int) -> bytes:
        found: list[tuple[int, bytes]] = []
        problems: list[str] = []
        for number, branch in enumerate(schema.schemas):
            try:
                found.append((number, self.encoded(branch, value, depth + 1, in_union=True)))
            except _TooMuchError:
                raise
            except ValueError as error:
                problems.append(str(error))
        if len(found) > 1:
            names = " and ".join(_name(schema.schemas[number]) for number, _ in found)
            raise ValueError(f"{_short(value)} may be {names} of a union: which one, JSON does not say")
        if not found:
            likely = [problem for problem in problems if not problem.startswith("expected")]
            raise ValueError((likely or [f"no branch of a union takes {_short(value)}"])[0])
        ((number, data),) = found
        return _leaf("write_long", number) + data

    def _record(self, schema: Any, value: Any, depth: int) -> bytes:
        _expect(isinstance(value, dict), "an object", value)
        names = [field.name for field in schema.fields]
        for name in names:
            if name not in value:
                raise ValueError(f"the field {name} is missing")
        for name in value:
            if name not in names:
                raise ValueError(f"there is no field {name}")
        parts = []
        for field in schema.fields:
            try:
                parts.append(self.encoded(field.type, value[field.name], depth + 1, in_union=False))
            except _TooMuchError:
                raise
            except ValueError as error:
                raise ValueError(f"{field.name}: {error}") from None
        return b"".join(parts)


class _TooMuchError(ValueError):
    """No other branch of a union is tried."""


def _scalar(schema: Any, value: Any, *, in_union: bool) -> bytes:
    kind, logical = schema.type, getattr(schema, "logical_type", None)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "null":
            _expect(value is None, "null", value)
            return b""
        case "boolean":
            _expect(isinstance(value, bool), "true or false", value)
            return _leaf("write_boolean", value)
        case "string":
            _expect(isinstance(value, str), "a text", value)
            return _leaf("write_utf8", value)
        case "enum":
            _expect(isinstance(value, str) and value in schema.symbols, "a symbol of the enum", value)
            return _leaf("write_int", schema.symbols.index(value))
        case "int" | "long":
            if logical in _TIMES:
                return _time(logical, value)
            _expect(is_number and isinstance(value, int), "a whole number", value)
            if not -(1 << _INTEGERS[kind]) <= value < 1 << _INTEGERS[kind]:
                raise ValueError(f"{_short(value)} is too large for {kind}")
            return _leaf("write_long", value)
        case "float" | "double":
            # In a union, a whole number is none of these: it is written with a point.
            _expect(is_number and not (in_union and isinstance(value, int)), "a number", value)
            try:
                return struct.pack(_FLOATS[kind], value)
            except OverflowError:
                raise ValueError(f"{_short(value)} is too large for {kind}") from None
        case "bytes" | "fixed":
            return _bytes(schema, logical, value)
    raise ValueError(f"its type {kind} is not known")


def _bytes(schema: Any, logical: str | None, value: Any) -> bytes:
    scale, precision = (schema.get_prop(name) for name in ("scale", "precision"))
    size = schema.size if schema.type == "fixed" else None
    if logical == "decimal" and isinstance(scale, int) and isinstance(precision, int):
        number = _unscaled(value, scale, precision)
        length = number.bit_length() // 8 + 1
        if size is not None and length > size:
            raise ValueError(f"{_short(value)} is too large for {size} bytes")
        data = number.to_bytes(size or length, "big", signed=True)
    else:
        is_one = isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str)
        _expect(is_one, '{"base64": …}', value)
        try:
            data = base64.b64decode(value["base64"], validate=True)
        except binascii.Error:
            raise ValueError("the base64 cannot be decoded") from None
    if size is None:
        return _leaf("write_bytes", data)
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes where {schema.name} has {size}")
    return data


def _unscaled(value: Any, scale: int, precision: int) -> int:
    """A decimal without its point."""
    found = _DECIMAL.fullmatch(value) if isinstance(value, str) and len(value) <= MOST_DECIMAL else None
    _expect(found is not None and scale <= MOST_DECIMAL, "a decimal as a text", value)
    assert found is not None
    sign, whole, places = found[1], found[2], found[3] or ""
    if len(places) > scale:
        raise ValueError(f"{_short(value)} has more than {scale} places after its point")
    digits = f"{whole}{places:0<{scale}}" if scale else whole
    if len(digits.lstrip("0")) > precision:
        raise ValueError(f"{_short(value)} has more than {precision} digits")
    return int(sign + digits)


def _time(logical: str, value: Any) -> bytes:
    kind, write, step = _TIMES[logical]
    parsed: Any = None
    if isinstance(value, str):
        try:
            parsed = kind.fromisoformat(value)
        except ValueError:
            parsed = None
    _expect(parsed is not None and str(parsed) == value, f"a {kind.__name__} as it is shown", value)
    if kind is not datetime.date and parsed.microsecond % step:
        raise ValueError(f"{value} has fractions of a millisecond")
    if kind is datetime.datetime and parsed.tzinfo is None:
        raise ValueError(f"{value} has no zone, such as +00:00")
    return _leaf(write, parsed)


_TIMES: Final[dict[str, tuple[Any, str, int]]] = {
    constants.DATE: (datetime.date, "write_date_int", 1),
    constants.TIME_MILLIS: (datetime.time, "write_time_millis_int", _MILLI),
    constants.TIME_MICROS: (datetime.time, "write_time_micros_long", 1),
    constants.TIMESTAMP_MILLIS: (datetime.datetime, "write_timestamp_millis_long", _MILLI),
    constants.TIMESTAMP_MICROS: (datetime.datetime, "write_timestamp_micros_long", 1),
}
"""The types that are shown as texts: what they are, how they are written, and their smallest part."""


def _leaf(write: str, value: Any) -> bytes:
    stream = io.BytesIO()
    getattr(BinaryEncoder(stream), write)(value)
    return stream.getvalue()


def _blocks(items: list[bytes]) -> bytes:
    """The items of an array or a map in one block."""
    end = _leaf("write_long", 0)
    return _leaf("write_long", len(items)) + b"".join(items) + end if items else end


def _expect(fits: bool, what: str, value: Any) -> None:
    if not fits:
        raise ValueError(f"expected {what}, not {_short(value)}")


def _name(schema: Any) -> str:
    return str(getattr(schema, "name", None) or schema.type)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"
