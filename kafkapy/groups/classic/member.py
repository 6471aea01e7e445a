"""A member of a classic group: data of its JoinGroup, assignment, waiting requests.

A member waits for at most one JoinGroup and one SyncGroup answer. A client may give up on a request,
reconnect and send it again while the older request still waits. The newer request then takes its place, and
the older one is answered with REBALANCE_IN_PROGRESS at once. So every request gets an answer.

Source: Apache Kafka's ClassicGroupMember.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from kafkapy.coordination.timers import Cancellable
from kafkapy.groups.member_total import MEMBER_BYTES, PROTOCOL_BYTES, text_bytes
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.join_group import JoinGroupResponse
from kafkapy.protocol.messages.sync_group import SyncGroupResponse

JoinReply = Callable[[JoinGroupResponse], None]
SyncReply = Callable[[SyncGroupResponse], None]
Protocols = tuple[tuple[str, bytes], ...]
"""The protocols (assignors) of a member, each with its metadata; the preferred one is first."""

PENDING_BYTES: Final = 1024
"""The memory that a pending member takes besides its id, with its timer."""
ASSIGNMENT_BYTES: Final = 512
"""The memory that each member has for its assignment from the start."""


def protocol_bytes(protocols: Protocols) -> int:
    """About how many bytes of memory the protocols take."""
    return sum(PROTOCOL_BYTES + text_bytes(name) + len(metadata) for name, metadata in protocols)


def member_bytes(protocols: Protocols, *texts: str | None, assignment: bytes = b"") -> int:
    """About how many bytes of memory a member takes with its ids and other texts."""
    return MEMBER_BYTES + protocol_bytes(protocols) + text_bytes(*texts) + assignment_bytes(assignment)


def assignment_bytes(assignment: bytes) -> int:
    """About how many bytes of memory an assignment takes."""
    return max(len(assignment), ASSIGNMENT_BYTES)


@dataclass(slots=True, eq=False)
class Member:
    """A member that has joined."""

    member_id: str
    group_instance_id: str | None
    """Set for a static member (KIP-345)."""
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """Whether it waits in its first JoinGroup: it does not know its id yet, and may expire."""
    join_reply: JoinReply | None = None
    sync_reply: SyncReply | None = None
    session_deadline: float = 0.0
    """When the session expires, in seconds of the monotonic clock."""
    session_timer: Cancellable | None = None
    """Fires at `session_timer_at`, which may be before the deadline; then it is armed again."""
    session_timer_at: float = 0.0

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory the member takes by what clients said of it."""
        return member_bytes(
            self.protocols,
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.protocol_type,
            assignment=self.assignment,
        )

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """Whether one of its requests waits for other members; then it need not send heartbeats."""
        return not self.is_new and (self.join_reply is not None or self.sync_reply is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for a protocol, which it must support."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"{self.member_id} does not support {protocol}")

    def vote(self, candidates: Iterable[str]) -> str:
        """The candidate that the member prefers."""
        return next(name for name, _ in self.protocols if name in candidates)

    def await_sync(self, reply: SyncReply) -> None:
        """Keep `reply` for the assignment; a SyncGroup that already waits is answered."""
        superseded, self.sync_reply = self.sync_reply, reply
        if superseded is not None:
            superseded(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    def answer_sync(self, response: SyncGroupResponse) -> bool:
        """Answer a waiting SyncGroup; return whether there was one."""
        reply, self.sync_reply = self.sync_reply, None
        if reply is None:
            return False
        reply(response)
        return True

    def end_session(self) -> None:
        """Cancel the session's timer."""
        if self.session_timer is not None:
            self.session_timer.cancel()
            self.session_timer = None
