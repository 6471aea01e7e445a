"""Groups of all types: what they have read, and their lag."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from kafkapy.commands.connection.failures import check
from kafkapy.commands.group_state import CLASSIC, Group, described
from kafkapy.commands.share_offsets import share_offsets, share_positions
from kafkapy.errors import UserError
from kafkapy.page.cluster.remembered import Remembered
from kafkapy.page.cluster.topics import Place, Topics
from kafkapy.page.cluster.wire import Wire
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from kafkapy.protocol.special_timestamps import LATEST

SHARE: Final = "share"

_COMMITTED_SECONDS: Final = 1.0
_BY_NAME: Final = 9
"""The last version of OffsetFetch that has names of topics; later ones have ids."""
_GROUPS_AT_ONCE: Final = 100
_MOST_REMEMBERED: Final = 100
_MOST_GROUPS: Final = 2000
"""Groups beyond are not shown beside topics."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A group, as brokers list it."""

    name: str
    type: str
    state: str
    protocol: str


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group is in a partition."""

    place: Place
    committed: int | None
    """None: a member has the partition, and has committed nothing."""
    end: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class Offsets:
    """What a group has read; `done` and the end are as far apart as its lag is large.

    They are the same, but for a share group: its records begin at the first that it has not done with, and
    it may have done with some of those after it.
    """

    committed: Mapping[Place, int]
    done: Mapping[Place, int]


Committed = Mapping[str, Mapping[Place, int]]


class Groups:
    """Asks for groups over a connection."""

    def __init__(self, wire: Wire, topics: Topics, timeout: float) -> None:
        self._wire, self._topics, self._timeout = wire, topics, timeout
        self._listed: Final = Remembered(self._list)
        self._committed: Final[Remembered[Committed]] = Remembered(self._read_committed, _COMMITTED_SECONDS)
        self._by_group: dict[str, Remembered[Offsets]] = {}
        self._lock: Final = threading.Lock()

    def listed(self) -> Mapping[str, Listed]:
        """All groups by name, in order; raises UserError."""
        found = self._listed.get(self._timeout)
        if found is None:
            raise UserError("the cluster does not answer in time")
        return found

    def group(self, name: str) -> Listed:
        """One group; raises UserError if it does not exist."""
        group = self.listed().get(name)
        if group is None:
            self.forget()  # it may be new
            group = self.listed().get(name)
        if group is None:
            raise UserError(f"there is no group {name!r}, or this user may not see it")
        return group

    def forget(self) -> None:
        """Ask anew: something was changed."""
        self._listed.forget()
        self._committed.forget()
        with self._lock:
            self._by_group.clear()

    def all_committed(self, wait: float) -> Committed | None:
        """Up to where all groups are done, some seconds old; None if that is not known that soon."""
        return self._committed.get(wait)

    def offsets(self, group: Listed) -> Offsets:
        """The offsets of a group, as new as they can be had soon; raises UserError."""
        with self._lock:
            known = self._by_group.get(group.name)
            if known is None:
                if len(self._by_group) >= _MOST_REMEMBERED:
                    del self._by_group[next(iter(self._by_group))]
                known = Remembered(partial(self._offsets_now, group))
                self._by_group[group.name] = known
        found = known.get(self._timeout)
        if found is None:
            raise UserError("the cluster does not answer in time")
        return found

    def committed_now(self, group: Listed) -> dict[Place, int]:
        """The committed offsets of a group; of a share group, where its records begin."""
        if group.type == SHARE:
            with self._wire.admin() as admin:
                return {Place(*place): offset for place, offset in share_offsets(admin, group.name).items()}
        for coordinator, names in self._wire.coordinators([group.name]).items():
            return self._fetch(coordinator, names).get(group.name, {})
        return {}

    def positions(self, offsets: Offsets, places: Iterable[Place]) -> list[Position]:
        """Where a group is in some partitions."""
        wanted = list(places)
        ends = self._topics.offsets(wanted, LATEST)
        return [
            Position(
                place,
                offsets.committed.get(place),
                ends.get(place),
                max(ends[place] - offsets.done[place], 0)
                if place in ends and place in offsets.done
                else None,
            )
            for place in wanted
        ]

    def described(self, group: Listed) -> Group | None:
        """A group with its members; None if it is gone."""
        with self._wire.admin() as admin:
            found = described(admin, {group.name: group.type})
        return found[0] if found else None

    def lag(self, group: Listed) -> int:
        """The sum of all lags of a group."""
        offsets = self.offsets(group)
        return sum(position.lag or 0 for position in self.positions(offsets, offsets.committed))

    def _offsets_now(self, group: Listed) -> Offsets:
        if group.type == SHARE:
            return self._share_offsets(group.name)
        committed = self.committed_now(group)
        return Offsets(committed, committed)

    def _share_offsets(self, name: str) -> Offsets:
        with self._wire.admin() as admin:
            found = {Place(*place): position for place, position in share_positions(admin, name).items()}
        ends = self._topics.offsets(found, LATEST)
        done = {
            place: position.start
            if position.lag is None or place not in ends
            else max(ends[place] - position.lag, position.start)
            for place, position in found.items()
        }
        return Offsets({place: position.start for place, position in found.items()}, done)

    def _list(self) -> dict[str, Listed]:
        found = {}
        for broker in self._topics.metadata().brokers:
            answer = self._wire.ask(ListGroupsRequest(), ListGroupsResponse, broker.id)
            check(answer.error_code, None, f"broker {broker.id}")
            for each in answer.groups:
                type_ = (each.group_type or CLASSIC).lower()
                found[each.group_id] = Listed(each.group_id, type_, each.group_state, each.protocol_type)
        return dict(sorted(found.items()))

    def _read_committed(self) -> Committed:
        groups = list(self.listed().values())[:_MOST_GROUPS]
        found: dict[str, Mapping[Place, int]] = {}
        names = [group.name for group in groups if group.type != SHARE]
        for coordinator, own in self._wire.coordinators(names).items():
            for first in range(0, len(own), _GROUPS_AT_ONCE):
                found |= self._fetch(coordinator, own[first : first + _GROUPS_AT_ONCE])
        share = [group.name for group in groups if group.type == SHARE]
        return found | {name: self._share_offsets(name).done for name in share}

    def _fetch(self, coordinator: int, names: Sequence[str]) -> dict[str, dict[Place, int]]:
        groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
        answer = self._wire.ask(
            OffsetFetchRequest(groups=groups), OffsetFetchResponse, coordinator, newest=_BY_NAME
        )
        found = {}
        for group in answer.groups:
            if group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
                continue
            check(group.error_code, None, f"group {group.group_id}")
            found[group.group_id] = {
                Place(topic.name, each.partition_index): each.committed_offset
                for topic in group.topics
                for each in topic.partitions
                if each.committed_offset >= 0 and not each.error_code
            }
        return found
