"""The records of `_schemas`, in the format of Confluent's registry and Karapace.

Key and value are JSON. The order of a key's fields counts, since compaction compares bytes:

    {"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}
        {"subject":"orders-value","version":1,"id":1,"schema":"…","deleted":false}, and if they are not the
        defaults "schemaType":"JSON", "references":[{"name":"…","subject":"…","version":1}]
    {"keytype":"CONFIG","subject":"orders-value","magic":0}         {"compatibilityLevel":"FULL"}
    {"keytype":"MODE","subject":"orders-value","magic":0}           {"mode":"READONLY"}
    {"keytype":"DELETE_SUBJECT","subject":"orders-value","magic":0} {"subject":"orders-value","version":2}
    {"keytype":"CLEAR_SUBJECT","subject":"orders-value","magic":0}  {"subject":"orders-value"}
    {"keytype":"NOOP","magic":0}                                    no value

The subject of CONFIG and MODE is null for the whole registry. SCHEMA without a value is a version that was
deleted permanently, CONFIG and MODE without one are not set any more. DELETE_SUBJECT deletes all versions up
to its own softly; CLEAR_SUBJECT, from an import into Confluent's registry, deletes all of them for good.
Keys of other types are another registry's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafkapy.registry.schema import AVRO, MOST_ID, Reference, Schema, Version

SCHEMA: Final = "SCHEMA"
CONFIG: Final = "CONFIG"
MODE: Final = "MODE"
DELETE_SUBJECT: Final = "DELETE_SUBJECT"
CLEAR_SUBJECT: Final = "CLEAR_SUBJECT"
NOOP: Final = "NOOP"

_SCHEMA_FIELDS: Final = frozenset(
    {"subject", "version", "id", "schema", "schemaType", "references", "deleted", "md5"}
)


@dataclass(frozen=True)
class Entry:
    """A record: what it is about, and its value, or None."""

    keytype: str
    subject: str | None
    version: int | None
    value: Mapping[str, Any] | None

    def key_bytes(self) -> bytes:
        key: dict[str, Any] = {"keytype": self.keytype}
        if self.keytype != NOOP:
            key["subject"] = self.subject
        if self.keytype == SCHEMA:
            key["version"] = self.version
        key["magic"] = 1 if self.keytype == SCHEMA else 0
        return _dumped(key)

    def value_bytes(self) -> bytes | None:
        return None if self.value is None else _dumped(self.value)


def decoded(key: bytes | None, value: bytes | None) -> Entry | None:
    """The entry of a record; None for one of another registry's own.

    Raises:
        ValueError: it is no record of a registry.
    """
    parsed = json.loads(key or b"null")
    if not isinstance(parsed, dict) or not isinstance(parsed.get("keytype"), str):
        raise ValueError("its key has no keytype")
    if parsed["keytype"] not in (SCHEMA, CONFIG, MODE, DELETE_SUBJECT, CLEAR_SUBJECT):
        return None
    content = json.loads(value) if value else None
    if content is not None and not isinstance(content, dict):
        raise ValueError("its value is no object")
    return Entry(parsed["keytype"], parsed.get("subject"), parsed.get("version"), content)


def of_version(version: Version) -> Entry:
    """The entry that registers a version, or deletes it softly."""
    value = {
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
        **version.schema.to_json(),
        **version.further,
        "deleted": version.deleted,
    }
    return Entry(SCHEMA, version.subject, version.version, value)


def version_of(value: Mapping[str, Any]) -> Version:
    """The version of a SCHEMA entry's value.

    Raises:
        ArithmeticError, KeyError, TypeError, ValueError: it is none.
    """
    kind, schema_id = value.get("schemaType") or AVRO, int(value["id"])
    if not isinstance(kind, str):
        raise TypeError("its schemaType is no text")
    if schema_id > MOST_ID:
        raise ValueError(f"its id is {schema_id}, and the highest one is {MOST_ID}")
    references = value.get("references") or ()
    schema = Schema(
        kind,
        str(value["schema"]),
        tuple(
            Reference(str(each["name"]), str(each["subject"]), int(each["version"])) for each in references
        ),
    )
    further = {name: each for name, each in value.items() if name not in _SCHEMA_FIELDS}
    deleted = bool(value.get("deleted"))
    return Version(str(value["subject"]), int(value["version"]), schema_id, schema, deleted, further)


def _dumped(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
