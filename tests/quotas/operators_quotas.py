"""Callbacks as an operator writes them; the tests name them in settings of brokers."""

from __future__ import annotations

from collections.abc import Mapping

from kafkapy.quotas import ClientQuotaCallback, ClientQuotaType, Cluster


class Tenants(ClientQuotaCallback):
    """All producers share one rate, which is a setting of the broker's."""

    def __init__(self) -> None:
        self.leaders: Mapping[str, Mapping[int, int]] = {}
        self.is_closed = False
        self._rate = 0.0

    def configure(self, configs: Mapping[str, str]) -> None:
        self._rate = float(configs["tenants.rate"])

    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: str, client_id: str
    ) -> Mapping[str, str]:
        return {"shared": "all"}

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        return self._rate if quota_type is ClientQuotaType.PRODUCE else None

    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        self.leaders = cluster.leaders
        return False

    def close(self) -> None:
        self.is_closed = True


class Refuses(Tenants):
    """Finds a mistake in its settings."""

    def configure(self, configs: Mapping[str, str]) -> None:
        raise ValueError("no rate")


class Incomplete(ClientQuotaCallback):
    """Lacks a method."""
