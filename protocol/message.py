"""The base classes of all messages.

The classes in `messages/` are plain slotted classes with a generated constructor, not dataclasses. The
dataclass decorator compiles source for every class, which takes 0.4 ms each. A first client session uses
about 60 classes, so this would be a quarter of the time limit for the first response of an in-process broker.
A constructor in the module costs nothing, since the interpreter caches its code.
"""

from typing import Any, ClassVar

EMPTY: list[Any] = []
"""The default of array fields in constructors, which replace it with a new list."""


class Message:
    """A request, a response, a record, or a struct inside one.

    Fields are attributes with Kafka's names in snake_case, for all versions together. A field that a version
    does not have keeps its default. Two messages are equal when all fields are equal. Messages are not
    hashable.
    """

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show the fields, but only the size of bytes: they may be records or passwords."""
        shown = []
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, (bytes, bytearray, memoryview)) and not (len(value) == 16 and "_id" in name):
                shown.append(f"{name}=<{len(value)} bytes>")
            else:
                shown.append(f"{name}={value!r}")
        return f"{self.__class__.__name__}({', '.join(shown)})"


class TopMessage(Message):
    """A message with a schema of its own, which `codec` can encode and decode."""

    __slots__ = ()

    KEY: ClassVar[int | None]
    """The API key of a request or response, or the type of a record."""
    VERSIONS: ClassVar[tuple[int, int]]
    """The first and the last version."""
    FLEXIBLE_FROM: ClassVar[int | None]
    """The first version with compact types and tagged fields."""
