"""The schemas that were checked last, so that those in use are not checked again."""

from __future__ import annotations

import threading
from typing import Final

from kafkapy.registry.formats.parsed import Parsed

References = tuple[tuple[str, str], ...]
"""The name and the text of each schema that is referred to, after those that it uses itself."""
Key = tuple[str, str, References]
"""The kind, the text and the references of a schema."""

_MOST: Final = 1000
_MOST_CHARACTERS: Final = 1 << 20
"""Of all texts: what a library makes of a schema can take 40 times as much memory."""


class Recent:
    """Forgets what was used longest ago."""

    def __init__(self) -> None:
        self._found: dict[Key, Parsed] = {}
        self._characters = 0
        self._lock = threading.Lock()

    def get(self, key: Key) -> Parsed | None:
        with self._lock:
            found = self._found.pop(key, None)
            if found is not None:
                self._found[key] = found
            return found

    def put(self, key: Key, parsed: Parsed) -> None:
        """Remember a schema, unless it alone is too large."""
        size = _characters(key)
        if size > _MOST_CHARACTERS:
            return
        with self._lock:
            if key in self._found:
                return
            self._found[key] = parsed
            self._characters += size
            while self._characters > _MOST_CHARACTERS or len(self._found) > _MOST:
                oldest = next(iter(self._found))
                del self._found[oldest]
                self._characters -= _characters(oldest)


def _characters(key: Key) -> int:
    _, text, references = key
    return len(text) + sum(len(name) + len(referred) for name, referred in references)
