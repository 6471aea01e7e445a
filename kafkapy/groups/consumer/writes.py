"""Writes the records of consumer groups to `__consumer_offsets`."""

from __future__ import annotations

from typing import TypeAlias

from kafkapy.coordination.event_writes import EventWrites
from kafkapy.groups.loading import LoadedPartition

ConsumerGroupWrites: TypeAlias = EventWrites[LoadedPartition]
