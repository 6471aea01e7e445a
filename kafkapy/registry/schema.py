"""A schema, its references, and its place as a version of a subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
KINDS: Final = (JSON, PROTOBUF, AVRO)
"""In the order of GET /schemas/types."""

MOST_ID: Final = 2**31 - 1
"""Serializers write ids in 4 bytes; versions end here too."""


@dataclass(frozen=True)
class Reference:
    """A schema that another one uses: by `name` in its text, kept as a version of a subject."""

    name: str
    subject: str
    version: int

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True)
class Schema:
    """What is registered; one schema has one id, in all subjects."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As answers and records have it: what has its default is left out."""
        shown: dict[str, Any] = {"schema": self.text}
        if self.kind != AVRO:
            shown["schemaType"] = self.kind
        if self.references:
            shown["references"] = [reference.to_json() for reference in self.references]
        return shown


@dataclass(frozen=True)
class Version:
    """A schema as a version of a subject, which may be deleted softly."""

    subject: str
    version: int
    id: int
    schema: Schema
    deleted: bool = False
    further: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What else the record has, such as the metadata of Confluent's registry."""

    def to_json(self) -> dict[str, Any]:
        """As answers have it."""
        shown = {"subject": self.subject, "version": self.version, "id": self.id, **self.schema.to_json()}
        return {**shown, **self.further}
