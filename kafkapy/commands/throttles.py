"""Throttles of reassignments: the rates of brokers, and the replicas for which they count.

Replicas from before a move send it no faster than the leader's rate of their broker, and new ones fetch it no
faster than the follower's rate of theirs. Source: ReassignPartitionsCommand.modifyReassignmentThrottle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafkapy.commands.configs import alter_configs
from kafkapy.commands.options import Session
from kafkapy.errors import UserError

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""The settings of brokers, in bytes a second."""
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
"""The settings of topics: `partition:broker`, with commas between them."""


def throttle(session: Session, moves: Mapping[Any, tuple[Sequence[int], Sequence[int]]], rate: int) -> None:
    """Throttle moves of partitions: from the first replicas to the second, at bytes a second.

    Raises UserError if a broker refuses it.
    """
    brokers: set[int] = set()
    senders: dict[str, list[str]] = {}
    receivers: dict[str, list[str]] = {}
    for place, (before, after) in sorted(moves.items()):
        brokers.update(before, after)
        senders.setdefault(place.topic, []).extend(f"{place.partition}:{broker}" for broker in sorted(before))
        new = [broker for broker in after if broker not in before]
        receivers.setdefault(place.topic, []).extend(f"{place.partition}:{broker}" for broker in new)
    _alter(
        session,
        "topics",
        {
            topic: {LEADERS: ",".join(senders[topic]), FOLLOWERS: ",".join(receivers[topic])}
            for topic in senders
        },
    )
    _alter(session, "brokers", {str(each): dict.fromkeys(RATES, str(rate)) for each in sorted(brokers)})


def end_throttles(session: Session, topics: Iterable[str]) -> None:
    """Take the rates from all brokers, and the throttled replicas from the topics.

    Raises UserError if a broker refuses it.
    """
    _alter(session, "brokers", {str(each): dict.fromkeys(RATES) for each in session.admin.broker_ids()})
    _alter(session, "topics", {topic: dict.fromkeys((LEADERS, FOLLOWERS)) for topic in topics})


def _alter(session: Session, type_: str, changes: Mapping[str, Mapping[str, str | None]]) -> None:
    for row in alter_configs(session, type_, changes, dry_run=False):
        if row["error"]:
            raise UserError(f"throttle of {type_} {row['name']}: {row['error']}")
