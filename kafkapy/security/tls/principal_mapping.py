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

from kafkapy.security.java_replacement import Replacement, parse_replacement, replaced

_RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")


class PrincipalMappingError(ValueError):
    """The rules cannot be read; the message says why."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None: it matches everything."""
    replacement: Replacement = ()
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
                name = replaced(match, rule.replacement)
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
            parts = parse_replacement(replacement, compiled)
        except (ValueError, re.error) as error:
            raise PrincipalMappingError(f"RULE:{pattern}/{replacement}/: {error}") from None
        yield _Rule(compiled, parts, case)
