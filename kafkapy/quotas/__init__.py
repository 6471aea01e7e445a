"""Quotas of clients: how much they may produce, fetch, occupy the broker and change topics.

An operator's own rules are a subclass of `ClientQuotaCallback` in a module that the broker can import. The
setting `client.quota.callback.class` names it as `module:Class`:

    from kafkapy.quotas import ClientQuotaCallback, ClientQuotaType

    class OneQuotaForAll(ClientQuotaCallback):
        def quota_metric_tags(self, quota_type, principal, client_id):
            return {"shared": "all"}

        def quota_limit(self, quota_type, metric_tags):
            return 1_000_000 if quota_type is ClientQuotaType.PRODUCE else None

A broker makes one object of the class when it starts, and calls it on its event loop, for each request: its
methods must neither block nor take long. What they raise is logged, and the client is not throttled.

Source: Kafka's ClientQuotaCallback, ClientQuotaType (KIP-257).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class ClientQuotaType(Enum):
    """What a quota limits; the value is the name of the quota in the settings of an entity."""

    PRODUCE = "producer_byte_rate"
    """Bytes of Produce requests in a second."""
    FETCH = "consumer_byte_rate"
    """Bytes of records in answers to Fetch in a second."""
    REQUEST = "request_percentage"
    """Time of the broker's event loop, in percent."""
    CONTROLLER_MUTATION = "controller_mutation_rate"
    """Partitions created and deleted in a second."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The partitions of a cluster and their leaders, as a callback may use them."""

    leaders: Mapping[str, Mapping[int, int]]
    """By topic and partition: the id of the broker that leads it, -1 without one."""
    node_id: int
    """The id of the broker whose callback it is."""


class QuotaEvents:
    """The calls that a callback may ignore."""

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the settings of the broker, as they were given, before the first request.

        A callback may have settings of its own among them. If this raises, the broker does not start.
        """

    def update_quota(
        self, quota_type: ClientQuotaType, entity: Mapping[str, str | None], new_value: float
    ) -> None:
        """A quota was set with the tools of Kafka.

        `entity` has a name by type: of a `user`, of a `client-id`, or of both. None stands for the default.
        """

    def remove_quota(self, quota_type: ClientQuotaType, entity: Mapping[str, str | None]) -> None:
        """A quota was removed with the tools of Kafka."""

    def quota_reset_required(self, quota_type: ClientQuotaType) -> bool:
        """Whether limits have changed since the last call, so that all are asked for again.

        It is called for each request. Changes in the other methods count without it.
        """
        return False

    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        """The cluster has changed; return whether limits have."""
        return False

    def close(self) -> None:
        """Release what the callback holds: the broker stops."""


class ClientQuotaCallback(QuotaEvents, ABC):
    """Decides which clients share a quota, and how large it is."""

    @abstractmethod
    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: str, client_id: str
    ) -> Mapping[str, str]:
        """The tags of a client's quota: clients with the same tags share it.

        Args:
            quota_type: what the quota limits.
            principal: such as `User:alice`; `User:ANONYMOUS` without a login.
            client_id: "" if the client has none.
        """

    @abstractmethod
    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """The quota of the clients with these tags; None: they are not limited."""
