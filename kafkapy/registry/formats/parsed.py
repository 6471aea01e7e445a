"""A schema that was found valid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Parsed:
    """What a format's library makes of a schema.

    `text` is what is kept: as it was sent, less the white space of JSON. `identity` is the same for two
    spellings of one schema, and `normalized` is one spelling for all of them. `serialized` is for programs:
    Protobuf as a descriptor in base64.
    """

    text: str
    identity: str
    normalized: str
    serialized: str
    tree: Any
