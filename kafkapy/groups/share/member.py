"""A member of a share group.

It has no state of its own: a partition may have several members, so no member waits for another one. Members
are immutable: a change makes a new one. Source: Apache Kafka's ShareGroupMember.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from kafkapy.protocol.types import Uuid

Partitions = Mapping[Uuid, frozenset[int]]
"""Partitions by topic id."""


@dataclass(frozen=True, slots=True)
class ShareMember:
    """One member."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    nbytes: int = field(default=0, compare=False)
    """About how many bytes of memory the member's metadata takes."""
    assigned: Partitions = field(default_factory=dict)
    is_revoking: ClassVar[bool] = False
    """A member gives up at once what it loses."""

    def at_epoch(self, epoch: int) -> ShareMember:
        """The member at another epoch."""
        return replace(self, previous_epoch=self.epoch, epoch=epoch)
