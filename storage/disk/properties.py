"""Reads and writes .properties text as java.util.Properties does.

`meta.properties` is such a file:

    #
    #Tue Nov 21 10:34:05 UTC 2026
    broker.id=0
    cluster.id=kJ3Zl0nVQ2y2rE0jY5mJ8A
    version=0

Read: `#` and `!` start a comment line, `=`, `:` or blanks separate key and value, a backslash escapes the
next character (`\\t \\n \\r \\f \\uXXXX`) and, at the end of a line, joins it with the next. A later key
wins.

Written: the comment, the date, then the entries sorted by key, as Java 18 and later do.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_UNICODE_ESCAPE = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"} | {c: "\\" + c for c in "=:#!"}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def parse_properties(text: str) -> dict[str, str]:
    """The entries of a .properties text.

    Raises:
        ValueError: a malformed \\uXXXX escape, the only text Java refuses.
    """
    entries: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        entries[_unescape(key)] = _unescape(value)
    return entries


def format_properties(entries: Mapping[str, str], *, comment: str, seconds: float) -> str:
    """The text that Java's Properties.store(Writer) writes, dated `seconds` after 1970."""
    lines = [f"#{comment}", f"#{_java_date(seconds)}"]
    lines += [f"{_escape(key, key=True)}={_escape(entries[key], key=False)}" for key in sorted(entries)]
    return "\n".join(lines) + "\n"


def _logical_lines(text: str) -> list[str]:
    """Lines without comments and blank lines; continuations are joined."""
    lines: list[str] = []
    joined: str | None = None
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        if joined is None and (not line or line[0] in "#!"):
            continue
        line = line if joined is None else joined + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined = line[:-1]
        else:
            lines.append(line)
            joined = None
    if joined is not None:
        lines.append(joined)
    return lines


def _split(line: str) -> tuple[str, str]:
    """The key and value of a line, still escaped."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while (backslash := text.find("\\", position)) >= 0:
        parts.append(text[position:backslash])
        escape = text[backslash + 1 : backslash + 2]
        position = backslash + 2
        if escape == "u":
            digits = text[position : position + 4]
            if not _UNICODE_ESCAPE.fullmatch(digits):
                raise ValueError("malformed \\uXXXX escape")
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(escape, escape))
    parts.append(text[position:])
    return "".join(parts)


def _escape(text: str, *, key: bool) -> str:
    escaped = "".join(_ESCAPED.get(character, character) for character in text)
    if key:
        return escaped.replace(" ", "\\ ")
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _java_date(seconds: float) -> str:
    """The text of java.util.Date.toString() in UTC, in any locale."""
    at = time.gmtime(seconds)
    clock = f"{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02}"
    return f"{_DAYS[at.tm_wday]} {_MONTHS[at.tm_mon - 1]} {at.tm_mday:02} {clock} UTC {at.tm_year}"
