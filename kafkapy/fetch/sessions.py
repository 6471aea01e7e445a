"""Incremental fetch sessions (KIP-227): they remember the partitions of a consumer.

A full request (epoch 0) opens a session if the cache has room. The consumer then sends only changes, and gets
only partitions with news: records, an error, or a new high watermark or log start offset. Partitions that
were answered with records move to the end of the session's order, so that every partition gets its turn even
with a small max bytes.

A session *settles* a partition that was read to its end, and whose client knows its offsets. Requests look
at it again when it changes: the session listens to it (loop/waiters.py). So a request costs nothing for
partitions without news. Each request of a follower's session still says that it has everything of the settled
partitions (`Attendance`).

    epoch 0     full request, asks for a new session (an old one, if named, is closed)
    epoch -1    full request without a session (closes the one named)
    epoch n     incremental: the session must exist and expect exactly n

A session uses topic ids (Fetch v13+) or names, never both. All sessions together have at most MAX_PARTITIONS.
One session has at most MAX_MISSING partitions that do not exist, since a client may send any names. A request
with more is answered in full and opens no session. A session that grows beyond a limit is closed with the
answer (session id 0), and its client then sends a full request. Source: Apache Kafka's FetchSession, which
has no such limits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from sys import intern
from typing import TYPE_CHECKING

from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
from kafkapy.protocol.types import ZERO_UUID, Uuid
from kafkapy.replicas.leader import Leader

if TYPE_CHECKING:
    from kafkapy.replicas.partition import Partition
    from kafkapy.replicas.remote_replica import Attendance, RemoteReplica

FIRST_TOPIC_ID_VERSION = 13
NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
LAST_EPOCH = 2**31 - 1
EVICTION_MS = 120_000
"""The time after which an unused session may be evicted for any new one
(MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS)."""

MAX_PARTITIONS = 100_000
"""The most partitions of all sessions, which take some 60 MB."""

NO_SUCH_PARTITION = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""The errors of a partition that does not exist."""

MAX_MISSING = 100
"""The most missing partitions of one session: a deleted topic may leave a consumer with as many."""

TargetKey = tuple[str | Uuid, int]


@dataclass(slots=True, eq=False)
class FetchTarget:
    """One partition that one client reads; a listener to its wakes."""

    key: TargetKey
    """Its key in a session."""
    topic: str | None
    """None while the topic id is unknown."""
    topic_id: Uuid
    partition: int
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    turn: int = 0
    """Its place in the order in which the session is served."""
    follower_start_offset: int = -1
    """Where the log of a follower starts; -1 for consumers."""
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1
    read_to_its_end: Partition | None = None
    """The partition, if there was nothing to read at its present value of `changes`; otherwise None."""
    changes: int = 0
    session: FetchSession | None = None
    listens_to: Partition | None = None
    """The partition whose changes unsettle this."""
    replica: RemoteReplica | None = None
    """The replica of the follower that fetches, since its offset was noted."""

    def look(self) -> bool:
        """Note a change of the partition."""
        partition, session = self.listens_to, self.session
        if partition is not None and partition.offline:
            self.ignore()
        return session is not None and session.woke(self)

    def expire(self) -> None:
        """Do nothing: requests expire, not partitions of sessions."""

    def listen(self, partition: Partition) -> None:
        """Listen to the changes of the partition, and no other's."""
        if self.listens_to is not partition:
            self.ignore()
            self.listens_to = partition
            partition.listen(self)

    def ignore(self) -> None:
        """Listen to no changes."""
        partition, self.listens_to = self.listens_to, None
        if partition is not None:
            partition.forget(self)

    def leave(self) -> None:
        """Let later requests of the session not count as fetches of this replica."""
        replica, session = self.replica, self.session
        if replica is not None and session is not None and session.attendance is not None:
            replica.leave(session.attendance)

    def ask(self, wanted: FetchPartition) -> None:
        """Take the values of the consumer's new request."""
        self.fetch_offset = wanted.fetch_offset
        self.max_bytes = wanted.partition_max_bytes
        self.leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.follower_start_offset = wanted.log_start_offset
        self.read_to_its_end = None
        self.leave()
        self.replica = None

    @property
    def is_unchanged(self) -> bool:
        """Whether another read would again find nothing."""
        partition = self.read_to_its_end
        return partition is not None and partition.changes == self.changes

    @property
    def is_known(self) -> bool:
        """Whether nothing changed since the last read, whose result the client has been sent."""
        partition = self.read_to_its_end
        return (
            partition is not None
            and partition.changes == self.changes
            and partition.log.high_watermark == self.sent_high_watermark
            and partition.log.log_start_offset == self.sent_log_start_offset
        )

    def has_news(self, data: PartitionData, nbytes: int) -> bool:
        """Whether an incremental answer must contain `data`, which is then remembered as sent."""
        news = (
            nbytes > 0
            or data.error_code != 0
            or data.high_watermark != self.sent_high_watermark
            or data.log_start_offset != self.sent_log_start_offset
            or data.diverging_epoch.epoch >= 0
            or data.preferred_read_replica >= 0
        )
        # After an error, the partition is sent again when the error is over, even without news. So it is when
        # a follower has truncated its log: it does not use the high watermark before.
        is_used = not data.error_code and data.diverging_epoch.epoch < 0
        self.sent_high_watermark = data.high_watermark if is_used else -1
        self.sent_log_start_offset = data.log_start_offset
        return news


@dataclass(slots=True, eq=False)
class FetchSession:
    """The partitions of one client's session."""

    id: int
    by_topic_id: bool
    created_ms: int
    used_ms: int
    of_follower: bool
    wake: Callable[[FetchSession], int]
    """Lets the session's request that waits look; returns the number that completed."""
    epoch: int = 1
    is_closed: bool = False
    turns: int = 0
    """The turn that was given last."""
    targets: dict[TargetKey, FetchTarget] = field(default_factory=dict)
    unsettled: dict[TargetKey, FetchTarget] = field(default_factory=dict)
    """The partitions that the next request looks at."""
    woken: dict[FetchTarget, None] = field(default_factory=dict)
    """Those that have changed since the present request looked."""
    outside: dict[FetchTarget, None] = field(default_factory=dict)
    """The settled partitions of a follower that is not in sync: they are noted again after a while."""
    noted_at: float = 0.0
    """When they were noted last, on the clock of the event loop."""
    epochs: tuple[int, int | None] = (-1, None)
    """Those of the follower's last request."""
    attendance: Attendance | None = None

    def woke(self, target: FetchTarget) -> bool:
        """Note that a partition has changed; return whether a request that waits can be answered."""
        if self.is_closed:
            return False
        self.unsettle(target)
        self.woken[target] = None
        return self.wake(self) > 0

    def unsettle(self, target: FetchTarget) -> None:
        """Let requests look at a partition again."""
        target.leave()
        self.unsettled.setdefault(target.key, target)

    def settle(self, target: FetchTarget, nbytes: int) -> None:
        """Note that a partition was answered, with so many bytes of records."""
        partition, key = target.read_to_its_end, target.key
        if self.is_closed or self.targets.get(key) is not target:
            return
        if partition is not None and target.is_known and self._attends(target, partition):
            target.listen(partition)
            self.unsettled.pop(key, None)
        elif nbytes:
            self.line_up(target)

    def line_up(self, target: FetchTarget) -> None:
        """Serve a partition after all others."""
        self.turns += 1
        target.turn = self.turns

    def _attends(self, target: FetchTarget, partition: Partition) -> bool:
        """Whether a partition needs to be noted no more; True for consumers."""
        if not self.of_follower:
            return True
        leader, replica = partition.replication, target.replica
        if replica is None or not isinstance(leader, Leader):
            return False
        if not replica.is_at(target.fetch_offset, target.follower_start_offset):
            return False  # a request outside the session was noted since
        if self.attendance is None:
            self.attendance = leader.attendance()
        if not leader.attend(replica, self.attendance):
            self.outside[target] = None
        return True

    def forget(self, key: TargetKey) -> None:
        """Forget a partition."""
        target = self.targets.pop(key, None)
        if target is not None:
            self.unsettled.pop(key, None)
            self.woken.pop(target, None)
            self.outside.pop(target, None)
            target.leave()
            target.ignore()


@dataclass(slots=True)
class FetchContext:
    """The targets of one fetch request, and its session."""

    targets: dict[FetchTarget, int]
    """The partitions that are looked at, each with its place. In a session others may be added."""
    session: FetchSession | None = None
    """The session of an incremental request."""
    wants_session: bool = False
    by_topic_id: bool = False
    of_follower: bool = False
    """Whether a broker fetches, whose session has precedence over those of consumers."""
    epochs: tuple[int, int | None] = (-1, None)
    """The epoch that a follower's request has, and the one with which its broker is registered."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked for."""
        return not self.targets and self.session is None

    def place(self, target: FetchTarget) -> int:
        """The place of a target; the next one for a target that is new."""
        return self.targets.setdefault(target, len(self.targets))

    def look_again(self) -> list[FetchTarget]:
        """Add the partitions of the session that have changed meanwhile; return them."""
        if self.session is None:
            return []
        woken, self.session.woken = self.session.woken, {}
        for target in woken:
            self.place(target)
        return list(woken)


class FetchSessionCache:
    """All sessions of this broker, at most `slots` (max.incremental.fetch.session.cache.slots)."""

    def __init__(
        self,
        slots: int,
        *,
        now_ms: Callable[[], int],
        wake: Callable[[FetchSession], int],
        rng: random.Random | None = None,
        max_missing: int = MAX_MISSING,
        max_partitions: int = MAX_PARTITIONS,
    ) -> None:
        """Keep at most `slots` sessions.

        `wake` lets a session's request that waits look at the session; it returns the number that completed.
        """
        self._slots = slots
        self._max_missing = max_missing
        self._max_partitions = max_partitions
        self._wake = wake
        self._now_ms = now_ms
        self._random = rng or random.SystemRandom()
        self.by_id: dict[int, FetchSession] = {}
        """All sessions that are open."""
        self.evictions = 0
        """How many sessions were closed to make room for others."""
        self._closed: list[FetchSession] = []
        """Closed sessions whose targets still listen."""

    def __len__(self) -> int:
        return len(self.by_id)

    def begin(
        self, request: FetchRequest, version: int, topic_name: Callable[[Uuid], str | None]
    ) -> Steps[FetchContext]:
        """Resolve what `request` wants to read.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        yield from self._silence()
        by_topic_id = version >= FIRST_TOPIC_ID_VERSION
        wanted = _wanted(request, by_topic_id)
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._close(request.session_id)
            targets: dict[TargetKey, FetchTarget] = {}
            for key, partition in wanted:
                yield
                targets[key] = _target(key, partition, by_topic_id, topic_name)
            wants_session = request.session_epoch == INITIAL_EPOCH
            of_follower = request.replica_id >= 0 or request.replica_state.replica_id >= 0
            return FetchContext(_placed(targets.values()), None, wants_session, by_topic_id, of_follower)
        session = self.by_id.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_topic_id != by_topic_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        # Now, not with the answer: a second request with this epoch is an error even while this one waits.
        session.epoch = 1 if session.epoch == LAST_EPOCH else session.epoch + 1
        session.used_ms = self._now_ms()
        yield from self._update(session, request, wanted, topic_name)
        if not session.targets:
            self._close(session.id)
            return FetchContext({})
        session.woken = {}
        in_order = sorted(session.unsettled.values(), key=lambda target: target.turn)
        return FetchContext(_placed(in_order), session, False, by_topic_id, session.of_follower)

    def finish(
        self, context: FetchContext, results: list[PartitionData | None], sizes: list[int]
    ) -> Steps[tuple[int, list[tuple[FetchTarget, PartitionData]]]]:
        """The session id and the results for the answer.

        A result of None has no news.
        """
        session = context.session
        included = []
        missing = 0
        for target, data, nbytes in zip(list(context.targets), results, sizes, strict=True):
            yield
            if data is not None:
                missing += data.error_code in NO_SUCH_PARTITION
                if target.has_news(data, nbytes) or session is None:
                    included.append((target, data))
            if session is not None:
                session.settle(target, nbytes)
        if session is not None:
            if missing > self._max_missing or self._partitions() > self._max_partitions:
                self._close(session.id)
                return NO_SESSION, included
            return session.id, included
        if not context.wants_session or missing > self._max_missing:
            return NO_SESSION, included
        return (yield from self._open(context)), included

    def _open(self, context: FetchContext) -> Steps[int]:
        """Open a session for a full request's targets if there is room.

        Return its id, or 0.
        """
        session = FetchSession(NO_SESSION, context.by_topic_id, 0, 0, context.of_follower, self._wake)
        for target in context.targets:
            yield
            target.session = session
            session.targets[target.key] = target
            session.line_up(target)
        session.unsettled, session.epochs = dict(session.targets), context.epochs
        if not context.targets or not self._make_room(len(context.targets), context.of_follower):
            return NO_SESSION
        while session.id == NO_SESSION or session.id in self.by_id:
            session.id = self._random.randrange(1, 2**31)
        session.created_ms = session.used_ms = self._now_ms()
        self.by_id[session.id] = session
        for target in context.targets:
            yield
            session.settle(target, 0)
        return session.id

    def _close(self, session_id: int) -> None:
        """Close a session if it is open."""
        session = self.by_id.pop(session_id, None)
        if session is not None:
            session.is_closed = True
            self._closed.append(session)

    def _silence(self) -> Steps[None]:
        """Let the targets of closed sessions listen no more."""
        while self._closed:
            targets = self._closed[-1].targets
            while targets:
                yield
                if targets:  # another request may have been here
                    _, target = targets.popitem()
                    target.leave()
                    target.ignore()
            self._closed = [session for session in self._closed if session.targets]

    def _partitions(self) -> int:
        return sum(len(session.targets) for session in self.by_id.values())

    def _make_room(self, size: int, of_follower: bool) -> bool:
        """Whether a session of `size` partitions may be opened.

        At most one session is evicted for it. A follower's is not evicted for a consumer's while it is used.
        """
        if self._partitions() + size > self._max_partitions:
            return False
        if len(self.by_id) < self._slots:
            return True
        if not self.by_id:
            return False
        now_ms = self._now_ms()
        oldest = min(self.by_id.values(), key=lambda session: session.used_ms)
        if now_ms - oldest.used_ms > EVICTION_MS:
            return self._evict(oldest)
        # A larger session gains more from the cache than a smaller, older one, and a follower's the most.
        settled = [session for session in self.by_id.values() if now_ms - session.created_ms > EVICTION_MS]
        smallest = min(settled, key=_gain, default=None)
        if smallest is None or _gain(smallest) >= (of_follower, size):
            return False
        return self._evict(smallest)

    def _evict(self, session: FetchSession) -> bool:
        self._close(session.id)
        self.evictions += 1
        return True

    @staticmethod
    def _update(
        session: FetchSession,
        request: FetchRequest,
        wanted: Iterator[tuple[TargetKey, FetchPartition]],
        topic_name: Callable[[Uuid], str | None],
    ) -> Steps[None]:
        for key, partition in wanted:
            yield
            target = session.targets.get(key)
            if target is None:
                target = session.targets[key] = _target(key, partition, session.by_topic_id, topic_name)
                target.session = session
                session.line_up(target)
            else:
                target.ask(partition)
            session.unsettled.setdefault(key, target)
        for topic in request.forgotten_topics_data:
            yield
            name: str | Uuid = topic.topic_id if session.by_topic_id else topic.topic
            for index in topic.partitions:
                yield
                session.forget((name, index))


def _placed(targets: Iterable[FetchTarget]) -> dict[FetchTarget, int]:
    return {target: place for place, target in enumerate(targets)}


def _gain(session: FetchSession) -> tuple[bool, int]:
    """How much a session gains from the cache, for comparisons."""
    return session.of_follower, len(session.targets)


def _wanted(request: FetchRequest, by_topic_id: bool) -> Iterator[tuple[TargetKey, FetchPartition]]:
    for topic in request.topics:
        # Sessions share one string for the name of a topic.
        name: str | Uuid = topic.topic_id if by_topic_id else intern(topic.topic)
        for partition in topic.partitions:
            yield (name, partition.partition), partition


def _target(
    key: TargetKey, wanted: FetchPartition, by_topic_id: bool, topic_name: Callable[[Uuid], str | None]
) -> FetchTarget:
    name, partition = key
    if by_topic_id:
        assert isinstance(name, bytes)
        topic, topic_id = topic_name(name), name
    else:
        assert isinstance(name, str)
        topic, topic_id = name, ZERO_UUID
    return FetchTarget(
        key,
        topic,
        topic_id,
        partition,
        wanted.fetch_offset,
        wanted.partition_max_bytes,
        wanted.current_leader_epoch,
        wanted.last_fetched_epoch,
        follower_start_offset=wanted.log_start_offset,
    )
