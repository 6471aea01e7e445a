"""Shortens text from clients for log lines."""

from __future__ import annotations

import json
from collections.abc import Collection
from itertools import islice
from typing import Final

CHARACTERS: Final = 200
"""How many characters of a name are shown."""
NAMES: Final = 10
"""How many names of a list are shown."""


def shortened(text: str) -> str:
    """`text`, or its beginning and its length if it is long."""
    return text if len(text) <= CHARACTERS else f"{text[:CHARACTERS]}… ({len(text)} characters)"


def quoted(text: str) -> str:
    """A text from a client in quotes, so that none of it can be taken for a part of the line."""
    return json.dumps(shortened(text), ensure_ascii=False)


def listed(names: Collection[str]) -> str:
    """The names, or the first ones and the number of the others."""
    shown = ", ".join(map(shortened, islice(names, NAMES)))
    return shown if len(names) <= NAMES else f"{shown} and {len(names) - NAMES} more"
