"""The follower's side of an incremental fetch session (KIP-227).

The first request names every partition. Later ones name those that changed, and those to forget. After an
error the next request names every partition again, and closes the old session if there may be one.

Source: FetchSessionHandler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from kafkapy.protocol.types import TopicPartition, Uuid

NO_SESSION: Final = 0
FULL: Final = 0
"""The session epoch of a request that names every partition."""
LAST_EPOCH: Final = 2**31 - 1


class Wanted(NamedTuple):
    """A follower's request for one partition."""

    topic_id: Uuid
    fetch_offset: int
    log_start_offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    role: object
    """The role in which the partition is fetched."""


class FollowerSession:
    """The session of one fetcher with one broker."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FULL
        self.sent: dict[TopicPartition, Wanted] = {}
        """The partitions that the leader was last asked for, and still answers when there is news."""
        self.names: dict[Uuid, str] = {}
        """The names of the topics that were asked for, by their ids."""

    @property
    def is_full(self) -> bool:
        """Whether the next request names every partition."""
        return self._epoch == FULL

    def fill(
        self,
        request: FetchRequest,
        wanted: Mapping[TopicPartition, Wanted],
        unwanted: Iterable[TopicPartition],
    ) -> None:
        """Put partitions into a request.

        Args:
            wanted: all partitions if `is_full`, otherwise at least the changed ones.
            unwanted: those that may have been asked for, and are not wanted any more.
        """
        if self.is_full:
            self.sent, self.names = {}, {}
        request.session_id, request.session_epoch = self._id, self._epoch
        asked: dict[tuple[Uuid, str], FetchTopic] = {}
        forgotten: dict[tuple[Uuid, str], ForgottenTopic] = {}
        for key in unwanted:
            before = self.sent.pop(key, None)
            if before is not None:
                _forget(forgotten, key, before)
        for key, new in wanted.items():
            before = self.sent.get(key)
            if before == new:
                continue
            if before is not None and before.topic_id != new.topic_id:
                _forget(forgotten, key, before)
            self.sent[key] = new
            self.names[new.topic_id] = key.topic
            topic = asked.get((new.topic_id, key.topic))
            if topic is None:
                topic = asked[new.topic_id, key.topic] = FetchTopic(topic=key.topic, topic_id=new.topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=key.partition,
                    current_leader_epoch=new.leader_epoch,
                    fetch_offset=new.fetch_offset,
                    last_fetched_epoch=new.last_fetched_epoch,
                    log_start_offset=new.log_start_offset,
                    partition_max_bytes=new.max_bytes,
                )
            )
        request.topics, request.forgotten_topics_data = list(asked.values()), list(forgotten.values())

    def answered(self, response: FetchResponse) -> ErrorCode:
        """Note an answer; return its error."""
        if response.error_code:
            code = ErrorCode(response.error_code)
            if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            self._epoch = FULL
            return code
        self._id = response.session_id
        if self._id == NO_SESSION:
            self._epoch = FULL
        else:
            self._epoch = 1 if self._epoch == LAST_EPOCH else self._epoch + 1
        return ErrorCode.NONE

    def failed(self) -> None:
        """Note that there is no answer, so that it is not known what the leader remembers."""
        self._epoch = FULL


def _forget(forgotten: dict[tuple[Uuid, str], ForgottenTopic], key: TopicPartition, before: Wanted) -> None:
    topic = forgotten.get((before.topic_id, key.topic))
    if topic is None:
        topic = ForgottenTopic(topic=key.topic, topic_id=before.topic_id)
        forgotten[before.topic_id, key.topic] = topic
    topic.partitions.append(key.partition)
