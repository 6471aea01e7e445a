"""What all message classes share.

The classes in `messages/` are plain slotted classes with a written-out constructor, not dataclasses: the
decorator compiles source for every class, 0.4 ms each, and a first client session touches some 60 of them,
which is a quarter of the time in which an in-process broker has to give its first answer. A constructor that
is in the module costs nothing: the interpreter caches its code.
"""

from typing import Any, ClassVar

EMPTY: list[Any] = []
"""The default of array fields in constructors: a list of its own is made for every message."""


class Message:
    """A request, a response, a record, or a struct inside one.

    Fields are attributes with Kafka's names in snake_case, all versions together; a field that a version does
    not have keeps its default there. Equal when all fields are equal. Never hashable.
    """

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """For people and logs: bytes show only their size; some are records and some are passwords."""
        shown = []
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, (bytes, bytearray, memoryview)) and not (len(value) == 16 and "_id" in name):
                shown.append(f"{name}=<{len(value)} bytes>")
            else:
                shown.append(f"{name}={value!r}")
        return f"{self.__class__.__name__}({', '.join(shown)})"


class TopMessage(Message):
    """A message with a schema of its own: what `codec` encodes and decodes."""

    __slots__ = ()

    KEY: ClassVar[int | None]
    """API key of a request or response, type of a record."""
    VERSIONS: ClassVar[tuple[int, int]]
    """First and last version."""
    FLEXIBLE_FROM: ClassVar[int | None]
    """First version with compact types and tagged fields."""
