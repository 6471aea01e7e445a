"""A member of a streams group: one thread of a Kafka Streams application.

                nothing to revoke
      ┌──────────────────────────────────────┐
      │                                      ▼
    STABLE ──► UNREVOKED_TASKS ──► UNRELEASED_TASKS ──► STABLE
      waits for a  the client has    another member or     every task of the
      new target   to give up some   process has some yet  target is its own

Members are immutable: a change makes a new one. Source: Apache Kafka's StreamsGroupMember, MemberState.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

from kafkapy.groups.member_total import TAG_BYTES, text_bytes
from kafkapy.groups.streams.tasks import MemberTasks


class MemberState(IntEnum):
    """The states, with the numbers of the records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127
    """A state of a newer release of Kafka. The member has to start again."""


class Endpoint(NamedTuple):
    """Where the state of a member can be queried."""

    host: str
    port: int


def metadata_bytes(process_id: str | None, host: str, tags: Iterable[tuple[str, str]]) -> int:
    """About how many bytes of memory the metadata of a process takes."""
    tag_bytes = sum(TAG_BYTES + text_bytes(*tag) for tag in tags)
    return text_bytes(process_id, host) + tag_bytes


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """One member."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    """Of a member that another release of Kafka stored: static members are not served."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    """Names and values, sorted."""
    nbytes: int = field(default=0, compare=False)
    """About how many bytes of memory the member's metadata takes."""
    assigned: MemberTasks = field(default_factory=MemberTasks)
    revoking: MemberTasks = field(default_factory=MemberTasks)
    """The tasks that the client has to give up, and has not given up yet."""

    def at_epoch(self, epoch: int) -> StreamsMember:
        """The member at another epoch."""
        return replace(self, previous_epoch=self.epoch, epoch=epoch)

    @property
    def is_revoking(self) -> bool:
        """Whether the member must give something up."""
        return self.state is MemberState.UNREVOKED_TASKS

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has reached the target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch
