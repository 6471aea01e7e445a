"""The software of clients, as the metrics show it: bounded, since clients name it."""

from __future__ import annotations

from typing import Final, TypeAlias

MOST: Final = 100
"""The most pairs of a name and a version that are shown; those that came first."""

LONGEST: Final = 100
"""The longest name and version that are shown."""

OTHER: Final = ("(other)", "(other)")

Software: TypeAlias = tuple[str, str]
"""A name and a version."""


class ClientSoftware:
    """The software that is shown."""

    def __init__(self) -> None:
        self._known: set[Software] = set()

    def shown(self, software: Software) -> Software:
        """The labels of a client's software."""
        if software in self._known:
            return software
        if len(self._known) >= MOST or max(map(len, software)) > LONGEST:
            return OTHER
        self._known.add(software)
        return software
