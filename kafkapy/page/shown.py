"""A key, value or header as text, with the kind that it is of."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kafkapy.commands.decoding.decoder import Decoder
from kafkapy.errors import UserError

AUTO: Final = "auto"

_MOST_JSON: Final = 1024 * 1024
"""Longer ones are shown as text: nothing that a record has may keep the page busy."""
_MOST_CHARS: Final = 64 * 1024
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_MOST_SHORT: Final = 200
_HEX_LINE: Final = 16


@dataclass(frozen=True, slots=True)
class Shown:
    """Bytes as text: `kind` is what they were read as.

    `kind` is null, text, json, hex, integer, avro or protobuf; `note` has the schema, or says what could not
    be done.
    """

    kind: str
    text: str
    short: str
    """Its beginning in one line."""
    size: int
    note: str = ""
    is_cut: bool = False


def shown(data: bytes | None, decoder: Decoder, kind: str = AUTO) -> Shown:
    """Bytes as text of a kind, or of the kind that they look like."""
    if data is None:
        return Shown("null", "null", "null", 0)
    note = ""
    if kind == AUTO:
        try:
            if (found := decoder.by_schema(data)) is not None:
                text = json.dumps(found.value, ensure_ascii=False, indent=2)
                line = json.dumps(found.value, ensure_ascii=False)
                schema = f"schema {found.schema_id} {found.message}".strip()
                return _cut(found.kind, text, line, data, schema)
        except (UserError, ValueError, RecursionError) as error:
            note = str(error)
    found_kind, text, problem = _KINDS[kind](data)
    line = text
    if found_kind == "json":
        line = data[:_MOST_SHORT].decode(errors="ignore")
    elif found_kind == "hex":
        line = data[:_MOST_SHORT].hex(" ")
    return _cut(found_kind, text, line, data, note or problem)


def _cut(kind: str, text: str, line: str, data: bytes, note: str) -> Shown:
    short = " ".join(line[: 2 * _MOST_SHORT].split())
    if len(short) > _MOST_SHORT or len(data) > 2 * _MOST_SHORT:
        short = short[:_MOST_SHORT] + "…"
    return Shown(kind, text[:_MOST_CHARS], short, len(data), note, len(text) > _MOST_CHARS)


def _auto(data: bytes) -> tuple[str, str, str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _hex(data)
    # Numbers and words are JSON too, but people call them text.
    if text.lstrip()[:1] in ("{", "["):
        kind, shown, problem = _json(data)
        if not problem:
            return kind, shown, problem
    if any(ord(char) < 0x20 and char not in "\t\r\n" for char in text[:_MOST_CHARS]):
        return _hex(data)
    return "text", text, ""


def _json(data: bytes) -> tuple[str, str, str]:
    if len(data) > _MOST_JSON:
        return "text", data.decode(errors="replace"), "it is too long to be shown as JSON"
    try:
        json.loads(data)
        return "json", indented(data.decode()), ""
    except (ValueError, RecursionError):
        return "text", data.decode(errors="replace"), "it is no JSON"


def _text(data: bytes) -> tuple[str, str, str]:
    try:
        return "text", data.decode(), ""
    except UnicodeDecodeError:
        return "text", data.decode(errors="replace"), "it is not UTF-8"


def _hex(data: bytes) -> tuple[str, str, str]:
    lines = []
    for at in range(0, min(len(data), _MOST_CHARS // 4), _HEX_LINE):
        row = data[at : at + _HEX_LINE]
        letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        lines.append(f"{at:06x}  {row.hex(' '):<{_HEX_LINE * 3}} {letters}")
    return "hex", "\n".join(lines), ""


def _integer(data: bytes) -> tuple[str, str, str]:
    if len(data) not in (1, 2, 4, 8):
        kind, text, _ = _hex(data)
        return kind, text, f"{len(data)} bytes are no integer"
    return "integer", str(int.from_bytes(data, "big", signed=True)), ""


_KINDS: Final[Mapping[str, Callable[[bytes], tuple[str, str, str]]]] = {
    AUTO: _auto,
    "text": _text,
    "json": _json,
    "hex": _hex,
    "integer": _integer,
}
KINDS: Final = tuple(_KINDS)


def indented(text: str) -> str:
    """Valid JSON with line breaks; every number and text stays as it is written."""
    pieces: list[str] = []
    depth = 0
    tokens = _TOKENS.findall(text)
    for place, token in enumerate(tokens):
        if token in "{[":
            depth += 1
            pieces.append(token)
            if place + 1 < len(tokens) and tokens[place + 1] not in "}]":
                pieces.append("\n" + "  " * depth)
        elif token in "}]":
            depth -= 1
            if place and tokens[place - 1] not in "{[":
                pieces.append("\n" + "  " * depth)
            pieces.append(token)
        elif token == ",":
            pieces.append(",\n" + "  " * depth)
        else:
            pieces.append(": " if token == ":" else token)
    return "".join(pieces)
