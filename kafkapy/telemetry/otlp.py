"""The format of pushed metrics: OpenTelemetry's MetricsData, in protobuf.

    MetricsData          1 ResourceMetrics, repeated
    ResourceMetrics      1 Resource (1 KeyValue, repeated), 2 ScopeMetrics, repeated
    ScopeMetrics         2 Metric, repeated
    Metric               1 name, 5 Gauge, 7 Sum; other kinds are left out, clients of Kafka have none
    Gauge                1 NumberDataPoint, repeated
    Sum                  1 NumberDataPoint, repeated, 2 temporality (1: delta), 3 whether it only grows
    NumberDataPoint      4 the value as double, 6 as sfixed64, 7 KeyValue, repeated
    KeyValue             1 key, 2 AnyValue (1 string, 2 bool, 3 int64, 4 double)

It is decoded here, in Python, and not by the package opentelemetry-proto: that takes 140 ms to import, and
holds the interpreter while it makes an object of each message in a push, of which one may have half a
million. This decoder stops at bounds. A test compares it with the package.

Source: opentelemetry-proto's metrics.proto, common.proto, resource.proto; KIP-714.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from kafkapy.protocol.errors import DecodeError

MOST_FIELDS: Final = 100_000
"""How many fields of a push are read, which takes a quarter of a second of a thread."""

MOST_SAMPLES: Final = 1_000
"""How many samples of a push are taken."""

MOST_ATTRIBUTES: Final = 16
"""How many attributes of a sample are taken, and as many of its resource."""

LONGEST: Final = 255
"""The most characters of a name, a key or a value; a longer one is cut."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_VARINT_BYTES: Final = 10
_DELTA: Final = 1

_DOUBLE = struct.Struct("<d")
_INT64 = struct.Struct("<q")

Attributes = tuple[tuple[str, str], ...]


class OtlpSample(NamedTuple):
    """One value of a metric."""

    name: str
    attributes: Attributes
    """Those of the resource, then its own."""
    value: float
    only_grows: bool
    """Whether it is a counter."""
    is_delta: bool
    """Whether it is what was added since the last push."""


class Push(NamedTuple):
    """What a push holds."""

    samples: list[OtlpSample]
    left_out: int
    """The samples beyond the bounds; there may be more if it has too many fields."""


class _TooManyFieldsError(Exception):
    """No more fields of the push are read."""


def decode_push(data: bytes) -> Push:
    """Decode the metrics of a push.

    Raises:
        DecodeError: it is broken.
    """
    decoder = _Decoder(data)
    try:
        decoder.decode()
    except _TooManyFieldsError:
        decoder.left_out += 1
    return Push(decoder.samples, decoder.left_out)


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._fields_left = MOST_FIELDS
        self.samples: list[OtlpSample] = []
        self.left_out = 0

    def decode(self) -> None:
        for start, end in self._children(0, len(self._data), 1):
            self._resource_metrics(start, end)

    def _resource_metrics(self, start: int, end: int) -> None:
        """The resource may come after its metrics, so it is looked for first."""
        attributes: list[tuple[str, str]] = []
        for resource in self._children(start, end, 1):
            for pair in self._children(*resource, 1):
                self._attribute(*pair, attributes)
        for scope in self._children(start, end, 2):
            for metric in self._children(*scope, 2):
                self._metric(*metric, attributes)

    def _metric(self, start: int, end: int, of_resource: list[tuple[str, str]]) -> None:
        name, kind, data, delta, grows = "", 0, (0, 0), False, False
        for number, wire_type, value, size in self._fields(start, end):
            if wire_type == _BYTES:
                if number == 1:
                    name = self._text(value, size)
                elif number in (5, 7):
                    kind, data = number, (value, value + size)
        if not kind or not name:
            return
        if kind == 7:
            for number, wire_type, value, _ in self._fields(*data):
                if wire_type == _VARINT and number == 2:
                    delta = value == _DELTA
                elif wire_type == _VARINT and number == 3:
                    grows = bool(value)
        for point in self._children(*data, 1):
            if len(self.samples) >= MOST_SAMPLES:
                self.left_out += 1
                continue
            attributes = list(of_resource)
            found = self._point(*point, attributes, len(of_resource) + MOST_ATTRIBUTES)
            if found is not None:
                self.samples.append(OtlpSample(name, tuple(attributes), found, grows, delta))

    def _point(self, start: int, end: int, attributes: list[tuple[str, str]], most: int) -> float | None:
        found: float | None = None
        for number, wire_type, value, size in self._fields(start, end):
            if number == 4 and wire_type == _FIXED64:
                (found,) = _DOUBLE.unpack_from(self._data, value)
            elif number == 6 and wire_type == _FIXED64:
                (found,) = _INT64.unpack_from(self._data, value)
            elif number == 7 and wire_type == _BYTES:
                self._attribute(value, value + size, attributes, most)
        return found

    def _attribute(
        self, start: int, end: int, attributes: list[tuple[str, str]], most: int = MOST_ATTRIBUTES
    ) -> None:
        if len(attributes) >= most:
            return
        key, text = "", ""
        for number, wire_type, value, size in self._fields(start, end):
            if wire_type == _BYTES and number == 1:
                key = self._text(value, size)
            elif wire_type == _BYTES and number == 2:
                text = self._any_value(value, value + size)
        if key:
            attributes.append((key, text))

    def _any_value(self, start: int, end: int) -> str:
        text = ""
        for number, wire_type, value, size in self._fields(start, end):
            if number == 1 and wire_type == _BYTES:
                text = self._text(value, size)
            elif number == 2 and wire_type == _VARINT:
                text = "true" if value else "false"
            elif number == 3 and wire_type == _VARINT:
                text = str(value - (1 << 64) if value >> 63 else value)
            elif number == 4 and wire_type == _FIXED64:
                text = str(_DOUBLE.unpack_from(self._data, value)[0])
        return text

    def _text(self, start: int, size: int) -> str:
        """A character takes at most four bytes."""
        cut = self._data[start : start + min(size, 4 * LONGEST)]
        return cut.decode("utf-8", "replace")[:LONGEST]

    def _children(self, start: int, end: int, wanted: int) -> Iterator[tuple[int, int]]:
        """Where the messages with this number begin and end."""
        for number, wire_type, value, size in self._fields(start, end):
            if number == wanted and wire_type == _BYTES:
                yield value, value + size

    def _fields(self, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """The number and wire type of each field, and its value or place.

        The last two are the value of a varint and 0, or else the place and the size.
        """
        data = self._data
        while position < end:
            if not self._fields_left:
                raise _TooManyFieldsError
            self._fields_left -= 1
            tag, position = self._varint(position, end)
            number, wire_type = tag >> 3, tag & 7
            if wire_type == _VARINT:
                value, position = self._varint(position, end)
                yield number, wire_type, value, 0
                continue
            if wire_type == _BYTES:
                size, position = self._varint(position, end)
            elif wire_type in (_FIXED64, _FIXED32):
                size = 8 if wire_type == _FIXED64 else 4
            else:
                raise DecodeError(f"wire type {wire_type} at byte {position} of {len(data)}")
            if size > end - position:
                raise DecodeError(f"a field of {size} bytes where {end - position} are left")
            yield number, wire_type, position, size
            position += size

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        data, value = self._data, 0
        for shift in range(0, 7 * _MOST_VARINT_BYTES, 7):
            if position >= end:
                raise DecodeError("a number ends early")
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF, position
        raise DecodeError("a number has more than ten bytes")
