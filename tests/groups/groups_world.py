"""A coordinator of groups; each kind of group adds its requests to it."""

from __future__ import annotations

from typing import TypeVar

from kafkapy.groups.config import GroupConfig
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.groups.share.persister import StateKeeper
from tests.coordination.coordinator_world import CoordinatorWorld
from tests.groups.memory_log import Blocking, MemoryLog, coordinator, run_here

G = TypeVar("G")


class GroupsWorld(CoordinatorWorld[GroupCoordinator]):
    """The coordinator and its surroundings."""

    def __init__(
        self,
        config: GroupConfig,
        partitions: int = 1,
        *,
        share_state: StateKeeper | None = None,
        blocking: Blocking = run_here,
    ) -> None:
        """Give the log of the groups so many partitions; `blocking` does the work of threads."""
        self.config = config
        self._share_state, self._blocking = share_state, blocking
        super().__init__(MemoryLog(partitions))

    def made(self) -> GroupCoordinator:
        return coordinator(
            self.log,
            self.clock,
            self.timers,
            self.config,
            share_state=self._share_state,
            blocking=self._blocking,
        )

    @property
    def groups(self) -> GroupCoordinator:
        return self.coordinator

    async def restart(self) -> GroupCoordinator:
        """Another coordinator takes over from the log, and has read it."""
        await super().restart()
        await self.loaded()
        await self.settle()
        return self.groups

    def found(self, kind: type[G], group_id: str = "g") -> G:
        """The group in memory, which is of this kind."""
        group = self.groups.groups[group_id]
        assert isinstance(group, kind)
        return group
