"""Answers as flat maps from field path to value, to compare those of two brokers.

    responses[0].partition_responses[0].error_code: 87

Some values always differ between two brokers. They are replaced: topic ids by the topic's name; member,
session and producer ids by their order; addresses and the texts of messages by whether there is one; the
current time by <now>. Record batches and message sets are decoded, because two compressors may write
different bytes. A message that is cut off at the end is left out.
"""

from __future__ import annotations

import time
from collections import defaultdict
from operator import attrgetter
from typing import Any, Final

from kafkapy.protocol.legacy_compression import decompress_legacy
from kafkapy.protocol.legacy_records import Message as OldMessage
from kafkapy.protocol.legacy_records import iter_messages
from kafkapy.protocol.message import Message
from kafkapy.protocol.records import MAGIC, decode_records, iter_headers

Fields = dict[str, object]

_MESSAGES: Final = ("error_message", "batch_index_error_message")
_IDS: Final = {"member_id": "member", "leader": "member", "session_id": "session", "producer_id": "producer"}
_TOPIC_ID: Final = "topic_id"
_BY_TOPIC_ID: Final = ("topic_partitions",)
"""Lists in no particular order, of structs with a topic id."""
_ADDRESSES: Final = ("host", "port", "client_host")
_TIMES: Final = ("log_append_time_ms", "transaction_start_time_ms", "last_timestamp")
_NOW_MS: Final = 300_000
MAGIC_AT: Final = 16


class Flattener:
    """Makes fields of the answers of one broker."""

    def __init__(self) -> None:
        self.topic_names: dict[bytes, str] = {}
        """Names of the topic ids that this broker has given."""
        self._seen: dict[str, dict[object, str]] = defaultdict(dict)

    def fields(self, answer: Message) -> Fields:
        """Every field of an answer by its path."""
        found: Fields = {}
        self._add(found, "", "", answer)
        return found

    def _add(self, found: Fields, path: str, name: str, value: Any) -> None:
        if isinstance(value, Message):
            for field in value.__slots__:
                inner = getattr(value, field)
                self._add(found, f"{path}.{field}" if path else field, field, inner)
        elif isinstance(value, list):
            found[f"{path}.length"] = len(value)
            for key in ("index", "partition_index", "partition_id", "entity_type", "key"):
                # Apache Kafka answers partitions in no particular order, those with errors last; so it does
                # what a quota is for.
                if value and isinstance(value[0], Message) and hasattr(value[0], key):
                    value = sorted(value, key=attrgetter(key))
            if value and hasattr(value[0], "entity"):
                value = sorted(value, key=_entity)
            if len(value) > 1 and hasattr(value[0], "member_id"):
                # A group's members come in no particular order either.
                value = sorted(value, key=lambda each: str(self._shown("member_id", each.member_id)))
            if name == "subscribed_topic_names":
                value = sorted(value)
            if len(value) > 1 and name in _BY_TOPIC_ID:
                value = sorted(value, key=lambda each: str(self._shown(_TOPIC_ID, each.topic_id)))
            for index, inner in enumerate(value):
                self._add(found, f"{path}[{index}]", name, inner)
        elif name == "records":
            found[path] = self._batches(value)
        else:
            found[path] = self._shown(name, value)

    def _shown(self, name: str, value: Any) -> object:
        if name in _MESSAGES:
            return value if value is None else "<text>"
        if name == _TOPIC_ID and any(value):
            return self.topic_names.get(value, "<unknown id>")
        if name in _IDS and value not in ("", 0, -1):
            return self._in_order(_IDS[name], value)
        if name in _ADDRESSES and value not in ("", -1):
            return "<address>"
        if name in _TIMES:
            return _time(value)
        return bytes(value) if isinstance(value, memoryview) else value

    def _in_order(self, kind: str, value: object) -> str:
        seen = self._seen[kind]
        return seen.setdefault(value, f"<{kind} {len(seen) + 1}>")

    def _batches(self, records: Any) -> object:
        if records is None:
            return None
        data = bytes(records)
        if len(data) > MAGIC_AT and data[MAGIC_AT] < MAGIC:
            return _messages(data)
        batches = []
        for position, header in iter_headers(data):
            contents = decode_records(data, position, header)
            batches.append(
                (
                    f"offsets {header.base_offset}-{header.last_offset}",
                    f"epoch {header.partition_leader_epoch}",
                    f"{header.compression.name} {header.timestamp_type.name}",
                    f"times {_time(header.base_timestamp)} {_time(header.max_timestamp)}",
                    self._producer(header.producer_id),
                    (header.producer_epoch, header.base_sequence),
                    [(each.offset, _time(each.timestamp), each.key, each.value) for each in contents],
                )
            )
        return batches

    def _producer(self, producer_id: int) -> str:
        return "no producer" if producer_id < 0 else self._in_order("producer", producer_id)


def _entity(entry: Any) -> list[tuple[str, str]]:
    """Return the entity of a quota, as a sort key."""
    return sorted((each.entity_type, each.entity_name or "") for each in entry.entity)


def _messages(data: bytes) -> list[object]:
    """Return the complete messages of a set by field, except the compressed bytes."""
    shown: list[object] = []
    for message in iter_messages(data):
        value: object = message.value
        if message.compression:
            inner = list(iter_messages(_decompressed(message)))
            value = [(each.offset, *each[2:4], _time(each.timestamp), each.key, each.value) for each in inner]
        time_ms = _time(message.timestamp)
        shown.append((message.offset, message.magic, message.attributes, time_ms, message.key, value))
    return shown or ["the beginning of a message"]


def _decompressed(wrapper: OldMessage) -> bytes:
    assert wrapper.value is not None
    return decompress_legacy(wrapper.compression, wrapper.magic, wrapper.value, limit=1 << 26)


def _time(milliseconds: int) -> object:
    return "<now>" if abs(milliseconds - time.time() * 1000) < _NOW_MS else milliseconds
