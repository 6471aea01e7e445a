"""The schemas of Kafka's messages, read from `schemas/*.json`.

The generator and both codecs use them. A file holds the messages of one module of `messages/`: a JSON object
that maps the name of each message to

    kind        request, response, header, data, or a record: metadata, coordinator-key, coordinator-value
    key         the API key, or the type of the record
    versions    "0-18" or "0"
    flexible    the versions with compact types and tagged fields: "12+" or "none"
    fields      in wire order. Each has name, type ("[]X" is an array of X) and versions. It may have
                nullable, tag and tagged (the versions in which it is a tagged field), default, ignorable (an
                older version may omit the value), key, entity, flexible, fields for a struct, and secret:
                "yes", or "by name" for the value of the setting that the field `name` beside it names

Names in the schemas are Kafka's; `Field.name` is the Python name. A struct that occurs twice in one message
is one class with the fields and the versions of both. If two messages of a module use a name for different
structs, each class is prefixed with its message's name.

Source: Kafka's `clients/src/main/resources/common/message`, in the versions of 3.9 and 4.4 together.
"""

import json
import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

SCHEMAS = Path(__file__).parent / "schemas"

NOT_GENERATED: Final = frozenset(
    {
        "add_raft_voter",
        "assign_replicas_to_dirs",
        "begin_quorum_epoch",
        "broker_registration",
        "controller_registration",
        "describe_quorum",
        "end_quorum_epoch",
        "envelope",
        "fetch_snapshot",
        "headers",
        "principal",
        "remote_log_records",
        "remove_raft_voter",
        "streams_group_topology_description_update",
        "unregister_broker",
        "unregister_controller",
        "update_raft_voter",
    }
)
"""The schemas without a module in messages/, since nothing imports it.

To have one, remove its name and run scripts/generate. The table of APIs has the keys of all.
"""

Default: TypeAlias = int | float | str | bytes | None

FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""The types of fixed size and their format characters in `struct`."""

SIZES = {"?": 1, "b": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16, "B": 1, "x": 1}


class Secret(Enum):
    """Whether the log may show a field."""

    YES = "yes"
    BY_NAME = "by name"
    """It is the value of a setting, and a secret if the setting is."""


class Versions(NamedTuple):
    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        if self.first == self.last:
            return f"version {self.first}"
        return f"versions {self.first}-{self.last}"


NO_VERSIONS = Versions(0, -1)


def parse_versions(text: str, last: int) -> Versions:
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), last)
    first, _, end = text.partition("-")
    return Versions(int(first), min(int(end or first), last))


class Field(NamedTuple):
    name: str
    kafka_name: str
    type: str  # without the "[]"
    is_array: bool
    struct: "Struct | None"
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    default: Default  # of an array or a struct that is not null: an empty one, and this is None
    default_is_null: bool
    ignorable: bool
    never_flexible: bool
    entity: str | None  # what the text or the number names: "topicName", "groupId"
    secret: "Secret | None"  # None: it may be logged

    @property
    def is_struct(self) -> bool:
        return not self.is_array and self.struct is not None


class Struct(NamedTuple):
    kafka_name: str
    class_name: str
    fields: tuple[Field, ...]

    def untagged(self, version: int) -> list[Field]:
        return [f for f in self.fields if version in f.versions and version not in f.tagged]

    def tagged(self, version: int) -> list[Field]:
        found = [f for f in self.fields if version in f.versions and version in f.tagged]
        return sorted(found, key=lambda field: field.tag)

    def absent(self, version: int) -> list[Field]:
        return [f for f in self.fields if version not in f.versions]


class MessageSchema(NamedTuple):
    name: str
    kind: str
    key: int | None
    versions: Versions
    flexible: Versions
    root: Struct


def snake_case(name: str) -> str:
    name = name.replace("KRaft", "Kraft").replace("2Pc", "_2pc")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def minimum_size(field: Field, version: int, flexible: bool) -> int:
    """Return the least number of bytes that an untagged field, or one element of it, can take."""
    if field.is_array:
        return 1 if flexible else 4
    return element_size(field, version, flexible)


def element_size(field: Field, version: int, flexible: bool) -> int:
    if field.struct is not None:
        if field.is_struct and version in field.nullable:
            return 1
        untagged = field.struct.untagged(version)
        return sum(minimum_size(f, version, flexible) for f in untagged) + (1 if flexible else 0)
    if field.type in FIXED:
        return SIZES[FIXED[field.type]]
    if flexible and not field.never_flexible:
        return 1
    return 2 if field.type == "string" else 4


@cache
def load(module: str) -> dict[str, MessageSchema]:
    """Return the messages of one file of `schemas/` by name."""
    specs: dict[str, dict[str, Any]] = json.loads((SCHEMAS / f"{module}.json").read_text("utf-8"))
    class_names = _class_names(specs)
    return {name: _message(name, spec, class_names) for name, spec in specs.items()}


def modules() -> list[str]:
    """The names of all schemas."""
    return sorted(path.stem for path in SCHEMAS.glob("*.json"))


def _message(name: str, spec: dict[str, Any], class_names: dict[tuple[str, str], str]) -> MessageSchema:
    versions = parse_versions(spec["versions"], 1 << 15)
    places: dict[str, list[list[dict[str, Any]]]] = {}
    for kafka_name, fields in _struct_specs(spec["fields"]):
        places.setdefault(kafka_name, []).append(fields)

    @cache
    def struct(kafka_name: str) -> Struct:
        merged: list[Field] = []
        for fields in places[kafka_name]:
            position = 0
            for parsed in map(field, fields):
                known = [index for index, other in enumerate(merged) if other.name == parsed.name]
                if known:
                    position = known[0]
                    merged[position] = _merge(merged[position], parsed)
                else:  # keep the wire order of its own place
                    merged.insert(position, parsed)
                position += 1
        return Struct(kafka_name, class_names.get((name, kafka_name), kafka_name), tuple(merged))

    def field(spec: dict[str, Any]) -> Field:
        is_array = spec["type"].startswith("[]")
        kind = spec["type"].removeprefix("[]")
        nested = struct(kind) if "fields" in spec else None
        is_plain = not is_array and nested is None
        default_is_null = spec.get("default") == "null" or kind == "records"
        return Field(
            name=snake_case(spec["name"]),
            kafka_name=spec["name"],
            type=kind,
            is_array=is_array,
            struct=nested,
            versions=parse_versions(spec["versions"], versions.last),
            nullable=parse_versions(spec.get("nullable", "none"), versions.last),
            tagged=parse_versions(spec.get("tagged", "none"), versions.last),
            tag=spec.get("tag", -1),
            default=None if default_is_null or not is_plain else _default(kind, spec.get("default")),
            default_is_null=default_is_null,
            ignorable=spec.get("ignorable", False),
            never_flexible=spec.get("flexible") == "none",
            entity=spec.get("entity"),
            secret=Secret(spec["secret"]) if "secret" in spec else None,
        )

    return MessageSchema(
        name=name,
        kind=spec["kind"],
        key=spec.get("key"),
        versions=versions,
        flexible=parse_versions(spec["flexible"], versions.last),
        root=Struct(name, name, tuple(field(f) for f in spec["fields"])),
    )


def _merge(one: Field, other: Field) -> Field:
    """Return one field, with the versions of both, for a struct that occurs in two places."""
    versions = _join(one.versions, other.versions)
    nullable = _join(one.nullable, other.nullable)
    tagged = _join(one.tagged, other.tagged)
    assert one == other._replace(versions=one.versions, nullable=one.nullable, tagged=one.tagged), one.name
    return one._replace(versions=versions, nullable=nullable, tagged=tagged)


def _join(one: Versions, other: Versions) -> Versions:
    if NO_VERSIONS in (one, other):
        return one if other == NO_VERSIONS else other
    return Versions(min(one.first, other.first), max(one.last, other.last))


def _default(kind: str, text: Any) -> Default:
    match kind:
        case "string":
            return text or ""
        case "bytes":
            return b""
        case "uuid":
            return bytes(16)
        case "bool":
            return str(text).lower() == "true"
        case "float64":
            return float(text or 0)
        case _:
            return int(str(text or 0), 0)


def _class_names(specs: dict[str, dict[str, Any]]) -> dict[tuple[str, str], str]:
    """Map (message, struct) to a class name, for structs whose plain name is ambiguous."""
    meanings: dict[str, dict[str, str]] = {}
    for message, spec in specs.items():
        merged: dict[str, dict[str, Any]] = {}
        for name, fields in _struct_specs(spec["fields"]):
            merged.setdefault(name, {}).update({f["name"]: f for f in fields})
        for name, by_field in merged.items():
            meanings.setdefault(name, {})[message] = json.dumps(by_field, sort_keys=True)
    return {
        (message, name): message + name
        for name, by_message in meanings.items()
        if len(set(by_message.values())) > 1
        for message in by_message
    }


def _struct_specs(fields: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for field in fields:
        if "fields" in field:
            yield field["type"].removeprefix("[]"), field["fields"]
            yield from _struct_specs(field["fields"])


def at_default(field: Field, value: Any) -> bool:
    """Whether a field has the value that it has where nothing is given for it."""
    if value is None or field.default_is_null:
        return value is None and field.default_is_null
    if field.is_array:
        return len(value) == 0
    if field.struct is not None:
        return all(at_default(inner, getattr(value, inner.name)) for inner in field.struct.fields)
    return bool(value == field.default)
