"""What is a valid schema of each kind, and which can read what another has written.

The judges are libraries: Apache Avro's own, jsonschema, and protoc. None of those for JSON Schema and
Protobuf judges compatibility, and a check that lets a breaking change pass is worse than none: so these kinds
have the level NONE only.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, Protocol, cast

from kafkapy.registry.formats.parsed import Parsed
from kafkapy.registry.formats.recent import Recent, References
from kafkapy.registry.schema import AVRO, JSON, PROTOBUF


class _Format(Protocol):
    """A module of this package."""

    def parse(self, text: str, references: References) -> Parsed:
        """Check a schema; raises ValueError, whose text says what is wrong."""


_MODULES: Final = {AVRO: "avro_format", JSON: "json_format", PROTOBUF: "protobuf_format"}


_recent: Final = Recent()


def parsed(kind: str, text: str, references: References) -> Parsed:
    """Check a schema, or remember it; raises ValueError, whose text says what is wrong.

    A format's library is imported at its first use.
    """
    key = (kind, text, references)
    found = _recent.get(key)
    if found is None:
        found = cast("_Format", import_module(f"{__name__}.{_MODULES[kind]}")).parse(text, references)
        _recent.put(key, found)
    return found


def unreadable(kind: str, reader: Parsed, writer: Parsed) -> list[str] | None:
    """Why a reader with one schema cannot read what a writer with the other may write.

    None if that cannot be judged.
    """
    if reader.identity == writer.identity:
        return []
    if kind != AVRO:
        return None
    from kafkapy.registry.formats import avro_format

    return avro_format.unreadable(reader.tree, writer.tree)
