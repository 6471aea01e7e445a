"""Avro's binary encoding as JSON has it, by Apache Avro's own library, within bounds.

A few bytes can say that an array has a billion nulls, or nest records without end, and records come from
anybody: so what the library reads is counted. Its other readers are no choice: fastavro is sixteen times as
fast, and ends the process on records that are nested deeply.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from avro.errors import AvroException
from avro.io import BinaryDecoder, DatumReader

MOST_PARTS: Final = 100_000
MOST_DEPTH: Final = 128
MOST_DECIMAL: Final = 1024
"""The most bytes of a decimal, and of places after its point: Python refuses to write much longer numbers."""


def decoding(schema: Any) -> Callable[[bytes], Any]:
    """What decodes values of a schema; it raises ValueError for bytes that are none.

    Bytes are `{"base64": …}`; decimals, dates, times and UUIDs are texts.
    """

    def decode(data: bytes) -> Any:
        stream = io.BytesIO(data)
        try:
            value = _Reader(schema, schema).read(_Leaves(stream))
        except (AvroException, ArithmeticError) as error:
            raise ValueError(str(error).partition("\n")[0]) from None  # a whole schema may follow
        if left := len(data) - stream.tell():
            raise ValueError(f"{left} bytes are left after the value")
        return _plain(value)

    return decode


class _Reader(DatumReader):  # type: ignore[misc]
    """Reads one value."""

    _left = MOST_PARTS
    _depth = 0

    def read_data(self, *arguments: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {MOST_PARTS:,} parts")
        if self._depth == MOST_DEPTH:
            raise ValueError("it is nested too deeply")
        self._depth += 1
        value = super().read_data(*arguments)
        self._depth -= 1
        return value

    def read_union(self, schema: Any, _: Any, decoder: Any) -> Any:
        """A value of its branch: no other schema is read by, so that none has to be resolved."""
        number = decoder.read_long()
        if not 0 <= number < len(schema.schemas):
            raise ValueError(f"a union has no branch {number}")
        branch = schema.schemas[number]
        return self.read_data(branch, branch, decoder)


class _Leaves(BinaryDecoder):  # type: ignore[misc]
    """Reads what has no parts."""

    def read_decimal_from_fixed(self, precision: int, scale: int, size: int) -> str:
        """A decimal as it is: the library rounds it, and takes long for a large one."""
        if max(size, scale) > MOST_DECIMAL:
            raise ValueError("it has a decimal of too many digits")
        number = int.from_bytes(self.read(size), "big", signed=True)
        return format(Decimal(f"{number}E-{scale}"), "f")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)  # a time, a date, a UUID
