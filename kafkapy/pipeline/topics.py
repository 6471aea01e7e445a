"""Access to topics without Spark: their settings, offsets and records.

Only this module talks to brokers without Spark. It uses confluent-kafka. A broker may create a missing topic
when a client asks for its metadata by name, so all topics are listed instead. Every failure is raised as a
PipelineError; a broker that cannot be reached fails after `TIMEOUT` seconds.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
    Uuid,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from kafkapy.pipeline.client_options import librdkafka_options
from kafkapy.pipeline.pipeline_error import PipelineError, did_you_mean
from kafkapy.pipeline.secret_options import redacted, secrets_of

Isolation = Literal["read_committed", "read_uncommitted"]
Offsets = Mapping[int, int]
T = TypeVar("T")

TIMEOUT: Final = 5.0
# librdkafka would read 100,000 messages ahead, each of which takes some hundred bytes more than its content.
_READ_AHEAD: Final = {"queued.min.messages": 10_000, "queued.max.messages.kbytes": 16_384}

_NOT_ALLOWED: Final = (
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)
_OTHERS_USE_IT: Final = (
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
)


class Topics:
    """A client of the broker.

    `options` are the pipeline's `kafka:` options with their secrets.
    """

    def __init__(self, bootstrap: str, options: Mapping[str, str] | None = None) -> None:
        self.bootstrap = bootstrap
        self._secrets = secrets_of(options or {})
        self._options: dict[str, Any] = {
            **librdkafka_options(bootstrap, options or {}),
            "log_level": 0,  # failures are raised; librdkafka would log them too
            "error_cb": self._remember,
        }
        self._reason = ""
        try:
            self._admin = AdminClient(self._options)
        except KafkaException as error:
            told = redacted(error.args[0].str(), self._secrets)
            if "No provider for SASL mechanism GSSAPI" in told:
                told = "this build of librdkafka has no Kerberos"
                remedy = "build one with it (docs/pipeline.md, Secured brokers)"
                raise PipelineError(f"kafka: {told}; {remedy}") from None
            raise PipelineError(f"kafka: {told}; correct it in the definition") from None

    def _remember(self, error: KafkaError) -> None:
        """Called within poll and result.

        The last error explains why a request timed out.
        """
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._reason = re.sub(r" \(after \d+ms in state \w+\)", "", error.str())

    # -- topics

    def names(self) -> list[str]:
        return sorted(self._topics())

    def exists(self, topic: str) -> bool:
        return topic in self._topics()

    def partitions(self, topic: str) -> list[int]:
        """The topic's partition numbers.

        Raises PipelineError if there is no such topic.
        """
        topics = self._topics()
        if topic not in topics:
            raise PipelineError(
                f"there is no topic {topic!r} at {self.bootstrap}{did_you_mean(topic, topics)}; "
                "create it, or name another"
            )
        return sorted(topics[topic].partitions)

    def topic_id(self, topic: str) -> str | None:
        """The topic id (KIP-516); None if the broker has none.

        Raises PipelineError if there is no such topic.
        """
        future = self._admin.describe_topics(TopicCollection([topic]), request_timeout=TIMEOUT)[topic]
        try:
            found: Uuid = self._result(future, f"asking for the id of {topic}").topic_id
        except PipelineError:
            self.partitions(topic)  # Raises a better message if the topic is missing.
            raise
        none = (found.get_most_significant_bits(), found.get_least_significant_bits()) == (0, 0)
        return None if none else str(found)

    def create(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> bool:
        """Creates a topic.

        Returns False if it exists already.
        """
        future = self._admin.create_topics(
            [NewTopic(topic, partitions, config=dict(configs or {}))], request_timeout=TIMEOUT
        )[topic]
        try:
            self._result(future, f"creating the topic {topic}")
        except _AlreadyExistsError:
            return False
        return True

    def cleanup_policy(self, topic: str) -> frozenset[str]:
        """The topic's cleanup.policy: `delete`, `compact` or both."""
        return frozenset(part.strip() for part in self.setting(topic, "cleanup.policy").split(","))

    def setting(self, topic: str, name: str) -> str:
        """The value of one of the topic's configs."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        future = self._admin.describe_configs([resource], request_timeout=TIMEOUT)[resource]
        value: str = self._result(future, f"asking for the settings of {topic}")[name].value
        return value

    def expires(self, topic: str, timestamp_ms: int) -> bool:
        """Whether time retention may delete a record with that timestamp as soon as it is written."""
        if "delete" not in self.cleanup_policy(topic):
            return False
        retention = int(self.setting(topic, "retention.ms"))
        return 0 <= retention < time.time() * 1000 - timestamp_ms

    def _topics(self) -> dict[str, Any]:
        def ask() -> dict[str, Any]:
            topics: dict[str, Any] = self._admin.list_topics(timeout=TIMEOUT).topics
            return topics

        return self._guarded(ask, "listing the topics")

    # -- offsets

    def start_offsets(self, topic: str) -> dict[int, int]:
        """The log start offset of each partition."""
        return self._list_offsets(topic, OffsetSpec.earliest())

    def end_offsets(self, topic: str, isolation: Isolation = "read_committed") -> dict[int, int]:
        """The end offset of each partition (exclusive) for a reader with this isolation level."""
        return self._list_offsets(topic, OffsetSpec.latest(), isolation)

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """The first offset of each partition at or after that time.

        The end offset if there is none.
        """
        found = self._list_offsets(topic, OffsetSpec.for_timestamp(timestamp_ms))
        if min(found.values(), default=0) >= 0:
            return found
        ends = self.end_offsets(topic)
        return {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}

    def _list_offsets(
        self, topic: str, spec: OffsetSpec, isolation: Isolation = "read_uncommitted"
    ) -> dict[int, int]:
        asked = {TopicPartition(topic, partition): spec for partition in self.partitions(topic)}
        level = IsolationLevel[isolation.upper()]
        futures = self._admin.list_offsets(asked, isolation_level=level, request_timeout=TIMEOUT)
        doing = f"asking for the offsets of {topic}"
        return {
            place.partition: self._result(future, f"{doing}-{place.partition}").offset
            for place, future in futures.items()
        }

    def commit_group_offsets(self, group: str, topic: str, offsets: Offsets) -> None:
        """Commits offsets for a group without members (generation -1).

        Raises PipelineError, which names the rights that are missing, or says that others use the group.
        """
        places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, places)]
        (future,) = self._admin.alter_consumer_group_offsets(request, request_timeout=TIMEOUT).values()
        doing = f"publishing the position as group {group}"
        try:
            done = self._result(future, doing)
        except _NotAllowedError as error:
            raise _no_right_to_commit(group, topic, str(error)) from None
        for place in done.topic_partitions:
            if place.error is None:
                continue
            if place.error.code() in _NOT_ALLOWED:
                raise _no_right_to_commit(group, topic, f"{doing} failed: {place.error.str()}")
            remedy = ""
            if place.error.code() in _OTHERS_USE_IT:
                remedy = "; consumers of their own use this group: name another in group:"
            raise PipelineError(f"{doing} failed: {place.error.str()}{remedy}")

    # -- records

    def consume(
        self,
        topic: str,
        *,
        start: Offsets | None = None,
        end: Offsets | None = None,
        isolation: Isolation = "read_committed",
    ) -> Iterator[Message]:
        """Yields the records [start, end) of each partition, in offset order within a partition.

        A partition that `start` does not name is read from its beginning, one that `end` does not name up to
        its present end.
        """
        first = {**self.start_offsets(topic), **(start or {})}
        last = {**self.end_offsets(topic, isolation), **(end or {})}
        waiting = {partition for partition in first if first[partition] < last.get(partition, 0)}
        if not waiting:
            return
        consumer = Consumer(
            {
                **self._options,
                "group.id": f"kafkapy-{uuid.uuid4().hex}",  # required, but never joined or committed to
                "enable.auto.commit": False,
                "enable.partition.eof": True,  # control records at the end give no message
                "isolation.level": isolation,
                "auto.offset.reset": "error",
                **_READ_AHEAD,
            }
        )
        with contextlib.closing(consumer):
            consumer.assign([TopicPartition(topic, partition, first[partition]) for partition in waiting])
            while waiting:
                message = consumer.poll(TIMEOUT)
                if message is None:
                    self._topics()  # raises if the broker is gone; otherwise it is only slow
                    continue
                partition, error = message.partition(), message.error()
                if error is None and message.offset() < last[partition]:
                    yield message
                elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise self._failure(error, f"reading {topic}")
                if error is not None or message.offset() >= last[partition] - 1:
                    waiting.discard(partition)
                    consumer.incremental_unassign([TopicPartition(topic, partition)])

    def producer(self, **settings: Any) -> Producer:
        """An idempotent producer: retries neither duplicate nor reorder records."""
        return Producer({**self._options, "enable.idempotence": True, "linger.ms": 20, **settings})

    # -- failures

    def _result(self, future: concurrent.futures.Future[Any], doing: str) -> Any:
        return self._guarded(lambda: future.result(TIMEOUT + 1), doing)

    def _guarded(self, call: Callable[[], T], doing: str) -> T:
        try:
            return call()
        except KafkaException as error:
            raise self._failure(error.args[0], doing) from None
        except concurrent.futures.TimeoutError:
            raise self._failure(KafkaError(KafkaError._TIMED_OUT), doing) from None

    def _failure(self, error: KafkaError, doing: str) -> PipelineError:
        if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return _AlreadyExistsError(error.str())
        if error.code() in _NOT_ALLOWED:
            return _NotAllowedError(f"{doing} failed: {KafkaError(error.code()).str()}")
        if error.code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN):
            self._admin.poll(0)
            reason = f" ({self._reason})" if self._reason else ""
            return PipelineError(
                f"cannot reach a Kafka broker at {self.bootstrap}{redacted(reason, self._secrets)}; "
                "start it, or name another (bootstrap)"
            )
        return PipelineError(f"{doing} failed: {redacted(error.str(), self._secrets)}")


class Clients:
    """One client of each cluster and login, for all pipelines of a process."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, frozenset[tuple[str, str]]], Topics] = {}
        self._lock = threading.Lock()

    def at(self, bootstrap: str, options: Mapping[str, str]) -> Topics:
        key = bootstrap, frozenset(options.items())
        with self._lock:
            if key not in self._clients:
                self._clients[key] = Topics(bootstrap, options)
            return self._clients[key]


class _AlreadyExistsError(PipelineError):
    pass


class _NotAllowedError(PipelineError):
    pass


def _no_right_to_commit(group: str, topic: str, told: str) -> PipelineError:
    return PipelineError(f"{told}; allow this client READ on the group {group} and on the topic {topic}")
