r"""`sasl.kerberos.principal.to.local.rules`: short names for the names that Kerberos gives.

    DEFAULT                                    alice@REALM is alice, in the default realm
    RULE:[2:$1.$2](.*\.example)s/\..*//g/L     a name of two components, as $1.$2, if that matches

`[n:format]` takes names of n components and makes a text of them: `$0` is the realm, `$1` the first
component. `(pattern)`, `s/pattern/replacement/g`, `/L` and `/U` may follow. The first rule that takes a name
counts; no rule may leave a `/` or `@` in it. Patterns are Java's, as far as Python's `re` reads them alike;
others are refused when the broker starts. Source: Kafka's KerberosName, KerberosRule, KerberosShortNamer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from kafkapy.security.java_replacement import Replacement, parse_replacement, replaced

_RULE: Final = re.compile(
    r"(?P<default>DEFAULT)"
    r"|RULE:\[(?P<components>[0-9]*):(?P<format>[^\]]*)](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<repeat>g)?)?/?(?P<case>[LU])?"
)
_NAME: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_PARAMETER: Final = re.compile(r"\$([0-9]*)")


class ShortNameError(ValueError):
    """The rules cannot be read, or give a name no short one; the message says why."""


class _Rule(NamedTuple):
    text: str
    components: int | None = None
    """None: it is DEFAULT."""
    format: str = ""
    match: re.Pattern[str] | None = None
    """What the text must match; None: it may be anything."""
    replace: re.Pattern[str] | None = None
    replacement: Replacement = ()
    most: int = 1
    """How many matches of `replace` are replaced; 0: all."""
    case: str | None = None


class ShortNames:
    """The rules of one listener."""

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        """Raises ShortNameError."""
        self._rules = [_parse(rule) for rule in rules]
        self._default_realm = default_realm

    def short_name(self, name: str) -> str:
        """The short name of a client, from its full one: `alice@REALM` or `alice/host@REALM`.

        Raises:
            ShortNameError: no rule takes it, or one makes no simple name of it.
        """
        match = _NAME.fullmatch(name)
        if match is None:
            if "@" in name:
                raise ShortNameError(f"{name} has more parts than name/host@REALM")
            return name
        first, second, realm = match.groups()
        parts = [realm, first] if second is None else [realm, first, second]
        for rule in self._rules:
            found = self._apply(rule, parts)
            if found is not None:
                return found
        raise ShortNameError(f"no rule of sasl.kerberos.principal.to.local.rules takes {name}")

    def _apply(self, rule: _Rule, parts: list[str]) -> str | None:
        """The short name by one rule; None if it does not take the name."""
        if rule.components is None:
            return parts[1] if parts[0] == self._default_realm else None
        if rule.components != len(parts) - 1:
            return None
        name = _PARAMETER.sub(partial(_parameter, rule, parts), rule.format)
        if rule.match is not None and not rule.match.fullmatch(name):
            return None
        if rule.replace is not None:
            name = rule.replace.sub(lambda match: replaced(match, rule.replacement), name, rule.most)
        if "/" in name or "@" in name:
            raise ShortNameError(f"{rule.text} makes {name} of a name, which is not simple")
        return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name


def _parameter(rule: _Rule, parts: list[str], match: re.Match[str]) -> str:
    digits = match[1]
    if not digits or int(digits) >= len(parts):
        raise ShortNameError(f"{rule.text} asks for ${digits}, and such names have $0 to ${len(parts) - 1}")
    return parts[int(digits)]


def _parse(text: str) -> _Rule:
    match = _RULE.fullmatch(text)
    if match is None or match["components"] == "":
        raise ShortNameError(f"expected DEFAULT or RULE:[n:format](pattern)s/pattern/replacement/: {text!r}")
    if match["default"]:
        return _Rule(text)
    try:
        wanted, replace = (
            None if match[name] is None else re.compile(match[name], re.ASCII) for name in ("match", "from")
        )
        replacement = () if replace is None else parse_replacement(match["to"], replace)
    except (ValueError, re.error) as error:
        raise ShortNameError(f"{text}: {error}") from None
    most = 0 if match["repeat"] else 1
    return _Rule(
        text, int(match["components"]), match["format"], wanted, replace, replacement, most, match["case"]
    )
