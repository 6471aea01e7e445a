"""The position of a run, as offsets of a consumer group, for tools that show lag.

The group has no members. Nothing ever reads these offsets back: the table's state alone says where a run
begins. So they may be lost, or changed by somebody, and the next batch or the next start commits them anew.

A failure never ends a run: it is told once, and tried again. Unchanged offsets are committed again each hour:
a broker forgets the offsets of a group without members after `offsets.retention.minutes` (KIP-211), by
default seven days after the commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.topics import Topics

RENEW: Final = 3600.0  # seconds
RETRY: Final = 30.0


class GroupOffsets:
    """Commits the position for the definition's group; does nothing if it has none."""

    def __init__(
        self,
        definition: PipelineDefinition,
        topics: Topics,
        note: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._definition, self._topics = definition, topics
        self._note, self._clock = note, clock
        self._offsets: dict[int, int] = {}
        self._due = 0.0
        self._failing = False

    def publish(self, offsets: Mapping[int, int]) -> None:
        """Commits this position, unless it is the last one."""
        if offsets and offsets != self._offsets:
            self._offsets = dict(offsets)
            self._commit()

    def renew(self) -> None:
        """Commits the last position again, if that is due."""
        if self._offsets and self._clock() >= self._due:
            self._commit()

    def _commit(self) -> None:
        definition = self._definition
        if definition.group is None:
            self._due = float("inf")
            return
        try:
            self._topics.commit_group_offsets(definition.group, definition.topic, self._offsets)
        except PipelineError as error:
            if not self._failing:
                self._note(f"{definition.name}: {error}; the run continues, only tools that show lag miss it")
            self._failing, self._due = True, self._clock() + RETRY
            return
        self._failing, self._due = False, self._clock() + RENEW
