"""DER, the encoding of certificates (X.690): elements that contain others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_VERSION: Final = 0xA0


class Element(NamedTuple):
    """An element of DER."""

    tag: int
    content: memoryview
    whole: memoryview
    """The element with its tag and length."""


def elements(data: memoryview) -> Iterator[Element]:
    """The elements that follow each other in `data`."""
    position = 0
    while position < len(data):
        start, tag, length = position, data[position], data[position + 1]
        position += 2
        if length & 0x80:
            count = length & 0x7F
            length = int.from_bytes(data[position : position + count], "big")
            position += count
        end = position + length
        yield Element(tag, data[position:end], data[start:end])
        position = end


def fields_of(certificate: bytes) -> list[Element]:
    """The fields of a certificate (RFC 5280, TBSCertificate) from its serial number on."""
    whole, *_ = elements(memoryview(certificate))
    body, *_ = elements(whole.content)
    fields = list(elements(body.content))
    return fields[1:] if fields[0].tag == _VERSION else fields


def dotted(content: memoryview) -> str:
    """An object identifier with dots."""
    numbers, value = [], 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
