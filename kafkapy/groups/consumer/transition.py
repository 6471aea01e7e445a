"""The records of one event of a consumer group (`kafkapy.groups.transition`)."""

from __future__ import annotations

from typing import TypeAlias

from kafkapy.groups import transition
from kafkapy.groups.consumer.group import ConsumerGroup

Transition: TypeAlias = transition.Transition[ConsumerGroup]
