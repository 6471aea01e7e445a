"""Incremental fetch sessions (KIP-227): they remember what a consumer asks for again.

A full request (epoch 0) opens a session when the cache has room; the consumer then sends only what changed
and gets only partitions that have news: records, an error, a moved high watermark or log start offset.
Partitions that were answered with records move to the end of the session's order, so that with a small max
bytes every partition gets its turn.

    epoch 0     full request, asks for a new session (an old one, if named, is closed)
    epoch -1    full request without a session (closes the one named)
    epoch n     incremental: the session must exist and expect exactly n

A session holds requests by topic id (Fetch v13+) or by name, never both. All sessions together hold
MAX_PARTITIONS, and one holds MAX_MISSING that do not exist, since their names are whatever a client says. A
request that names more is answered in full and opens no session; a session that comes to hold more is closed
with the answer (session id 0), after which its client sends a full request. Source: Apache Kafka's
FetchSession, which has no such limits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from sys import intern
from typing import TYPE_CHECKING

from kafkapy.process.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
from kafkapy.protocol.types import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from kafkapy.replicas.partition import Partition

FIRST_TOPIC_ID_VERSION = 13
NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
LAST_EPOCH = 2**31 - 1
EVICTION_MS = 120_000
"""A session unused for so long gives way to any new one (MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS)."""

MAX_PARTITIONS = 100_000
"""Some 35 MB."""

NO_SUCH_PARTITION = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors of a partition that is not there."""

MAX_MISSING = 100
"""Of one session: as many as a topic that was deleted may leave a consumer with."""

TargetKey = tuple[str | Uuid, int]


@dataclass(slots=True)
class FetchTarget:
    """One partition as one consumer reads it."""

    topic: str | None
    """None while the topic id is unknown here."""
    topic_id: Uuid
    partition: int
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1
    read_to_its_end: Partition | None = None
    """The partition, where there was nothing to read when `changes` was its."""
    changes: int = 0

    def ask(self, wanted: FetchPartition) -> None:
        """Take over what the consumer asks for now."""
        self.fetch_offset = wanted.fetch_offset
        self.max_bytes = wanted.partition_max_bytes
        self.leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.read_to_its_end = None

    @property
    def is_unchanged(self) -> bool:
        """Whether another read would find what the last one has: nothing."""
        partition = self.read_to_its_end
        return partition is not None and partition.changes == self.changes

    @property
    def is_known(self) -> bool:
        """Whether nothing changed since the last read, and the client was told what that found."""
        partition = self.read_to_its_end
        return (
            partition is not None
            and partition.changes == self.changes
            and partition.log.high_watermark == self.sent_high_watermark
            and partition.log.log_start_offset == self.sent_log_start_offset
        )

    def has_news(self, data: PartitionData, nbytes: int) -> bool:
        """Whether an incremental answer must carry `data`; what is sent is remembered."""
        news = (
            nbytes > 0
            or data.error_code != 0
            or data.high_watermark != self.sent_high_watermark
            or data.log_start_offset != self.sent_log_start_offset
            or data.diverging_epoch.epoch >= 0
        )
        # After an error the partition is sent again once it is well, news or not.
        self.sent_high_watermark = -1 if data.error_code else data.high_watermark
        self.sent_log_start_offset = data.log_start_offset
        return news


@dataclass(slots=True)
class FetchSession:
    """The partitions of one consumer's session, in the order in which they are served next."""

    id: int
    by_topic_id: bool
    created_ms: int
    used_ms: int
    epoch: int = 1
    targets: dict[TargetKey, FetchTarget] = field(default_factory=dict)

    def move_to_end(self, target: FetchTarget) -> None:
        key: TargetKey = (target.topic_id if self.by_topic_id else target.topic or "", target.partition)
        if key in self.targets:
            self.targets[key] = self.targets.pop(key)


@dataclass(slots=True)
class FetchContext:
    """What one fetch request reads, and what it has to say of its session."""

    targets: list[FetchTarget]
    session: FetchSession | None = None
    """The session of an incremental request."""
    wants_session: bool = False
    by_topic_id: bool = False


class FetchSessionCache:
    """All sessions of this broker, at most `slots` (max.incremental.fetch.session.cache.slots)."""

    def __init__(self, slots: int, *, now_ms: Callable[[], int], rng: random.Random | None = None) -> None:
        self._slots = slots
        self._now_ms = now_ms
        self._random = rng or random.SystemRandom()
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self, request: FetchRequest, version: int, topic_name: Callable[[Uuid], str | None]
    ) -> Steps[FetchContext]:
        """Resolve what `request` wants to read.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        by_topic_id = version >= FIRST_TOPIC_ID_VERSION
        wanted = _wanted(request, by_topic_id)
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            targets: dict[TargetKey, FetchTarget] = {}
            for key, partition in wanted:
                yield
                targets[key] = _target(key, partition, by_topic_id, topic_name)
            wants_session = request.session_epoch == INITIAL_EPOCH
            return FetchContext(list(targets.values()), None, wants_session, by_topic_id)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_topic_id != by_topic_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        # Now, not with the answer: a second request with this epoch is wrong even while this one waits.
        session.epoch = 1 if session.epoch == LAST_EPOCH else session.epoch + 1
        session.used_ms = self._now_ms()
        yield from self._update(session, request, wanted, topic_name)
        if not session.targets:
            self._sessions.pop(session.id, None)
            return FetchContext([])
        return FetchContext(list(session.targets.values()), session, False, by_topic_id)

    def finish(
        self, context: FetchContext, results: list[PartitionData | None], sizes: list[int]
    ) -> Steps[tuple[int, list[tuple[FetchTarget, PartitionData]]]]:
        """The session id to answer with, and the results to answer; one that is None is no news."""
        session = context.session
        included = []
        missing = 0
        for target, data, nbytes in zip(context.targets, results, sizes, strict=True):
            if data is None:
                continue
            yield
            missing += data.error_code in NO_SUCH_PARTITION
            if target.has_news(data, nbytes) or session is None:
                included.append((target, data))
            if nbytes and session is not None:
                session.move_to_end(target)
        if session is not None:
            if missing > MAX_MISSING or self._partitions() > MAX_PARTITIONS:
                self._sessions.pop(session.id, None)
                return NO_SESSION, included
            return session.id, included
        if not context.wants_session or missing > MAX_MISSING:
            return NO_SESSION, included
        return (yield from self._open(context)), included

    def _open(self, context: FetchContext) -> Steps[int]:
        """Open a session for a full request's targets if there is room; its id, else 0."""
        session = FetchSession(NO_SESSION, context.by_topic_id, 0, 0)
        for target in context.targets:
            yield
            name: str | Uuid = target.topic_id if context.by_topic_id else target.topic or ""
            session.targets[name, target.partition] = target
        if not context.targets or not self._make_room(len(context.targets)):
            return NO_SESSION
        while session.id == NO_SESSION or session.id in self._sessions:
            session.id = self._random.randrange(1, 2**31)
        session.created_ms = session.used_ms = self._now_ms()
        self._sessions[session.id] = session
        return session.id

    def _partitions(self) -> int:
        return sum(len(session.targets) for session in self._sessions.values())

    def _make_room(self, size: int) -> bool:
        """Whether a session of `size` partitions may open, after evicting at most one that may go."""
        if self._partitions() + size > MAX_PARTITIONS:
            return False
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        now_ms = self._now_ms()
        oldest = min(self._sessions.values(), key=lambda session: session.used_ms)
        if now_ms - oldest.used_ms > EVICTION_MS:
            del self._sessions[oldest.id]
            return True
        # A larger session gains more from the cache than a smaller one that has had its time.
        settled = [
            session for session in self._sessions.values() if now_ms - session.created_ms > EVICTION_MS
        ]
        smallest = min(settled, key=lambda session: len(session.targets), default=None)
        if smallest is None or len(smallest.targets) >= size:
            return False
        del self._sessions[smallest.id]
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
                session.targets[key] = _target(key, partition, session.by_topic_id, topic_name)
            else:
                target.ask(partition)
        for topic in request.forgotten_topics_data:
            name: str | Uuid = topic.topic_id if session.by_topic_id else topic.topic
            for index in topic.partitions:
                yield
                session.targets.pop((name, index), None)


def _wanted(request: FetchRequest, by_topic_id: bool) -> Iterator[tuple[TargetKey, FetchPartition]]:
    for topic in request.topics:
        # Sessions keep names, and of one topic the same.
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
        topic,
        topic_id,
        partition,
        wanted.fetch_offset,
        wanted.partition_max_bytes,
        wanted.current_leader_epoch,
        wanted.last_fetched_epoch,
    )
