"""One member of a group: what its JoinGroup said, its assignment, and its waiting requests.

A member waits for at most one JoinGroup and one SyncGroup answer. A client may give up on a request,
reconnect and try again while the older request still waits. The newer request then takes its place. The older
one is told REBALANCE_IN_PROGRESS at once, so that no request is left without an answer.

Source: Apache Kafka's ClassicGroupMember.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from kafkapy.coordination.timers import Cancellable
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.join_group import JoinGroupResponse
from kafkapy.protocol.messages.sync_group import SyncGroupResponse

JoinReply = Callable[[JoinGroupResponse], None]
SyncReply = Callable[[SyncGroupResponse], None]
Protocols = tuple[tuple[str, bytes], ...]
"""A member's protocols (assignors) with its metadata for each, the preferred one first."""

PROTOCOL_BYTES: Final = 1024
"""What a protocol takes besides its name and metadata. A member has few protocols."""


def protocol_bytes(protocols: Protocols) -> int:
    """About how many bytes protocols take with their metadata and their objects."""
    return sum(PROTOCOL_BYTES + len(name) + len(metadata) for name, metadata in protocols)


@dataclass(slots=True, eq=False)
class Member:
    """A member that has joined. Times in milliseconds."""

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
    """Waits in its first JoinGroup and does not know its id: it may be expired although it waits."""
    join_reply: JoinReply | None = None
    sync_reply: SyncReply | None = None
    session_deadline: float = 0.0
    """Monotonic seconds; moved by every sign of life."""
    session_timer: Cancellable | None = None
    """Armed for `session_deadline` or earlier: then it is armed again for the rest."""
    session_timer_at: float = 0.0

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """Whether a request of it waits for the others, which is as good as a heartbeat."""
        return not self.is_new and (self.join_reply is not None or self.sync_reply is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for the group's protocol."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"{self.member_id} does not support {protocol}")

    def vote(self, candidates: Iterable[str]) -> str:
        """The candidate it prefers."""
        return next(name for name, _ in self.protocols if name in candidates)

    def await_sync(self, reply: SyncReply) -> None:
        """Remember who waits for this member's assignment."""
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
        """Stop watching for signs of life."""
        if self.session_timer is not None:
            self.session_timer.cancel()
            self.session_timer = None
