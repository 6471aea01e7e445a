r"""The replacements of Java's regular expressions, in rules that make names of names.

`$1` is a group, with as many digits as name one that exists; `\` takes the next character as it is. Source:
java.util.regex.Matcher.appendReplacement.
"""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r"\\(.)|\$([0-9]+)|([^\\$]+)", re.DOTALL)
"""An escaped character, a group and perhaps digits after it, or text."""

Replacement = tuple[str | int, ...]
"""Texts, and groups by their number."""


def parse_replacement(text: str, pattern: re.Pattern[str]) -> Replacement:
    """The parts of a replacement for matches of `pattern`.

    Raises:
        ValueError: it is malformed, or names a group that the pattern does not have.
    """
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            raise ValueError(
                rf"{text}: expected a digit after $, and a character after \; \$ is a dollar sign"
            )
        position = match.end()
        escaped, digits, plain = match.groups()
        if digits is None:
            parts.append(escaped or plain)
            continue
        count = 1
        while count < len(digits) and int(digits[: count + 1]) <= pattern.groups:
            count += 1
        if int(digits[:count]) > pattern.groups:
            raise ValueError(f"{text}: {pattern.pattern} has {pattern.groups} groups")
        parts += [int(digits[:count]), digits[count:]]
    return tuple(parts)


def replaced(match: re.Match[str], replacement: Replacement) -> str:
    """What takes the place of a match; a group that took no part in it is empty."""
    return "".join(part if isinstance(part, str) else match[part] or "" for part in replacement)
