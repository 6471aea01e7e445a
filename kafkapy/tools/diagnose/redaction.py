"""Removes secrets from what goes into the archive, in two ways.

The value of a setting is shown only if Apache Kafka's table or ours says that it is no secret; that of an
unknown setting is not. And no value that was hidden is let through elsewhere: not in a log line, nor in the
output of a command. A JAAS line is a secret as a whole, and so is each value in it but names: `kafka` as the
user's would hide a word of every line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from kafkapy.configs.keys import broker_key

HIDDEN: Final = "[hidden]"

SHORTEST: Final = 4
"""A shorter secret is hidden in the settings, and is not looked for elsewhere: it would match any text."""

_OPTION: Final = re.compile(r"(?:([\w.-]+)\s*=\s*)?(?:\"([^\"]+)\"|'([^']+)'|(?<==)\s*([^\s\"';]+))")
_USER_INFO: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_SECRET_WORDS: Final = re.compile(
    r"(?i)((?:password|passwd|secret|token|stored_key|server_key|salt)\w*\"?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;]+)"
)
_BEARER: Final = re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*")
_PEM: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
_NO_SECRETS: Final = frozenset({"true", "false", "required", "requisite", "sufficient", "optional"})
_NAMING_OPTIONS: Final = frozenset({"username", "principal", "servicename", "keytab", "ticketcache"})
"""Options of JAAS lines that are no secrets."""
_NAMING_PROPERTIES: Final = frozenset(
    {"bootstrap.servers", "client.id", "sasl.mechanism", "sasl.username", "security.protocol"}
)
"""Properties of clients that are no secrets, and that the broker's tables do not have."""


class Redaction:
    """Hides the secrets of the broker's settings, and those of a client's properties."""

    def __init__(self, settings: Mapping[str, str], client: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        found = {*_secrets(settings), *_secrets(client or {})}
        longest_first = sorted(found, key=len, reverse=True)
        self._found = re.compile("|".join(map(re.escape, longest_first))) if found else None

    def settings(self) -> str:
        """The settings as lines of a server.properties."""
        lines = []
        for name, value in sorted(self._settings.items()):
            shown = HIDDEN if broker_key(name).sensitive and value else self.text(value)
            lines.append(f"{name}={shown}\n")
        return "".join(lines)

    def text(self, text: str) -> str:
        """A text without the secrets of the settings, and without what looks like one."""
        if self._found is not None:
            text = self._found.sub(HIDDEN, text)
        text = _PEM.sub(HIDDEN, text)
        text = _BEARER.sub(HIDDEN, text)
        text = _USER_INFO.sub(HIDDEN, text)
        return _SECRET_WORDS.sub(rf"\g<1>{HIDDEN}", text)


def _secrets(settings: Mapping[str, str]) -> Iterable[str]:
    for name, value in settings.items():
        if name in _NAMING_PROPERTIES or not broker_key(name).sensitive:
            continue
        parts = [
            part
            for option, *found in _OPTION.findall(value)
            if option.lower() not in _NAMING_OPTIONS
            for part in found
        ]
        for each in (value, *value.splitlines(), *parts):
            if len(each.strip()) >= SHORTEST and each.strip().lower() not in _NO_SECRETS:
                yield each.strip()
