"""A world for groups: a clock and timers that the test moves.

Its store fails on demand.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kafkapy.groups.classic.group import ClassicGroup, GroupState
from kafkapy.groups.classic.join import Joining, Joins
from kafkapy.groups.classic.leave import leave
from kafkapy.groups.classic.member import Protocols
from kafkapy.groups.classic.metadata import group_metadata, restore_group
from kafkapy.groups.classic.rebalance import Rebalances
from kafkapy.groups.classic.records import decode_group_value, encode_group_value
from kafkapy.groups.classic.sync import Syncs
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.member_memory import MemberMemory
from kafkapy.protocol.codec import encode
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kafkapy.protocol.messages.join_group import JoinGroupResponse
from kafkapy.protocol.messages.leave_group import MemberIdentity
from kafkapy.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.loop.turned_clock import TurnedClock, TurnedTimers


@dataclass
class Store:
    """A GroupStore that is done at once.

    `hold` keeps writes until `release`.
    """

    written: list[tuple[str, bytes]] = field(default_factory=list)
    hold: bool = False
    error: ErrorCode = ErrorCode.NONE
    held: list[Callable[[ErrorCode], None]] = field(default_factory=list)

    def store_group(
        self, group: ClassicGroup, assignments: Mapping[str, bytes], done: Callable[[ErrorCode], None]
    ) -> None:
        value = encode_group_value(group_metadata(group, assignments))
        if self.hold:
            self.held.append(done)
            self.written.append((group.group_id, value))
            return
        if self.error is ErrorCode.NONE:
            self.written.append((group.group_id, value))
        done(self.error)

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Finish the oldest write that is held."""
        self.held.pop(0)(error)


class Replies:
    """Receives the answers to one request, and asserts that there is only one."""

    def __init__(self) -> None:
        self.joined: JoinGroupResponse | None = None
        self.synced: SyncGroupResponse | None = None

    def join(self, response: JoinGroupResponse) -> None:
        assert self.joined is None, "answered twice"
        self.joined = response

    def sync(self, response: SyncGroupResponse) -> None:
        assert self.synced is None, "answered twice"
        self.synced = response

    @property
    def error(self) -> ErrorCode | None:
        answer = self.joined or self.synced
        return None if answer is None else ErrorCode(answer.error_code)


def subscription(*topics: str) -> bytes:
    """Consumer metadata that subscribes to `topics`."""
    return b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


RANGE: Protocols = (("range", subscription("t")),)


class World:
    """One group and what happens to it; its invariants are checked after every event."""

    def __init__(self, config: GroupConfig | None = None) -> None:
        self.clock = TurnedClock()
        self.timers = TurnedTimers(self.clock)
        self.store = Store()
        self.config = config or GroupConfig()
        self.rebalances = Rebalances(self.config, self.clock, self.timers, self.store)
        ids = itertools.count(1)
        self.joins = Joins(self.rebalances, lambda: str(next(ids)))
        self.syncs = Syncs(self.rebalances, MemberMemory())
        self.group = ClassicGroup("g", self.clock.now_ms())

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        version: int = 9,
        client_id: str = "c",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
    ) -> Replies:
        replies = Replies()
        joining = Joining(
            version=version,
            client_id=client_id,
            client_host="/127.0.0.1",
            member_id=member_id,
            group_instance_id=instance,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=protocols,
            reason="a test",
        )
        self.joins.join(self.group, joining, replies.join)
        self.group.check()
        return replies

    def sync(
        self,
        member_id: str,
        *,
        generation: int | None = None,
        instance: str | None = None,
        assignments: Mapping[str, bytes] | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Replies:
        replies = Replies()
        request = SyncGroupRequest(
            group_id="g",
            generation_id=self.group.generation if generation is None else generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=key, assignment=value)
                for key, value in (assignments or {}).items()
            ],
        )
        self.syncs.sync(self.group, request, replies.sync)
        self.group.check()
        return replies

    def heartbeat(
        self, member_id: str, generation: int | None = None, instance: str | None = None
    ) -> ErrorCode:
        """What the coordinator does for a heartbeat."""
        try:
            member = self.group.require_member(member_id, instance)
            self.group.require_generation(self.group.generation if generation is None else generation)
        except KafkaError as error:
            return error.code
        self.rebalances.sessions.touch(self.group, member)
        self.group.check()
        collecting = self.group.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if collecting else ErrorCode.NONE

    def leave(self, *members: str | tuple[str, str]) -> list[ErrorCode]:
        """Members by id, or by (id, group.instance.id)."""
        identities = [
            MemberIdentity(member_id=each)
            if isinstance(each, str)
            else MemberIdentity(member_id=each[0], group_instance_id=each[1])
            for each in members
        ]
        answers = leave(self.rebalances, self.group, identities)
        self.group.check()
        return [ErrorCode(answer.error_code) for answer in answers]

    def advance(self, seconds: float) -> None:
        self.timers.advance(seconds)
        self.group.check()

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.store.release(error)
        self.group.check()

    def new_id(self, **options: object) -> str:
        """An id handed out to a dynamic member."""
        replies = self.join(**options)  # type: ignore[arg-type]
        assert replies.joined is not None
        assert replies.error is ErrorCode.MEMBER_ID_REQUIRED
        return replies.joined.member_id

    def stable(self, count: int = 1, **options: object) -> list[str]:
        """A stable group of `count` dynamic members, the leader first."""
        ids = [self.new_id(**options) for _ in range(count)]
        waiting = [self.join(member_id, **options) for member_id in ids]  # type: ignore[arg-type]
        self.settle()
        assert all(replies.error is ErrorCode.NONE for replies in waiting)
        return self.assign()

    def settle(self) -> None:
        """Let the initial delays end."""
        for _ in range(100):
            if self.group.state is not GroupState.PREPARING_REBALANCE:
                return
            self.advance(self.config.initial_rebalance_delay_ms / 1000)

    def assign(self) -> list[str]:
        """Every member syncs and gets its id as its assignment; the ids, the leader first."""
        leader = self.group.leader
        assert leader is not None
        ids = [leader, *(key for key in self.group.members if key != leader)]
        followers = [self.sync(member_id) for member_id in ids[1:]]
        led = self.sync(leader, assignments={key: key.encode() for key in ids})
        for member_id, replies in zip(ids, [led, *followers], strict=True):
            assert replies.synced is not None
            assert replies.synced.assignment == member_id.encode()
        assert self.group.state is GroupState.STABLE
        return ids

    def restart(self) -> None:
        """Another coordinator takes the group over from its last record."""
        self.group.close(ErrorCode.NOT_COORDINATOR, self.clock.now_ms())
        self.group = restore_group("g", decode_group_value(self.store.written[-1][1]))
        for member in self.group.members.values():
            self.rebalances.sessions.touch(self.group, member)
        self.group.check()
