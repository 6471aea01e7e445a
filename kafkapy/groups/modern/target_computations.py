"""The target assignments that worker threads compute for groups of one type.

A target is computed from a snapshot of its group, and counts only if it still fits the group then. Until it
is there, members follow the last one. While a group's target is being computed, no other snapshot is made:
the next heartbeat after that begins again if the group has changed meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from kafkapy.assignors import AssignorError
from kafkapy.groups.modern.change import Change, TargetChange, encode_change
from kafkapy.groups.modern.group import ModernGroup
from kafkapy.logs.text import shortened

logger = logging.getLogger(__name__)

G = TypeVar("G", bound=ModernGroup[Any, Any])
T = TypeVar("T")
R = TypeVar("R", bound="TargetRequest")


@dataclass(frozen=True, slots=True)
class ComputedTarget(Generic[T]):
    """The targets of all members, each of type T, and the records of those that are new."""

    targets: Mapping[str, T]
    changes: Sequence[TargetChange]


def computed_target(
    before: Mapping[str, T], targets: Mapping[str, T], record: Callable[[str, T], Change[Any]]
) -> ComputedTarget[T]:
    """Targets with the records that `record` makes of those that are new."""
    return ComputedTarget(
        targets,
        [
            TargetChange(member_id, target, encode_change(record(member_id, target)))
            for member_id, target in targets.items()
            if before.get(member_id) != target
        ],
    )


class TargetRequest(Protocol):
    """A target assignment that is to be computed."""

    @property
    def epoch(self) -> int:
        """The group epoch for which it is computed."""
        ...

    @property
    def member_ids(self) -> Collection[str]:
        """The members that the group had."""
        ...

    def compute(self) -> ComputedTarget[Any]:
        """The target of each member; raises AssignorError if there is none."""
        ...


class TargetComputations(Generic[G, R]):
    """Computes targets of type R for groups of type G."""

    def __init__(
        self,
        costly: Callable[..., Awaitable[Any]],
        *,
        start: Callable[[Coroutine[Any, Any, None]], object],
        is_current: Callable[[G], bool],
        computed: Callable[[G, R, ComputedTarget[Any]], object],
    ) -> None:
        """`computed` is called with a target that fits its group.

        `costly(call, *args)` runs a call in a worker thread; `start` runs a coroutine in the
        background; `is_current` says whether the group is still the coordinator's.
        """
        self._costly = costly
        self._start = start
        self._is_current = is_current
        self._computed = computed
        self._running: set[str] = set()

    def is_running(self, group: G) -> bool:
        """Whether a target of the group is being computed."""
        return group.group_id in self._running

    def begin(self, group: G, request: R) -> None:
        """Compute a target in the background, unless one is being computed."""
        if not self.is_running(group):
            self._running.add(group.group_id)
            self._start(self._compute(group, request))

    async def _compute(self, group: G, request: R) -> None:
        try:
            target = await self._costly(request.compute)
        except AssignorError as error:
            logger.error(
                "Group %s: no target assignment for epoch %d: %s",
                shortened(group.group_id),
                request.epoch,
                error,
            )
            return
        finally:
            self._running.discard(group.group_id)
        if (
            self._is_current(group)
            and group.epoch == request.epoch > group.assignment_epoch
            and group.members.keys() == set(request.member_ids)
        ):
            self._computed(group, request, target)
