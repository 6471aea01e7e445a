"""The topic `_schemas`, by kafka-python.

It is written with acks=all, and read by a thread from its start on.

A write is over when the thread has read it, so that what a client was told is there for all that ask. One
registry may write at a time: the ids of two could be the same.
"""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

from kafkapy.errors import UserError
from kafkapy.registry.entries import NOOP, Entry, decoded
from kafkapy.registry.errors import SECONDS, store_failed, timed_out, too_large

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # read_text, for which kafka-python has no other word
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition, errors
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
    from kafka.net.compat import KafkaNetClient

logger = logging.getLogger(__name__)

_MOST_REPLICAS: Final = 3
_POLL_MS: Final = 50
"""How soon the reader notices that it is to end."""
_PAUSE: Final = 0.5
_BACKOFF: Final = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 20}
"""kafka-python waits so long for the metadata of each new client."""


class SchemasTopic:
    """The topic as a log of entries.

    Args:
        config: the arguments of kafka-python's clients that reach the cluster.
        name: another name for the topic.
        apply: takes in each entry, in order, in the thread of the reader.
        patience: how many seconds the cluster has for an answer.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        name: str,
        apply: Callable[[Entry], None],
        *,
        patience: float = SECONDS,
    ) -> None:
        self._config, self._name, self._apply = {**config, **_BACKOFF}, name, apply
        self.patience = patience
        self._stopping = threading.Event()
        self._applied = threading.Condition()
        self._is_settled = True
        """Whether all that was written is applied."""
        self._position = 0
        """The offset after the last one that was read."""
        self._consumer: Any = None
        self._producer: Any = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Create the topic if it is missing, and read it.

        Raises:
            UserError: the cluster does not answer, or its topic cannot keep schemas.
        """
        timeout = {"bootstrap_timeout_ms": round(self.patience * 1000)}
        partition = TopicPartition(self._name, 0)
        try:
            self._create(timeout)
            self._consumer = KafkaConsumer(
                **self._config, **timeout, group_id=None, enable_auto_commit=False, check_crcs=True
            )
            self._producer = KafkaProducer(
                **self._config,
                **timeout,
                acks=-1,
                enable_idempotence=False,
                max_in_flight_requests_per_connection=1,
            )
            self._consumer.assign([partition])
            self._consumer.seek_to_beginning(partition)
            end = self._consumer.end_offsets([partition])[partition]
            deadline = time.monotonic() + self.patience
            while self._consumer.position(partition) < end:
                if self._read():
                    deadline = time.monotonic() + self.patience
                elif time.monotonic() > deadline:
                    raise UserError(
                        f"the topic {self._name} has no answer for {self.patience:.0f} s: see its broker"
                    )
            self._producer.partitions_for(self._name)
        except errors.KafkaError as error:
            self.stop()
            raise UserError(f"the topic {self._name} cannot be used: {_one_line(error)}") from None
        except BaseException:
            self.stop()
            raise
        self._thread = threading.Thread(target=self._follow, name="kafkapy-registry-reader", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the reader and the connections."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        for client in (self._consumer, self._producer):
            if client is not None:
                client.close()

    def write(self, *entries: Entry) -> None:
        """Write entries, in order; return when they are applied.

        Raises:
            RegistryError: the cluster does not take them, or does not say so in time.
        """
        self._is_settled = False
        self._send(*entries)
        self._is_settled = True

    def settle(self) -> None:
        """Return when the entries of a write that failed are applied, or never will be.

        The producer may still send them after `write` has given up, and what is checked before that would not
        know of them: two schemas could get one id. Whatever is written before a NOOP is read before it.

        Raises:
            RegistryError: as of `write`.
        """
        if not self._is_settled:
            self.write(Entry(NOOP, None, None, None))

    def _send(self, *entries: Entry) -> None:
        try:
            sent = [
                self._producer.send(self._name, key=entry.key_bytes(), value=entry.value_bytes(), partition=0)
                for entry in entries
            ]
            offsets = [each.get(timeout=self.patience).offset for each in sent]
        except errors.MessageSizeTooLargeError:
            raise too_large("the topic takes no record of this size: see its max.message.bytes") from None
        except errors.KafkaTimeoutError:
            raise timed_out() from None
        except errors.KafkaError as error:
            raise store_failed(_one_line(error)) from None
        with self._applied:
            if not self._applied.wait_for(lambda: self._position > offsets[-1], timeout=self.patience):
                raise timed_out()

    def _create(self, timeout: Mapping[str, Any]) -> None:
        admin = _connected(self._config, timeout)
        try:
            brokers = len(admin.describe_cluster()["brokers"])
            wanted = NewTopic(
                self._name, 1, min(brokers, _MOST_REPLICAS), topic_configs={"cleanup.policy": "compact"}
            )
            try:
                admin.create_topics([wanted])
            except errors.TopicAlreadyExistsError:
                self._check(admin)
        finally:
            admin.close()

    def _check(self, admin: Any) -> None:
        """Raises UserError for a topic that loses schemas, or their order."""
        (topic,) = admin.describe_topics([self._name])
        if len(topic["partitions"]) != 1:
            raise UserError(
                f"the topic {self._name} has {len(topic['partitions'])} partitions: schemas need one with 1"
            )
        resource = ConfigResource(ConfigResourceType.TOPIC, self._name)
        found = admin.describe_configs([resource], config_filter="all")
        policy = found["topic"][self._name]["cleanup.policy"]["value"]
        if policy != "compact":
            raise UserError(
                f"the topic {self._name} would lose schemas: kafkapy configs set topic {self._name}"
                f" cleanup.policy=compact (it is {policy})"
            )

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self._read()
            except errors.KafkaError as error:
                logger.warning("The topic %s is not read for now: %s", self._name, _one_line(error))
                self._stopping.wait(_PAUSE)

    def _read(self) -> int:
        """Apply what comes within a moment; return how many records it was."""
        found = self._consumer.poll(timeout_ms=_POLL_MS)
        records = [record for batch in found.values() for record in batch]
        for record in records:
            try:
                entry = decoded(record.key, record.value)
                if entry is not None:
                    self._apply(entry)
            except (ArithmeticError, KeyError, RecursionError, TypeError, ValueError) as error:
                logger.warning(
                    "The record at offset %d of %s is left out: %s",
                    record.offset,
                    self._name,
                    _one_line(error),
                )
        if records:
            with self._applied:
                self._position = records[-1].offset + 1
                self._applied.notify_all()
        return len(records)


def _connected(config: Mapping[str, Any], timeout: Mapping[str, Any]) -> Any:
    """An admin client.

    kafka-python leaves the sockets and the thread of one that cannot be made.
    """
    connections: list[Any] = []

    def connect(**settings: Any) -> Any:
        connections.append(KafkaNetClient(**settings))
        return connections[0]

    try:
        return KafkaAdminClient(**config, **timeout, kafka_client=connect)
    except BaseException:
        for connection in connections:
            connection.close()
            connection._manager._net.stop()
        raise


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
