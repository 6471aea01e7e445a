"""The coordinators of a broker: of groups, transactions and the states of share groups."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from kafkapy.broker.administration import Administration
from kafkapy.broker.data import Data
from kafkapy.broker.replication import Replication
from kafkapy.broker.start import Start
from kafkapy.broker.workers import Workers
from kafkapy.coordination.local_log import LocalTopicLog
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.groups.offsets.zookeeper import ZooKeeperOffsets
from kafkapy.protocol.topic_names import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkapy.protocol.types import TopicPartition
from kafkapy.share.persister import Persister
from kafkapy.share.share_parts import ShareParts
from kafkapy.transactions.config import TransactionConfig
from kafkapy.transactions.coordinator import TransactionCoordinator
from kafkapy.transactions.markers import MarkerSender
from kafkapy.transactions.metadata import EPOCH_AT_EACH_END
from kafkapy.transactions.verifier import Verifier


class Coordination(NamedTuple):
    """The coordinators, and what asks those of other brokers."""

    shares: ShareParts
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    verifier: Verifier
    zookeeper_offsets: ZooKeeperOffsets | None

    def close_topics(self) -> None:
        """Answer no more requests: the broker stops."""
        self.groups.runtime.close_topic()
        self.transactions.runtime.close_topic()
        self.shares.close_topic()


class _Maker:
    """Makes the coordinators from the parts that they need."""

    def __init__(
        self,
        start: Start,
        workers: Workers,
        data: Data,
        replication: Replication,
        administration: Administration,
    ) -> None:
        self._config, self._clock, self._metadata = start.config, start.machine.clock, start.metadata
        self._workers = workers
        self._blocking = workers.threads.blocking
        self._data = data
        self._replicas = replication.replicas
        self._admin = administration.admin
        self._inter_broker = administration.inter_broker
        self._ensure_topic = administration.automatic_topics.ensure_internal_topic

    def shares(self) -> ShareParts:
        workers = self._workers
        return ShareParts(
            self._config,
            self._clock,
            workers.timers,
            workers.waiters,
            self._internal_log(SHARE_GROUP_STATE_TOPIC),
            Persister(
                self._metadata,
                self._inter_broker.ask,
                self._ensure_topic,
                workers.turns,
                seconds=self._config["request.timeout.ms"] / 1000,
            ),
            image=lambda: self._metadata.image,
            find_partition=self._replicas.partition,
            blocking=self._blocking,
        )

    def groups(self, shares: ShareParts) -> GroupCoordinator:
        config = self._config
        groups = GroupCoordinator(
            GroupConfig.from_broker(config),
            self._clock,
            self._workers.timers,
            self._internal_log(GROUP_METADATA_TOPIC),
            blocking=self._blocking,
            costly=self._workers.threads.costly,
            share_state=shares.persister,
        )
        config.on_change(lambda: groups.configure(GroupConfig.from_broker(config)))
        return groups

    def transactions(self) -> TransactionCoordinator:
        config, timers = TransactionConfig.from_broker(self._config), self._workers.timers
        ask = partial(self._inter_broker.ask, seconds=config.request_timeout_ms / 1000)
        return TransactionCoordinator(
            config,
            self._clock,
            timers,
            self._internal_log(TRANSACTION_STATE_TOPIC),
            MarkerSender(self._leader_of, ask, timers),
            new_producer_id=self._admin.producer_ids.next_producer_id,
            blocking=self._blocking,
            version=0 if self._config.clustered else EPOCH_AT_EACH_END,
        )

    def verifier(self, transactions: TransactionCoordinator) -> Verifier:
        config = self._config
        return Verifier(
            self._metadata,
            self._inter_broker,
            transactions,
            node_id=self._data.node_id,
            is_enabled=lambda: config["transaction.partition.verification.enable"],
            seconds=config["request.timeout.ms"] / 1000,
            retry_seconds=config["add.partitions.to.txn.retry.backoff.ms"] / 1000,
            most_retry_seconds=config["add.partitions.to.txn.retry.backoff.max.ms"] / 1000,
        )

    def zookeeper_offsets(self) -> ZooKeeperOffsets | None:
        return ZooKeeperOffsets(self._data.store) if self._config.clustered else None

    def _internal_log(self, topic: str) -> LocalTopicLog:
        return LocalTopicLog(
            topic,
            metadata=self._metadata,
            replicas=self._replicas,
            blocking=self._blocking,
            provide=self._workers.cold_reads.provide,
            create=self._ensure_topic,
        )

    def _leader_of(self, partition: TopicPartition) -> int | None:
        """The leader of a partition, which may be NO_LEADER; None if there is no such partition."""
        state = self._metadata.image.partition(*partition)
        return None if state is None else state.leader


def make_coordination(
    start: Start, workers: Workers, data: Data, replication: Replication, administration: Administration
) -> Coordination:
    """Make the coordinators, which load nothing yet.

    Raises:
        UnusableAssignorError: group.consumer.assignors names one that cannot be used.
    """
    make = _Maker(start, workers, data, replication, administration)
    shares = make.shares()
    groups, transactions = make.groups(shares), make.transactions()
    verifier = make.verifier(transactions)
    start.started.push_async_callback(verifier.stop)
    for coordinator in (groups, transactions, shares):
        replication.replicas.on_leadership(coordinator.leadership_changed)
    return Coordination(shares, groups, transactions, verifier, make.zookeeper_offsets())


def start_coordination(start: Start, coordination: Coordination) -> None:
    """Let the coordinators load their state, in the background, and follow the metadata."""
    metadata, started = start.metadata, start.started
    coordination.shares.start(metadata.image)
    metadata.follow(coordination.shares.metadata_changed)
    started.push_async_callback(coordination.shares.stop)
    coordination.groups.start(metadata.image)
    metadata.follow(coordination.groups.metadata_changed)
    started.push_async_callback(coordination.groups.stop)
    coordination.transactions.start()
    metadata.follow(coordination.transactions.metadata_changed)
    started.push_async_callback(coordination.transactions.stop)
