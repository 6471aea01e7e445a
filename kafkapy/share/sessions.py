"""Share sessions: the partitions that a member of a share group fetches from this broker.

A member sends the partitions once, and then what changes. Its first request has epoch 0, each later one the
next epoch, and the last one -1. The session ends with the connection, too: the member may be gone, and its
records are for others then.

Source: KIP-932; Apache Kafka's ShareSession, ShareSessionCache, SharePartitionManager (newContext).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.share.state_records import ShareKey

FIRST_EPOCH: Final = 0
LAST_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1
MAX_PARTITIONS: Final = 100_000
"""The most partitions of a session."""


class Closable(Protocol):
    """A connection (`kafkapy.network.connection.Connection`)."""

    def when_closed(self, call: Callable[[], object]) -> None:
        """Call `call()` when the connection has closed."""


class ShareSession:
    """The session of one member."""

    def __init__(self, group_id: str, member_id: str, keys: Iterable[ShareKey], connection: Closable) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection = connection
        self.epoch = _next(FIRST_EPOCH)
        """The epoch of the next request."""
        self.keys = dict.fromkeys(keys)
        """The share partitions, in the order in which the member named them."""


class ShareSessions:
    """The sessions of this broker."""

    def __init__(self, most: Callable[[], int], ended: Callable[[ShareSession], object]) -> None:
        """Keep at most as many sessions as `most` returns.

        `ended` is called when a session has ended.
        """
        self._most = most
        self._ended = ended
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._by_connection: dict[Closable, dict[ShareSession, None]] = {}
        """The sessions of each connection that ever had one, until it closes."""

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self, group_id: str, member_id: str, keys: Iterable[ShareKey], connection: Closable
    ) -> ShareSession:
        """Begin a session, instead of the one that the member had.

        Raises:
            KafkaError: SHARE_SESSION_LIMIT_REACHED.
        """
        # As in Apache Kafka, the records of the member stay acquired: it may still acknowledge them.
        before = self._sessions.pop((group_id, member_id), None)
        if before is not None:
            self._forget(before)
        if len(self._sessions) >= self._most():
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(group_id, member_id, keys, connection)
        self._sessions[group_id, member_id] = session
        of_connection = self._by_connection.get(connection)
        if of_connection is None:
            self._by_connection[connection] = {session: None}
            connection.when_closed(lambda: self._closed(connection))  # at once, if it has closed
        else:
            of_connection[session] = None
        return session

    def _closed(self, connection: Closable) -> None:
        for session in tuple(self._by_connection[connection]):
            self.end(session)
        del self._by_connection[connection]

    def _forget(self, session: ShareSession) -> None:
        self._by_connection[session.connection].pop(session)

    def next(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        keys: Iterable[ShareKey] = (),
        forgotten: Iterable[ShareKey] = (),
    ) -> ShareSession:
        """Continue with a session.

        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH; INVALID_REQUEST, it has too
                many partitions.
        """
        session = self.require(group_id, member_id)
        if epoch != session.epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        named = dict.fromkeys(keys)
        added = sum(1 for key in named if key not in session.keys)
        if len(session.keys) + added > MAX_PARTITIONS:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        session.keys.update(named)
        for key in forgotten:
            session.keys.pop(key, None)
        session.epoch = _next(session.epoch)
        return session

    def require(self, group_id: str, member_id: str) -> ShareSession:
        """The session of a member; raises KafkaError SHARE_SESSION_NOT_FOUND."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def sessions(self) -> tuple[ShareSession, ...]:
        """All sessions."""
        return tuple(self._sessions.values())

    def is_open(self, session: ShareSession) -> bool:
        """Whether the session has neither ended nor been replaced."""
        return self._sessions.get((session.group_id, session.member_id)) is session

    def end(self, session: ShareSession) -> None:
        """End a session, if it has not ended."""
        if self.is_open(session):
            del self._sessions[session.group_id, session.member_id]
            self._forget(session)
            self._ended(session)

    def has_group(self, group_id: str) -> bool:
        """Whether a member of the group has a session."""
        return any(session.group_id == group_id for session in self._sessions.values())


def _next(epoch: int) -> int:
    return 1 if epoch == MAX_EPOCH else epoch + 1
