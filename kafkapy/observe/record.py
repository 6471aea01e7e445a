"""A record as tests see it, and records as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

_SHOWN: Final = 20
"""How many records a table shows."""

_WIDEST: Final = 60
"""The characters of a key or value that a table shows."""

_COLUMNS: Final = ("partition", "offset", "time", "key", "value", "headers")


class Record(NamedTuple):
    """A record of a topic; `timestamp` is in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def table(found: Sequence[Record] | Record) -> str:
    """The records as lines of columns; the first ones, if there are many."""
    records = [found] if isinstance(found, Record) else found
    lines = [_COLUMNS, *(_cells(record) for record in records[:_SHOWN])]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_COLUMNS))]
    shown = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    more = len(records) - _SHOWN
    return "\n".join([*shown, *([f"and {more} more"] if more > 0 else [])])


def are_records(found: object) -> bool:
    """Whether it is a record, or a list of some."""
    if isinstance(found, Record):
        return True
    return isinstance(found, list) and bool(found) and all(isinstance(each, Record) for each in found)


def _cells(record: Record) -> tuple[str, ...]:
    headers = ", ".join(f"{name}={_text(value)}" for name, value in record.headers)
    return (
        str(record.partition),
        str(record.offset),
        _time(record.timestamp),
        _text(record.key),
        _text(record.value),
        _shortened(headers),
    )


def _time(timestamp: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return str(timestamp)


def _text(data: bytes | None) -> str:
    """The text of printable UTF-8, else as Python writes bytes."""
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    return _shortened(text if text.isprintable() and (text or not data) else repr(data))


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def encoded(data: bytes | str | None) -> bytes | None:
    """Text as UTF-8; bytes and null as they are.

    Raises TypeError for anything else.
    """
    if isinstance(data, str):
        return data.encode()
    if data is None or isinstance(data, bytes):
        return data
    raise TypeError(f"a key or value is bytes, str or None, not {type(data).__name__}; encode it first")


def encoded_headers(
    headers: Iterable[tuple[str, bytes | str | None]],
) -> tuple[tuple[str, bytes | None], ...]:
    """Headers whose values are bytes or null."""
    return tuple((name, encoded(value)) for name, value in headers)
