"""The head of a Java class file: whether the class is abstract, and its superclass.

Source: the Java Virtual Machine Specification, chapter 4.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, Self

_POOL_AT: Final = 10
_TEXT, _CLASS = 1, 7
_SIZES: Final = {
    **dict.fromkeys((3, 4, 9, 10, 11, 12, 17, 18), 4),
    **dict.fromkeys((5, 6), 8),
    **dict.fromkeys((_CLASS, 8, 16, 19, 20), 2),
    15: 3,
}
"""The bytes of a constant after its tag, by the tag."""
_TWO_ENTRIES: Final = (5, 6)
_ABSTRACT: Final = 0x0400


class ClassHeader(NamedTuple):
    is_abstract: bool
    superclass: str
    """With slashes for dots; empty for Object and modules."""

    @classmethod
    def of(cls, content: bytes) -> Self:
        """The header of a class file."""
        texts: dict[int, str] = {}
        classes: dict[int, int] = {}
        (count,) = struct.unpack_from(">H", content, _POOL_AT - 2)
        index, at = 1, _POOL_AT
        while index < count:
            tag = content[at]
            at += 1
            if tag == _TEXT:
                (length,) = struct.unpack_from(">H", content, at)
                at += 2
                texts[index] = content[at : at + length].decode(errors="replace")
                at += length
            else:
                if tag == _CLASS:
                    (classes[index],) = struct.unpack_from(">H", content, at)
                at += _SIZES[tag]
            index += 2 if tag in _TWO_ENTRIES else 1
        flags, _, superclass = struct.unpack_from(">HHH", content, at)
        return cls(bool(flags & _ABSTRACT), texts[classes[superclass]] if superclass else "")
