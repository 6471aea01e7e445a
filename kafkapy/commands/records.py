"""Records as commands read, show and write them.

JSON has all of a record: `topic partition offset timestamp key value headers`. Bytes that are not UTF-8 are
`{"base64": …}`, as in `kafkapy dump-log`. `kafkapy produce --input json` reads the same objects.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kafkapy.commands.units import time_text
from kafkapy.errors import UserError

if TYPE_CHECKING:
    from kafkapy.commands.decoding.decoder import Decoder


Shown = Callable[[bytes | None], Any]
"""What an object has for bytes."""
Text = Callable[[bytes | None], str]
"""What a line has for bytes."""


def bytes_shown(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes as they are: what was written is read back from it."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def row(record: Any, shown: Shown = bytes_shown) -> dict[str, Any]:
    """A record of kafka-python's consumer as an object."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": shown(record.key),
        "value": shown(record.value),
        "headers": [{"key": key, "value": bytes_shown(value)} for key, value in record.headers or ()],
    }


def text(data: bytes | None) -> str:
    """Bytes as text for people; a null is `null`."""
    return "null" if data is None else data.decode("utf-8", errors="replace")


def line(record: Any, parts: Mapping[str, bool], as_text: Text = text) -> str:
    """A record in one line: the value, after the `parts` that are asked for."""
    shown = {
        "timestamp": time_text(record.timestamp) or "-",
        "partition": f"{record.topic}-{record.partition}",
        "offset": str(record.offset),
        "headers": ",".join(f"{key}:{text(value)}" for key, value in record.headers or ()) or "-",
        "key": as_text(record.key),
    }
    return "\t".join([*(value for name, value in shown.items() if parts.get(name)), as_text(record.value)])


def decoded(record: Any, parts: Mapping[str, bool], decoder: Decoder) -> tuple[dict[str, Any], str]:
    """A record as an object and in one line, by the schemas of a registry if there is one.

    Without a registry both are what was written, and `kafkapy produce --input json` writes it again.
    """
    if decoder.has_registry:
        return row(record, decoder.value), line(record, parts, decoder.text)
    return row(record), line(record, parts)


class Message:
    """A record that is written: key, value, headers, and where it goes."""

    def __init__(
        self,
        value: bytes | None,
        key: bytes | None = None,
        headers: list[tuple[str, bytes | None]] | None = None,
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> None:
        self.value, self.key, self.headers = value, key, headers or []
        self.timestamp, self.partition = timestamp, partition

    @classmethod
    def of_line(cls, data: bytes, separator: bytes | None, number: int) -> Message:
        """The message of a line; with a separator, the key is before it."""
        if separator is None:
            return cls(data)
        key, found, value = data.partition(separator)
        if not found:
            raise UserError(f"line {number}: there is no key separator {separator.decode()!r}")
        return cls(value, key)

    @classmethod
    def of_json(cls, data: bytes, number: int) -> Message:
        """The message of an object such as `row` makes; topic, partition and offset are not used."""
        try:
            content = json.loads(data)
        except ValueError as error:
            raise UserError(f"line {number}: is no JSON: {error}") from None
        if not isinstance(content, Mapping) or "value" not in content:
            raise UserError(f'line {number}: expected an object with a "value"')
        about = f"line {number}"
        headers = content.get("headers") or []
        if isinstance(headers, Mapping):
            headers = [{"key": key, "value": value} for key, value in headers.items()]
        try:
            pairs = [(str(each["key"]), _bytes(each["value"], about)) for each in headers]
        except (TypeError, KeyError):
            raise UserError(f'{about}: expected "headers" with objects of key and value') from None
        if any(value is None for _, value in pairs):
            raise UserError(f"{about}: kafka-python cannot write a header without a value")
        timestamp = content.get("timestamp")
        if timestamp is not None and not isinstance(timestamp, int):
            raise UserError(f'{about}: expected "timestamp" in milliseconds')
        return cls(
            _bytes(content["value"], about), _bytes(content.get("key"), about), pairs, timestamp=timestamp
        )


def _bytes(value: Any, about: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Mapping) and list(value) == ["base64"]:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise UserError(f"{about}: the base64 cannot be decoded") from None
    # A nested object is the record's value as JSON.
    return json.dumps(value, ensure_ascii=False).encode()
