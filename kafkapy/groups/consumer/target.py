"""Computes target assignments.

A target is computed from a snapshot of the group, so it may be computed in a worker thread. Only the members
whose partitions changed get a new record.

Source: Apache Kafka's TargetAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from kafkapy.assignors import Assignor, AssignorError, GroupSpec, MemberSpec, Topics, TopicSpec
from kafkapy.groups.consumer import records
from kafkapy.groups.consumer.group import ConsumerGroup
from kafkapy.groups.consumer.member import ConsumerMember
from kafkapy.groups.consumer.range_assignor import RangeAssignor
from kafkapy.groups.consumer.records import Target
from kafkapy.groups.consumer.uniform_assignor import UniformAssignor
from kafkapy.groups.modern.subscriptions import NO_TOPICS
from kafkapy.groups.modern.target_computations import ComputedTarget, computed_target
from kafkapy.groups.modern.topics import TopicsView
from kafkapy.metadata.image import Topic
from kafkapy.operator_class import PYTHON_CLASS, UnusableClassError, find_class, one_line
from kafkapy.protocol.types import Uuid, uuid_to_text

BUILT_IN: Final[Mapping[str, type[Assignor]]] = {"uniform": UniformAssignor, "range": RangeAssignor}
_SETTING: Final = "group.consumer.assignors"
QUICK: Final = 2_000
"""The members and partitions whose assignment takes a few milliseconds at most."""


def load_assignors(names: Sequence[str]) -> dict[str, Assignor]:
    """The assignors of group.consumer.assignors, by name, the default one first.

    Raises:
        UnusableClassError: one of them cannot be used.
    """
    loaded: dict[str, Assignor] = {}
    for name in dict.fromkeys(names):
        assignor = BUILT_IN[name]() if name in BUILT_IN else _import(name)
        if assignor.name in loaded:
            raise UnusableClassError(
                f"{_SETTING}={name}: it has the name {assignor.name} of another one; members ask for"
                " assignors by name: give it one of its own, or leave one of the two out"
            )
        loaded[assignor.name] = assignor
    if not loaded:
        raise UnusableClassError(f"{_SETTING}: it names no assignor; give uniform, range or module:Class")
    return loaded


def _import(name: str) -> Assignor:
    if PYTHON_CLASS.fullmatch(name) is None:
        raise UnusableClassError(
            f"{_SETTING}={name}: it is neither uniform nor range, nor the module:Class of a Python class;"
            " correct it, or leave it out"
        )
    found = find_class(_SETTING, name, Assignor)
    if not isinstance(getattr(found, "name", None), str):
        raise UnusableClassError(f"{_SETTING}={name}: it has no name; set the attribute name of the class")
    try:
        assignor: Assignor = found()
    except BaseException as error:  # SystemExit too: it is the operator's code
        raise UnusableClassError(
            f"{_SETTING}={name}: no object of it can be made: {one_line(error)}; mend it, or leave it out"
        ) from None
    return assignor


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """The snapshot from which a target assignment is computed."""

    group_id: str
    epoch: int
    """The group epoch for which it is computed."""
    assignor: Assignor
    members: Mapping[str, ConsumerMember]
    matches: Mapping[str, frozenset[str]]
    """The topics of each regular expression."""
    before: Mapping[str, Target]
    """The present target assignment."""
    topics: Mapping[str, Topic]
    """The subscribed topics that exist, by name."""
    view: TopicsView
    size: int
    """The members, their topics and the partitions."""

    @property
    def member_ids(self) -> Collection[str]:
        """The members that the group had."""
        return self.members.keys()

    @property
    def is_quick(self) -> bool:
        """Whether it may be computed on the event loop: a built-in assignor, and not too large."""
        return type(self.assignor) in BUILT_IN.values() and self.size <= QUICK

    def compute(self) -> ComputedTarget[Target]:
        """The partitions of each member.

        Raises:
            AssignorError: there is no assignment.
        """
        targets = compute_targets(self.assignor, *self._specs())
        return computed_target(self.before, targets, partial(records.target_assignment, self.group_id))

    def _specs(self) -> tuple[GroupSpec, Topics]:
        """The input of the assignor."""
        known: dict[tuple[frozenset[str], str], frozenset[Uuid]] = {}

        def ids(names: frozenset[str], regex: str) -> frozenset[Uuid]:
            found = known.get((names, regex))
            if found is None:
                each = names | self.matches.get(regex, NO_TOPICS)
                found = frozenset(self.topics[name].id for name in each if name in self.topics)
                known[names, regex] = found
            return found

        members = {
            member_id: MemberSpec(
                member.instance_id,
                member.rack_id,
                ids(member.topic_names, member.topic_regex),
                self.before.get(member_id, {}),
            )
            for member_id, member in self.members.items()
        }
        homogeneous = len({member.topic_ids for member in members.values()}) <= 1
        topics = {topic.id: self.view.spec(topic) for topic in self.topics.values()}
        return GroupSpec(members, homogeneous), topics


def compute_targets(assignor: Assignor, group: GroupSpec, topics: Topics) -> dict[str, Target]:
    """The partitions that an assignor gives each member, if that is possible.

    Raises:
        AssignorError: there is no assignment.
    """
    try:
        found = assignor.assign(group, topics)
    except AssignorError:
        raise
    except Exception as error:
        raise AssignorError(f"{type(error).__name__}: {error}") from error
    targets: dict[str, Target] = {}
    taken: dict[Uuid, set[int]] = {}
    for member_id, member in group.members.items():
        target: dict[Uuid, frozenset[int]] = {}
        for topic, partitions in found.get(member_id, {}).items():
            if not partitions:
                continue
            own = target[topic] = frozenset(partitions)
            others = taken.setdefault(topic, set())
            if topic not in member.topic_ids or not others.isdisjoint(own) or not _exist(topics[topic], own):
                raise AssignorError(
                    f"assignor {assignor.name} gives member {member_id} partitions of topic "
                    f"{uuid_to_text(topic)} that it cannot have"
                )
            others |= own
        targets[member_id] = target
    return targets


def _exist(topic: TopicSpec, partitions: frozenset[int]) -> bool:
    return min(partitions) >= 0 and max(partitions) < topic.num_partitions


def target_request(
    group: ConsumerGroup, view: TopicsView, assignors: Mapping[str, Assignor]
) -> TargetRequest:
    """The snapshot for the group's next target assignment.

    It costs the members and the topics that exist, and not the names of all members.
    """
    name = group.preferred_assignor()
    assignor = next(iter(assignors.values())) if name is None or name not in assignors else assignors[name]
    matches = {regex: resolved.topics for regex, resolved in group.regexes.items()}
    members = dict(group.members)
    names = group.subscriptions.size
    if len({(member.topic_names, member.topic_regex) for member in members.values()}) > 1:
        # Assignors look at each topic of each member then.
        names = sum(
            len(member.topic_names) + len(matches.get(member.topic_regex, NO_TOPICS))
            for member in members.values()
        )
    return TargetRequest(
        group.group_id,
        group.epoch,
        assignor,
        members,
        matches,
        dict(group.targets),
        dict(group.existing.topics(view)),
        view,
        len(members) + names + group.existing.num_partitions(view),
    )
