"""The subscriptions to metrics of clients, and what they ask of one client.

Source: Apache Kafka's ClientMetricsManager.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from kafkapy.configs.client_match import ClientMatch, ClientProperties
from kafkapy.configs.keys import client_metrics_keys
from kafkapy.logs.text import shortened
from kafkapy.protocol.crc import crc32c
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.types import Uuid
from kafkapy.telemetry.java_sets import in_set_order, uuid_hash

ALL: Final = "*"
"""Stands for all metrics."""

DEFAULT_INTERVAL_MS: Final = 300_000

logger = logging.getLogger(__name__)


class Subscription(NamedTuple):
    """One subscription."""

    metrics: tuple[str, ...]
    """The beginnings of the names of metrics."""
    interval_ms: int
    match: ClientMatch


class Asked(NamedTuple):
    """What all subscriptions together ask of one client."""

    metrics: tuple[str, ...]
    interval_ms: int

    def subscription_id(self, instance_id: Uuid) -> int:
        """Its number: a CRC-32C, XORed with Java's hash of the client's instance id."""
        text = f"[{', '.join(self.metrics)}]{self.interval_ms}"
        number = crc32c(text.encode()) ^ (uuid_hash(instance_id) & 0xFFFFFFFF)
        return number - 0x100000000 if number & 0x80000000 else number

    def includes(self, metric: str) -> bool:
        """Whether a metric is asked for."""
        return self.metrics == (ALL,) or metric.startswith(self.metrics)


NOTHING: Final = Asked((), DEFAULT_INTERVAL_MS)


class Subscriptions:
    """All subscriptions, as the settings of an image have them."""

    def __init__(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        self.configs = configs

    def asked_of(self, client: ClientProperties) -> Asked:
        """What is asked of a client.

        It is called in a thread: an expression may cost 100 ms.
        """
        metrics: dict[str, None] = {}
        interval_ms = DEFAULT_INTERVAL_MS
        for subscription in self._subscriptions:
            if subscription.match.matches(client):
                metrics.update(dict.fromkeys(subscription.metrics))
                interval_ms = min(interval_ms, subscription.interval_ms)
        asked = (ALL,) if ALL in metrics else tuple(in_set_order(metrics))
        return Asked(asked, interval_ms)

    @cached_property
    def _subscriptions(self) -> list[Subscription]:
        return list(_parsed(self.configs))


def _parsed(configs: Mapping[str, Mapping[str, str]]) -> Iterable[Subscription]:
    keys = client_metrics_keys()
    for name in in_set_order(configs):
        texts = configs[name]
        try:
            values = {key: keys[key].parse(text) for key, text in texts.items() if key in keys}
            match = ClientMatch(values.get("match", ()))
        except (KafkaError, ValueError) as error:
            # It came from another broker, or from a migration.
            logger.warning("Client metrics %s: ignored, %.300s", shortened(name), error)
            continue
        yield Subscription(
            tuple(in_set_order(dict.fromkeys(values.get("metrics", ())))),
            values.get("interval.ms", DEFAULT_INTERVAL_MS),
            match,
        )
