"""`ssl.principal.mapping.rules`: the names of clients, from their certificates.

A rule is `RULE:pattern/replacement/`, with L or U after it for lower or upper case, or DEFAULT, which takes
the subject as it is. The first rule that matches counts. Patterns are Java's; what Python's `re` writes
otherwise (possessive quantifiers before Python 3.11, character classes in other notations) is refused when
the broker starts. They are the operator's, not a client's. Source: Kafka's SslPrincipalMapper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_PART: Final = re.compile(r"\\(.)|\$(\d)|([^\\$]+)")
"""A part of a replacement, as Java has it: an escaped character, a group, or text."""


class PrincipalMappingError(ValueError):
    """The rules cannot be read; the message says why."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None: it matches everything."""
    replacement: tuple[str | int, ...] = ()
    """Texts, and the groups of the pattern by number."""
    case: str = ""


class PrincipalMapping:
    """The rules of one listener."""

    def __init__(self, text: str) -> None:
        """Raises PrincipalMappingError."""
        self._rules = tuple(_parse(text))

    def name_of(self, subject: str) -> str:
        """The name of the client whose certificate has this subject.

        Raises:
            PrincipalMappingError: no rule matches.
        """
        for rule in self._rules:
            if rule.pattern is None:
                return subject
            match = rule.pattern.fullmatch(subject)
            if match is not None:
                parts = (part if isinstance(part, str) else match[part] for part in rule.replacement)
                name = "".join(filter(None, parts))
                return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name
        raise PrincipalMappingError(f"no rule of ssl.principal.mapping.rules matches {subject}")


def _parse(text: str) -> Iterable[_Rule]:
    position, text = 0, text.strip() or "DEFAULT"
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None:
            raise PrincipalMappingError(f"expected RULE:pattern/replacement/ or DEFAULT: {text[position:]!r}")
        position = match.end()
        default, pattern, replacement, case = match.groups()
        if default:
            yield _Rule(None)
            continue
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise PrincipalMappingError(f"{pattern}: {error}") from None
        parts = tuple(
            int(group) if group else escaped or text for escaped, group, text in _PART.findall(replacement)
        )
        if any(isinstance(part, int) and part > compiled.groups for part in parts):
            raise PrincipalMappingError(f"{replacement}: {pattern} has {compiled.groups} groups")
        yield _Rule(compiled, parts, case)
