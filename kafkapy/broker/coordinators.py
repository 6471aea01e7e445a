"""The coordinators of a broker: of groups, transactions and the states of share groups.

They are most of a broker's code, so this module is imported when they are made (`Coordination`).
"""

from __future__ import annotations

from functools import partial

from kafkapy.broker.administration import Administration
from kafkapy.broker.data import Data
from kafkapy.broker.replication import Replication
from kafkapy.broker.start import Start
from kafkapy.broker.workers import Workers
from kafkapy.coordination.local_log import LocalTopicLog
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.metadata.cache import MetadataCache
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


class Coordinators:
    """The coordinators, which load nothing before they are started."""

    def __init__(
        self, shares: ShareParts, groups: GroupCoordinator, transactions: TransactionCoordinator
    ) -> None:
        self.shares = shares
        self.groups = groups
        self.transactions = transactions

    def start(self, metadata: MetadataCache) -> None:
        """Let the coordinators load their state, in the background, and follow the metadata."""
        self.shares.start(metadata.image)
        metadata.follow(self.shares.metadata_changed)
        self.groups.start(metadata.image)
        metadata.follow(self.groups.metadata_changed)
        self.transactions.start()
        metadata.follow(self.transactions.metadata_changed)

    @property
    def are_at_rest(self) -> bool:
        """Whether they have ended all that they have begun."""
        return self.transactions.is_at_rest and not self.groups.runtime.is_writing and self.shares.is_at_rest

    async def stop(self) -> None:
        """Unload all state, and cancel all timers and tasks."""
        await self.transactions.stop()
        await self.groups.stop()
        await self.shares.stop()

    def leadership_changed(self, topic: str, partition: int, leads: bool, leader_epoch: int) -> None:
        """Load or unload a partition that this broker now leads, or no longer leads."""
        for coordinator in (self.groups, self.transactions, self.shares):
            coordinator.leadership_changed(topic, partition, leads, leader_epoch)

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


def make_coordinators(
    start: Start, workers: Workers, data: Data, replication: Replication, administration: Administration
) -> Coordinators:
    """Make the coordinators.

    Raises:
        UnusableClassError: group.consumer.assignors names one that cannot be used.
    """
    make = _Maker(start, workers, data, replication, administration)
    shares = make.shares()
    return Coordinators(shares, make.groups(shares), make.transactions())
