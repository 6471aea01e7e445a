"""The records of one event of a streams group."""

from __future__ import annotations

from typing import TypeAlias

from kafkapy.groups.modern.event_records import EventRecords
from kafkapy.groups.streams.group import StreamsGroup
from kafkapy.groups.streams.records import StreamsGroupKey

Transition: TypeAlias = EventRecords[StreamsGroup, StreamsGroupKey]
