"""The topics of subscriptions by regular expression (`kafkapy.patterns`).

The matches of an expression are kept, so that a later look tests only the names that are new. A look is made
in pieces, between which other groups have their turns, and ends when its time is used up: then a later one
continues where it stopped. So a group's costly expressions delay the group itself.

Source: Apache Kafka's TopicRegexResolver.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from kafkapy.patterns import PatternError, compile_pattern
from kafkapy.protocol.errors import ErrorCode, KafkaError

PIECE_SECONDS: Final = 0.05
"""The CPU time of a thread after which other groups have their turns."""
LOOK_SECONDS: Final = 1.0
"""The CPU time that one look at a group's expressions may take."""


def error_in(regex: str) -> KafkaError | None:
    """INVALID_REGULAR_EXPRESSION unless RE2 can compile the expression.

    It may take long: the first call loads the library, and expressions may be large.
    """
    try:
        compile_pattern(regex)
    except PatternError as error:
        return KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        )
    return None


@dataclass(slots=True)
class Tested:
    """The names that an expression was tested with, and those of them that it matches."""

    names: set[str] = field(default_factory=set)
    matches: set[str] = field(default_factory=set)


class Look:
    """One look at expressions; its pieces are made in worker threads."""

    def __init__(
        self, before: dict[str, Tested], topics: Collection[str], cpu_time: Callable[[], float]
    ) -> None:
        """`before` are the known matches of each expression; `topics` do not change."""
        self._cpu_time = cpu_time
        self.tested = before
        self.found: dict[str, frozenset[str]] = {}
        """The topics of each expression that was tested with all names."""
        self._topics = topics
        self._seconds = 0.0
        self._steps = self._all_steps()

    @property
    def is_done(self) -> bool:
        """Whether all expressions were tested with all names."""
        return self.found.keys() == self.tested.keys()

    @property
    def is_over(self) -> bool:
        """Whether it is done, or has used up its time."""
        return self.is_done or self._seconds >= LOOK_SECONDS

    def work(self) -> None:
        """Make one piece of the look."""
        begin = self._cpu_time()
        for _ in self._steps:
            if self._cpu_time() - begin >= PIECE_SECONDS:
                break
        self._seconds += self._cpu_time() - begin

    def _all_steps(self) -> Iterator[None]:
        for regex, tested in self.tested.items():
            try:
                pattern = compile_pattern(regex)
            except PatternError:  # it matches nothing
                self.found[regex] = frozenset()
                continue
            yield
            for name in self._topics:
                if name not in tested.names:
                    if pattern.fullmatch(name):
                        tested.matches.add(name)
                    tested.names.add(name)
                    yield
            self.found[regex] = frozenset(tested.matches.intersection(self._topics))


class RegexTopics:
    """The matches of the expressions that were looked at last.

    Groups with the same expression share it, also while looks at it are made.
    """

    max_kept: int = 200_000
    """The most names that are kept as tested, for all expressions together: some 15 MB."""

    def __init__(self, cpu_time: Callable[[], float] = time.thread_time) -> None:
        """`cpu_time` counts the seconds that the thread has worked which calls it."""
        self._cpu_time = cpu_time
        self._kept: OrderedDict[str, tuple[Tested, int]] = OrderedDict()
        """With each expression, how much it counts."""
        self._size = 0

    def look(self, regexes: Collection[str], topics: Collection[str]) -> Look:
        """Begin a look at expressions."""
        before = {}
        for regex in regexes:
            tested, _ = self._kept.get(regex, (None, 0))
            before[regex] = Tested() if tested is None else tested
            self._keep(regex, before[regex])
        return Look(before, topics, self._cpu_time)

    def keep(self, look: Look, topics: Collection[str]) -> None:
        """Keep the matches of a look, without the names of topics that are gone."""
        for regex, tested in look.tested.items():
            if len(tested.names) > len(topics):
                tested.names.intersection_update(topics)
                tested.matches.intersection_update(topics)
            self._keep(regex, tested)

    def _keep(self, regex: str, tested: Tested) -> None:
        """Keep the matches of an expression, and forget those that were used least recently."""
        _, before = self._kept.pop(regex, (tested, 0))
        size = 1 + len(regex) // 64 + len(tested.names)
        self._kept[regex] = tested, size
        self._size += size - before
        while self._size > self.max_kept:
            _, (_, size) = self._kept.popitem(last=False)
            self._size -= size
