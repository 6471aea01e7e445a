"""The replication of a broker that is in a cluster, assembled.

    ControllerRequests   gives the partitions of the ReplicaManager their roles
    Fetchers             bring the followers the records of their leaders
    IsrChanges           brings the leaders' proposals to the controller

All take the settings of the moment, so a changed one counts at once. A changed number of fetchers counts for
the partitions that follow a leader anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kafkapy.configs.config import BrokerConfig
from kafkapy.inter_broker.peers import PeerAddress, Peers
from kafkapy.metadata.image import MetadataImage
from kafkapy.replicas.controller_requests import UNKNOWN_BROKER_EPOCH, ControllerRequests, ReadStates
from kafkapy.replicas.fetch_rates import FetchRates
from kafkapy.replicas.fetcher import FetcherParts, FetchSettings
from kafkapy.replicas.fetchers import Fetchers
from kafkapy.replicas.isr_changes import IsrChanges
from kafkapy.replicas.leader import LeaderParts
from kafkapy.replicas.new_topics import ReadTopics
from kafkapy.replicas.replica_manager import ReplicaManager


class ReplicationSettings:
    """The settings of replication, from those of the broker."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def lag_seconds(self) -> float:
        """How long a replica in sync may be behind."""
        milliseconds: int = self._config["replica.lag.time.max.ms"]
        return milliseconds / 1000

    def fetchers(self) -> int:
        """How many fetchers there are for each broker that leads partitions of this one."""
        count: int = self._config["num.replica.fetchers"]
        return count

    def fetch(self) -> FetchSettings:
        """The settings of fetchers."""
        config = self._config
        return FetchSettings(
            config["replica.fetch.min.bytes"],
            config["replica.fetch.wait.max.ms"] / 1000,
            config["replica.fetch.max.bytes"],
            config["replica.fetch.response.max.bytes"],
            config["replica.fetch.backoff.ms"] / 1000,
            config["replica.socket.timeout.ms"] / 1000,
        )


class ClusterReplication:
    """The parts that replicate the partitions of one broker."""

    def __init__(
        self,
        replicas: ReplicaManager,
        settings: ReplicationSettings,
        *,
        node_id: int,
        image: Callable[[], MetadataImage],
        read_topics: ReadTopics,
        read_states: ReadStates,
        read_controller_epoch: Callable[[], Awaitable[int]],
        peers: Peers,
        address: Callable[[int], PeerAddress | None],
        ask_controller: Callable[[Any], Awaitable[Any]],
        now_ms: Callable[[], int],
        now: Callable[[], float] | None = None,
    ) -> None:
        """Replicate the partitions of `replicas`, as the controller asks.

        Args:
            image: the latest metadata. It has the epochs of registered brokers, this one's too.
            read_topics: reads topics from the metadata tree, which the image may not have yet, without those
                that are marked for deletion.
            read_states: reads the states of partitions from the metadata tree.
            read_controller_epoch: reads the epoch of the latest controller from the metadata tree.
            address: where a broker listens for others; None, or a PeerError, while that is not known.
            ask_controller: sends a request to the present controller. It may raise PeerError or KafkaError.
            now_ms: the wall clock.
            now: the seconds by which lags are measured; without it those of the event loop.
        """

        def registered_epoch(broker: int) -> int | None:
            found = image().brokers.get(broker)
            return None if found is None else found.epoch

        def broker_epoch() -> int:
            epoch = registered_epoch(node_id)
            return UNKNOWN_BROKER_EPOCH if epoch is None else epoch

        replicas.fetch_rates = FetchRates()
        self.fetchers = Fetchers(
            FetcherParts(
                node_id=node_id,
                peers=peers,
                address=address,
                broker_epoch=broker_epoch,
                settings=settings.fetch,
                now_ms=now_ms,
                quota=replicas.quotas.follower,
                rates=replicas.fetch_rates,
            ),
            settings.fetchers,
        )
        self.isr_changes = IsrChanges(
            node_id=node_id,
            ask_controller=ask_controller,
            broker_epoch=broker_epoch,
            leaders=lambda: self.requests.leaders(),
            lag_seconds=settings.lag_seconds,
        )
        self.requests = ControllerRequests(
            replicas,
            self.fetchers,
            LeaderParts(
                node_id=node_id,
                now=now or asyncio.get_running_loop().time,
                lag_seconds=settings.lag_seconds,
                registered_epoch=registered_epoch,
                propose=self.isr_changes.propose,
                isr_changes=replicas.isr_changes,
            ),
            broker_epoch=broker_epoch,
            image=image,
            read_topics=read_topics,
            read_states=read_states,
            read_controller_epoch=read_controller_epoch,
        )

    def start(self) -> None:
        """Begin to send proposals to the controller.

        Fetchers start when there is something to fetch.
        """
        self.isr_changes.start()

    async def stop(self) -> None:
        """Fetch and propose no more."""
        await self.fetchers.stop()
        await self.isr_changes.stop()
        await self.requests.new_topics.stop()
