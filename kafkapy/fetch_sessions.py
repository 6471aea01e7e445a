"""Incremental fetch sessions (KIP-227): what a consumer asks for again and again is remembered here.

A full request (epoch 0) opens a session when the cache has room; the consumer then sends only what changed
and gets only partitions that have news: records, an error, a moved high watermark or log start offset.
Partitions that were answered with records move to the end of the session's order, so that with a small max
bytes every partition gets its turn.

    epoch 0     full request, asks for a new session (an old one, if named, is closed)
    epoch -1    full request without a session (closes the one named)
    epoch n     incremental: the session must exist and expect exactly n

A session holds requests by topic id (Fetch v13+) or by name, never both. Source: Apache Kafka's FetchSession.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
from kafkapy.protocol.types import ZERO_UUID, Uuid

FIRST_TOPIC_ID_VERSION = 13
NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
LAST_EPOCH = 2**31 - 1
EVICTION_MS = 120_000
"""A session unused for so long gives way to any new one (MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS)."""

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

    def ask(self, wanted: FetchPartition) -> None:
        """Take over what the consumer asks for now."""
        self.fetch_offset = wanted.fetch_offset
        self.max_bytes = wanted.partition_max_bytes
        self.leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch

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
    ) -> FetchContext:
        """Resolve what `request` wants to read.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        by_topic_id = version >= FIRST_TOPIC_ID_VERSION
        wanted = _wanted(request, by_topic_id)
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            targets = [
                _target(key, partition, by_topic_id, topic_name) for key, partition in dict(wanted).items()
            ]
            return FetchContext(targets, None, request.session_epoch == INITIAL_EPOCH, by_topic_id)
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
        self._update(session, request, wanted, topic_name)
        if not session.targets:
            del self._sessions[session.id]
            return FetchContext([])
        return FetchContext(list(session.targets.values()), session, False, by_topic_id)

    def finish(
        self, context: FetchContext, results: list[PartitionData], sizes: list[int]
    ) -> tuple[int, Iterable[tuple[FetchTarget, PartitionData]]]:
        """The session id to answer with, and the results to answer."""
        session = context.session
        if session is None:
            pairs = list(zip(context.targets, results, strict=True))
            return self._open(context, results, sizes) if context.wants_session else NO_SESSION, pairs
        included = []
        for target, data, nbytes in zip(context.targets, results, sizes, strict=True):
            if target.has_news(data, nbytes):
                included.append((target, data))
            if nbytes:
                session.move_to_end(target)
        return session.id, included

    def _open(self, context: FetchContext, results: list[PartitionData], sizes: list[int]) -> int:
        """Open a session for a full request's targets if there is room; its id, else 0."""
        if not context.targets or not self._make_room(len(context.targets)):
            return NO_SESSION
        session_id = self._random.randrange(1, 2**31)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        now_ms = self._now_ms()
        session = FetchSession(session_id, context.by_topic_id, now_ms, now_ms)
        for target, data, nbytes in zip(context.targets, results, sizes, strict=True):
            target.has_news(data, nbytes)
            name: str | Uuid = target.topic_id if context.by_topic_id else target.topic or ""
            session.targets[name, target.partition] = target
        self._sessions[session_id] = session
        return session_id

    def _make_room(self, size: int) -> bool:
        """Whether a session of `size` partitions may open, after evicting at most one that may go."""
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
    ) -> None:
        for key, partition in wanted:
            target = session.targets.get(key)
            if target is None:
                session.targets[key] = _target(key, partition, session.by_topic_id, topic_name)
            else:
                target.ask(partition)
        for topic in request.forgotten_topics_data:
            name: str | Uuid = topic.topic_id if session.by_topic_id else topic.topic
            for index in topic.partitions:
                session.targets.pop((name, index), None)
        if session.by_topic_id:
            for target in session.targets.values():
                if target.topic is None:
                    target.topic = topic_name(target.topic_id)


def _wanted(request: FetchRequest, by_topic_id: bool) -> Iterator[tuple[TargetKey, FetchPartition]]:
    for topic in request.topics:
        name: str | Uuid = topic.topic_id if by_topic_id else topic.topic
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
