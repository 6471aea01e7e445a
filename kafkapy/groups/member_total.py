"""The memory that members take: of one group, and of all groups together."""

from __future__ import annotations

from collections.abc import Iterable
from sys import getsizeof
from typing import Final

MEMBER_BYTES: Final = 2048
"""The memory that a member takes in its group, besides its metadata."""
PROTOCOL_BYTES: Final = 1024
"""The memory that a protocol of a classic member takes besides its name and metadata."""
TAG_BYTES: Final = 200
"""The memory that a tag of a streams member takes besides its name and value."""
NAME_BYTES: Final = 120
"""The memory that a topic takes besides its name in a member's subscription."""
MATCH_BYTES: Final = 64
"""The memory that a topic takes among those that an expression matches: the image has its name."""


def text_bytes(*texts: str | None) -> int:
    """How many bytes of memory texts take; a character takes up to 4."""
    return sum(map(getsizeof, texts))


def identity_bytes(member_id: str, *texts: str | None) -> int:
    """How many bytes of memory a member takes with its id, which targets repeat, and the like."""
    return MEMBER_BYTES + text_bytes(member_id, member_id, *texts)


def subscription_bytes(topics: Iterable[str], regex: str | None = None) -> int:
    """About how many bytes of memory a subscription takes, the topics of the expression apart."""
    names = tuple(topics)
    return NAME_BYTES * len(names) + text_bytes(*names, regex)


def regex_bytes(topics: int) -> int:
    """About how many bytes of memory so many topics take that an expression matches."""
    return topics * MATCH_BYTES


class MemberTotal:
    """A sum that is kept up to date; that of a group is part of the sum of all groups."""

    __slots__ = ("_whole", "nbytes", "unresolved_regexes")

    def __init__(self) -> None:
        self.nbytes = 0
        self.unresolved_regexes = 0
        """The number of regular expressions whose topics are not known yet."""
        self._whole: MemberTotal | None = None

    def add(self, nbytes: int, unresolved_regexes: int = 0) -> None:
        """Count more, or less."""
        self.nbytes += nbytes
        self.unresolved_regexes += unresolved_regexes
        if self._whole is not None:
            self._whole.add(nbytes, unresolved_regexes)

    def set(self, nbytes: int, unresolved_regexes: int = 0) -> None:
        """Count this instead of what was counted."""
        self.add(nbytes - self.nbytes, unresolved_regexes - self.unresolved_regexes)

    def enter(self, whole: MemberTotal) -> None:
        """Become part of another sum."""
        whole.add(self.nbytes, self.unresolved_regexes)
        self._whole = whole

    def leave(self) -> None:
        """Be part of another sum no more."""
        assert self._whole is not None
        self._whole.add(-self.nbytes, -self.unresolved_regexes)
        self._whole = None
