"""The records of one event of a consumer group."""

from __future__ import annotations

from typing import TypeAlias

from kafkapy.groups.consumer.group import ConsumerGroup
from kafkapy.groups.consumer.records import ConsumerGroupKey
from kafkapy.groups.modern.event_records import EventRecords

Transition: TypeAlias = EventRecords[ConsumerGroup, ConsumerGroupKey]
