"""The class files of tests say which are subclasses of the harness."""

from __future__ import annotations

import struct

from interop.kafka_own.class_header import ClassHeader

_PUBLIC, _ABSTRACT = 0x0001, 0x0400


def _class_file(flags: int) -> bytes:
    """A class `A` above `B`, after a constant that takes two entries."""
    constants = [
        struct.pack(">BQ", 5, 1),
        struct.pack(">BH1s", 1, 1, b"A"),
        struct.pack(">BH", 7, 3),
        struct.pack(">BH1s", 1, 1, b"B"),
        struct.pack(">BH", 7, 5),
    ]
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 61, 7)
    return head + b"".join(constants) + struct.pack(">HHH", flags, 6, 4)


def test_a_class_names_its_superclass() -> None:
    assert ClassHeader.of(_class_file(_PUBLIC)) == ClassHeader(is_abstract=False, superclass="A")
    assert ClassHeader.of(_class_file(_PUBLIC | _ABSTRACT)).is_abstract
