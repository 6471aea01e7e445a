"""A leader's knowledge of a replica on another broker, from its fetches.

A fetch from an offset says that the replica has everything below it. With durability=fsync it says that this
is on its disk.

A replica is caught up at a time if it had everything then that the leader had. It need not ever have all:
where the leader appends all the time, a fetch from the offset at which the leader's log ended when the
replica fetched before shows that it was caught up then.

A fetch request is about all partitions of its session, but names only changed ones. A replica that has
everything *attends*: it is caught up at each fetch of its session, whose time is noted once for all of them
(`Attendance`). It attends until its partition changes.

Source: Replica.updateFetchStateOrThrow, ReplicaState.isCaughtUp.
"""

from __future__ import annotations

from collections.abc import Callable

UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -1
"""The broker epoch of a replica that has not fetched yet, or does not tell it (before Fetch v15)."""

LONG_AGO = float("-inf")


class Attendance:
    """When one session of a follower fetched last."""

    __slots__ = ("_now", "at")

    def __init__(self, now: Callable[[], float]) -> None:
        """Note times of the clock `now`."""
        self._now = now
        self.at = LONG_AGO

    def note(self) -> None:
        """Note a fetch of the session."""
        self.at = self._now()


class RemoteReplica:
    """The state of one replica.

    Times are seconds of a monotonic clock.
    """

    __slots__ = (
        "_attendance",
        "_fetched_at",
        "_leader_end_then",
        "broker_epoch",
        "caught_up_at",
        "id",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.id = broker_id
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch = NO_BROKER_EPOCH
        """The epoch of the broker that fetched last."""
        self.caught_up_at = LONG_AGO
        """The last time at which the replica was caught up, apart from what it attends."""
        self._attendance: Attendance | None = None
        """The session that it attends."""
        self._fetched_at = LONG_AGO
        self._leader_end_then = UNKNOWN_OFFSET
        """Where the leader's log ended at the last fetch."""

    def fetched(
        self, offset: int, log_start_offset: int, broker_epoch: int, *, leader_end: int, now: float
    ) -> None:
        """Note a fetch from `offset`."""
        if self._attendance is not None:
            self.leave(self._attendance)
        if offset >= leader_end:
            self.caught_up_at = max(self.caught_up_at, now)
        elif offset >= self._leader_end_then:
            self.caught_up_at = max(self.caught_up_at, self._fetched_at)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._leader_end_then = max(self._leader_end_then, leader_end)
        self._fetched_at = now

    @property
    def attends(self) -> bool:
        """Whether a session says at each fetch, without naming the replica, that it has everything."""
        return self._attendance is not None

    def is_at(self, offset: int, log_start_offset: int) -> bool:
        """Whether the last fetch was from this offset, with this log start offset."""
        return self.log_end_offset == offset and self.log_start_offset == log_start_offset

    def attend(self, session: Attendance) -> None:
        """Be caught up at each fetch of the session from now on, until `leave`."""
        self._attendance = session

    def leave(self, session: Attendance) -> None:
        """Let later fetches of the session say nothing of this replica."""
        if self._attendance is session:
            self._attendance = None
            self.caught_up_at = max(self.caught_up_at, session.at)
            self._fetched_at = max(self._fetched_at, session.at)

    @property
    def last_caught_up(self) -> float:
        """The last time at which the replica was caught up."""
        attendance = self._attendance
        return self.caught_up_at if attendance is None else max(self.caught_up_at, attendance.at)

    @property
    def last_heard(self) -> float:
        """The last time at which the replica fetched, or at which the leader began with it in sync."""
        return max(self.last_caught_up, self._fetched_at)

    def is_caught_up(self, leader_end: int, now: float, lag_seconds: float) -> bool:
        """Whether the replica has everything, or was caught up within the last `lag_seconds`."""
        return self.log_end_offset == leader_end or now - self.last_caught_up <= lag_seconds
