"""Java's .properties syntax, as server.properties uses it.

One `key=value` a line; `:` or white space separate as well; `#` and `!` begin a comment line; a line that
ends in an odd number of backslashes goes on in the next; `\\t \\n \\r \\f \\uXXXX` are escapes, any other
escaped character is itself. A key that comes twice has its last value. Source: java.util.Properties.load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PAIR: Final = re.compile(r"((?:\\.|[^\\=:\s])*)\s*(?:[=:]\s*)?(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """The properties of a file: UTF-8, or Latin-1 (Java's own) where it is not UTF-8. Raises OSError."""
    data = path.read_bytes()
    try:
        return parse_properties(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return parse_properties(data.decode("latin-1"))


def parse_properties(text: str) -> dict[str, str]:
    """The properties of `text`."""
    properties = {}
    for line in _logical_lines(text):
        match = _PAIR.fullmatch(line)
        if match is not None:
            key, value = match.groups()
            properties[_unescape(key)] = _unescape(value)
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blanks, continuations joined and their indent dropped."""
    parts: list[str] = []
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if not parts and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            parts.append(line[:-1])
            continue
        yield "".join([*parts, line])
        parts.clear()
    if parts:
        yield "".join(parts)


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escape = match.group(1)
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return _NAMED.get(escape, escape)

    return _ESCAPE.sub(character, text)
