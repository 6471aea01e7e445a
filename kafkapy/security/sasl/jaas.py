"""JAAS lines: `sasl.jaas.config`, as Java's login modules are configured.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="…";

The class says for which mechanism the options are; it is not loaded. Source: Kafka's JaasConfig.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

JAAS: Final = "sasl.jaas.config"

_COMMENTS: Final = r"\s*(?://[^\n]*\n\s*|/\*.*?\*/\s*)*"
_TOKEN: Final = re.compile(
    _COMMENTS + r"""(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([=;])|([^\s=;"']+))""", re.DOTALL
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")


class JaasError(ValueError):
    """A JAAS line cannot be read; the message does not show its secrets."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One login module with its options."""

    class_name: str
    options: dict[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """The one login module of a setting.

    Raises:
        JaasError: it is malformed, or has several modules.
    """
    tokens = list(_tokens(text))
    if not tokens:
        raise JaasError("expected a login module, such as …plain.PlainLoginModule required username=… ;")
    if tokens[-1] != (";", True):
        raise JaasError("the login module must end with a semicolon")
    body = tokens[:-1]
    if (";", True) in body:
        raise JaasError("expected one login module, found several")
    if len(body) < 2 or body[1][0].lower() not in _FLAGS:
        raise JaasError(f"expected one of {', '.join(_FLAGS)} after the class of the login module")
    options: dict[str, str] = {}
    for place in range(2, len(body), 3):
        match body[place : place + 3]:
            case [(name, False), ("=", True), (value, False)]:
                options[name] = value
            case _:
                raise JaasError(f"expected name=value for option {(place + 1) // 3}")
    return LoginModule(body[0][0], options)


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """The words, quoted texts and signs; the second half says whether it is a sign."""
    position, text = 0, text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError(f"cannot be read from character {position} on; check the quotes")
        position = match.end()
        double, single, sign, word = match.groups()
        quoted = double if double is not None else single
        if quoted is not None:
            yield _ESCAPE.sub(r"\1", quoted), False
        elif sign is not None:
            yield sign, True
        else:
            yield word, False
