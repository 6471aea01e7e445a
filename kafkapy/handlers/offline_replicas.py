"""Which replicas of partitions are offline, for answers about the metadata.

A replica is offline if its broker is not alive, or if the broker has lost the log directory. Without a
cluster, a broker without the client's listener counts as not alive, as in Apache Kafka 4. In a cluster it
does not, as in Apache Kafka 3. A broker knows at once of its own log directories. It hears of those of other
brokers from the controller (UpdateMetadata).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kafkapy.handlers.context import RequestContext


class OfflineReplicas:
    """The offline replicas as of one request."""

    def __init__(self, context: RequestContext, nodes: Collection[int]) -> None:
        """`nodes` are the ids of the brokers that have the client's listener."""
        broker = context.broker
        self._alive: Collection[int] = broker.metadata.image.brokers if broker.clustered else nodes
        self._reported = broker.offline_replicas
        self._is_offline = broker.replicas.is_offline if broker.replicas.any_offline else None
        self._node_id = broker.node_id

    def of(self, topic: str, index: int, replicas: Sequence[int]) -> list[int]:
        """The offline ones of the replicas of a partition."""
        offline = [replica for replica in replicas if replica not in self._alive]
        if self._reported:
            reported = self._reported.get((topic, index), ())
            offline += [each for each in reported if each in replicas and each not in offline]
        if self._is_offline is not None and self._node_id not in offline and self._is_offline(topic, index):
            offline.append(self._node_id)
        return offline
