"""Keeps up which topics the regular expressions of a group's members match.

All expressions of a group are looked at together, in a worker thread, so that the result causes at most one
rebalance. That happens when a member brings a new expression, when there are new topics, and every ten
minutes, but not more often than every ten seconds. If a look takes too long, another one continues it ten
seconds later; until then a new expression has no topics. The last member that subscribes to an expression
takes it along.

Source: Apache Kafka's GroupMetadataManager (maybeUpdateRegularExpressions, handleRegularExpressionsResult).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Final, TypeAlias

from kafkapy.groups.consumer import records
from kafkapy.groups.consumer.group import ConsumerGroup, Transition
from kafkapy.groups.consumer.member import ConsumerMember
from kafkapy.groups.consumer.progress import Progress
from kafkapy.groups.consumer.records import ResolvedRegex
from kafkapy.protocol.errors import KafkaError

MIN_INTERVAL_MS: Final = 10_000
MAX_INTERVAL_MS: Final = 600_000

Resolve: TypeAlias = Callable[[ConsumerGroup, Collection[str], Callable[[str], bool] | None], None]


class RegexChange(Enum):
    """What became of a member's regular expression."""

    NONE = "it is the same"
    UNRESOLVED = "it is another one, whose topics are not known yet"
    RESOLVED = "it is another one, whose topics are known, or there is none any more"

    @property
    def is_changed(self) -> bool:
        """Whether it is another one."""
        return self is not RegexChange.NONE

    @property
    def is_resolved(self) -> bool:
        """Whether it is another one, and the target assignment can be computed."""
        return self is RegexChange.RESOLVED


class RegexRefresh:
    """Decides when a group's regular expressions are looked at, and takes the results."""

    def __init__(self, progress: Progress, resolve: Resolve) -> None:
        """`resolve` looks for the topics in a worker thread, and calls `resolved` or `failed`.

        It leaves out those of which the member that caused the look may not know, as Apache Kafka does.
        """
        self._progress = progress
        self._resolve = resolve
        self._running: set[str] = set()
        """The groups whose expressions are being looked at."""
        self.new_topics_version = progress.clock.now_ms()
        """The version of the metadata that last had a new topic.

        A version is a time in wall clock milliseconds: later metadata have a later version, whichever broker
        looks at them.
        """

    def is_known(self, group: ConsumerGroup, regex: str) -> bool:
        """Whether a member of the group subscribes to this expression, which is valid therefore."""
        return group.regex_subscribers[regex] > 0

    def change(
        self,
        transition: Transition,
        before: ConsumerMember,
        member: ConsumerMember,
        invalid: KafkaError | None = None,
    ) -> RegexChange:
        """Note a member's new regular expression, before the member changes.

        `invalid` is the error of an expression that is not known.

        Raises:
            KafkaError: INVALID_REGULAR_EXPRESSION.
        """
        group, old, new = transition.group, before.topic_regex, member.topic_regex
        if old == new:
            return RegexChange.NONE
        if invalid is not None and not self.is_known(group, new):
            raise invalid
        if old and group.regex_subscribers[old] == 1 and old in group.regexes:
            transition.apply(records.regular_expression_gone(group.group_id, old))
        return RegexChange.RESOLVED if not new or new in group.regexes else RegexChange.UNRESOLVED

    def refresh_if_due(self, transition: Transition, may_describe: Callable[[str], bool] | None) -> None:
        """Look at the expressions if it is time to, with the rights of the member that is here."""
        group, now = transition.group, self._progress.clock.now_ms()
        if not group.regex_subscribers or group.group_id in self._running:
            return
        if now <= max(group.regexes_time, group.regexes_paused_at) + MIN_INTERVAL_MS:
            return
        if (
            len(group.regexes) != len(group.regex_subscribers)
            or group.regexes_version <= self.new_topics_version
            or now > group.regexes_time + MAX_INTERVAL_MS
        ):
            transition.afterwards(lambda: self._start(group, may_describe))

    def _start(self, group: ConsumerGroup, may_describe: Callable[[str], bool] | None) -> None:
        self._running.add(group.group_id)
        self._resolve(group, tuple(group.regex_subscribers), may_describe)

    def failed(self, group_id: str) -> None:
        """Note that the expressions could not be looked at: the next heartbeat tries again."""
        self._running.discard(group_id)

    def paused(self, group: ConsumerGroup) -> None:
        """Note that a look at the expressions has used up its time: another one continues it later."""
        group.regexes_paused_at = self._progress.clock.now_ms()
        self._running.discard(group.group_id)

    def resolved(
        self, transition: Transition, found: Mapping[str, frozenset[str]], *, started_ms: int, version: int
    ) -> None:
        """Take the topics of the expressions, as they were at `version`."""
        group = transition.group
        self._running.discard(group.group_id)
        changed = False
        for regex, topics in found.items():
            if not group.regex_subscribers[regex]:
                continue
            known = group.regexes.get(regex)
            changed = changed or topics != (frozenset() if known is None else known.topics)
            resolved = ResolvedRegex(topics, version, started_ms)
            transition.apply(records.regular_expression(group.group_id, regex, resolved))
        group_hash = group.existing.hash(self._progress.topics)
        if changed or group_hash != group.metadata_hash:
            self._progress.update_epoch(transition, bump=True)
