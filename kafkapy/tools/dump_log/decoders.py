"""Keys and values of the records in the broker's own topics.

    __consumer_offsets, __transaction_state, __share_group_state
        key      int16 type of the record, then the message of that type
        value    int16 version, then the message; a null value deletes the key
    __cluster_metadata
        value    unsigned varints: frame version 1, type, version; then the message. There are no keys.

If a record cannot be decoded, one line says why, and the next records follow.

Source: CoordinatorRecordSerde, MetadataRecordSerde, and the parsers of Kafka's DumpLogSegments.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from kafkapy.protocol import schema
from kafkapy.protocol.codec import decode_from
from kafkapy.protocol.coordinator_records import decode_key, decode_value, type_of
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafkapy.protocol.messages.group_records import GroupMetadataValue
from kafkapy.protocol.records import Record
from kafkapy.protocol.topic_names import (
    CLUSTER_METADATA_TOPIC,
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkapy.tools.dump_log.message_json import message_json

Decoder: TypeAlias = Callable[[Record], tuple[Any, Any]]
"""A function that returns the key and the value of a record, each as JSON, a line of text, or None."""

_DELETE = "<DELETE>"
_FRAME_VERSION = 1

_GROUPS = ("group_records", "consumer_group_records", "share_group_records", "streams_group_records")
_TRANSACTIONS = ("transaction_records",)
_SHARE_STATE = ("share_state_records",)
_METADATA = ("metadata_records",)


def decoder_named(name: str) -> Decoder:
    """Return the decoder for an option of the command line."""
    return _DECODERS[name]


def decoder_for_topic(topic: str | None) -> Decoder | None:
    """Return the decoder for a topic's records, or None if only its users know their format."""
    name = _TOPICS.get(topic or "")
    return None if name is None else _DECODERS[name]


def _decode_group_record(record: Record) -> tuple[Any, Any]:
    return _decode_coordinator_record(record, _GROUPS)


def _decode_transaction_record(record: Record) -> tuple[Any, Any]:
    return _decode_coordinator_record(record, _TRANSACTIONS)


def _decode_share_state_record(record: Record) -> tuple[Any, Any]:
    return _decode_coordinator_record(record, _SHARE_STATE)


def _decode_coordinator_record(record: Record, modules: tuple[str, ...]) -> tuple[Any, Any]:
    key = record.key
    if key is None:
        return f"Error at offset {record.offset}, skipping. The key is missing.", None
    classes = _classes(modules)
    try:
        kind = type_of(key)
        key_class = classes.get(("coordinator-key", kind))
        value_class = classes.get(("coordinator-value", kind))
        if key_class is None or value_class is None:
            return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
        # The two oldest record types are versions of one schema; the type is the version.
        shown_key = {"type": str(kind), "data": message_json(decode_key(key_class, key), 0)}
        return shown_key, _DELETE if record.value is None else _coordinator_value(value_class, record.value)
    except DecodeError as error:
        return f"Error at offset {record.offset}, skipping. {error}", None


def _coordinator_value(value_class: type[TopMessage], data: bytes) -> dict[str, Any]:
    message, version = decode_value(value_class, data)
    shown = message_json(message, version)
    if isinstance(message, GroupMetadataValue) and message.protocol_type == "consumer":
        for member in shown["members"]:
            for field, inner in (
                ("subscription", ConsumerProtocolSubscription),
                ("assignment", ConsumerProtocolAssignment),
            ):
                _show_inside(member, field, inner)
    return {"version": str(version), "data": shown}


def _show_inside(member: dict[str, Any], field: str, message_class: type[TopMessage]) -> None:
    """Decode a field of a group member; a field of another protocol stays base64."""
    with contextlib.suppress(DecodeError):
        member[field] = message_json(*decode_value(message_class, base64.b64decode(member[field])))


def _decode_metadata_record(record: Record) -> tuple[Any, Any]:
    data = record.value or b""
    try:
        frame, at = _unsigned_varint(data, 0)
        kind, at = _unsigned_varint(data, at)
        version, at = _unsigned_varint(data, at)
        if frame != _FRAME_VERSION:
            raise DecodeError(f"unknown frame version {frame}")
        message_class = _classes(_METADATA).get(("metadata", kind))
        if message_class is None:
            raise DecodeError(f"unknown metadata record type {kind}")
        message, end = decode_from(message_class, data, at, version)
        if end != len(data):
            raise DecodeError(f"{len(data) - end} bytes after the record")
    except DecodeError as error:
        return None, f"Error at {record.offset}, skipping. {error}"
    name = schema.snake_case(message_class.__name__).upper()
    return None, {"type": name, "version": version, "data": message_json(message, version)}


def _unsigned_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise DecodeError("a varint that does not end")


@cache
def _classes(modules: tuple[str, ...]) -> dict[tuple[str, int], type[TopMessage]]:
    """Return the message classes of the modules, by kind and type."""
    found: dict[tuple[str, int], type[TopMessage]] = {}
    for module in modules:
        messages = import_module(f"kafkapy.protocol.messages.{module}")
        for name, spec in schema.load(module).items():
            if spec.key is not None:
                found[spec.kind, spec.key] = getattr(messages, name)
    return found


_DECODERS: dict[str, Decoder] = {
    "offsets": _decode_group_record,
    "transactions": _decode_transaction_record,
    "share-state": _decode_share_state_record,
    "cluster-metadata": _decode_metadata_record,
}
_TOPICS = {
    GROUP_METADATA_TOPIC: "offsets",
    TRANSACTION_STATE_TOPIC: "transactions",
    SHARE_GROUP_STATE_TOPIC: "share-state",
    CLUSTER_METADATA_TOPIC: "cluster-metadata",
}
