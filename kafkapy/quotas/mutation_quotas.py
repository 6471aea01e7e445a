"""The quota of partitions that clients create and delete.

A request takes a token for each partition that it creates or deletes. A strict quota refuses a topic with
THROTTLING_QUOTA_EXCEEDED once the bucket is below zero. A permissive one, for clients of versions that do not
know this error, lets everything pass. Both throttle the client until the bucket is at zero again.

Source: Kafka's ControllerMutationQuotaManager (KIP-599).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.quotas import ClientQuotaCallback, ClientQuotaType
from kafkapy.quotas.sensors import Sensor, Sensors
from kafkapy.quotas.token_bucket import TokenBucket


class MutationQuota(Protocol):
    """What one request may change."""

    def take(self, partitions: int) -> None:
        """Take a token for each partition; raise KafkaError if the quota is exceeded."""

    @property
    def throttle_ms(self) -> int:
        """For how long the client is throttled."""


class Unlimited:
    """The quota of a client without a quota."""

    throttle_ms = 0

    def take(self, partitions: int) -> None:
        """Allow it."""


class Limited:
    """The quota of one request of a client that is limited."""

    def __init__(self, sensor: Sensor[TokenBucket], now_ms: Callable[[], int], *, is_strict: bool) -> None:
        self._sensor = sensor
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._until_ms = 0
        """When the bucket will be at zero, if it was found below."""

    def take(self, partitions: int) -> None:
        """Take a token for each partition.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED, the quota is strict, and exceeded already.
        """
        bucket, rate, now_ms = self._sensor.measured, self._sensor.limit, self._now_ms()
        if rate is None:  # the quota was removed meanwhile
            return
        if self._is_strict and bucket.tokens(rate, now_ms) < 0:
            self._until_ms = now_ms + bucket.throttle_ms(rate, now_ms)
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        bucket.take(partitions, rate, now_ms)
        if not self._is_strict:
            self._until_ms = now_ms + bucket.throttle_ms(rate, now_ms)

    @property
    def throttle_ms(self) -> int:
        """For how long the client is throttled."""
        return max(self._until_ms - self._now_ms(), 0)


class MutationQuotas:
    """The quotas of all clients."""

    def __init__(
        self,
        callback: ClientQuotaCallback,
        windows: int,
        seconds: int,
        now_ms: Callable[[], int],
        *,
        keeps_tags: bool,
    ) -> None:
        """A client may change at once what its rate allows in `windows` windows of `seconds` each."""
        self.sensors = Sensors(
            ClientQuotaType.CONTROLLER_MUTATION,
            callback,
            partial(TokenBucket, windows, seconds * 1000),
            keeps_tags=keeps_tags,
        )
        self._now_ms = now_ms

    def of(self, principal: str, client_id: str, *, is_strict: bool) -> MutationQuota:
        """The quota of one request of a client."""
        sensor = self.sensors.of(principal, client_id, self._now_ms())
        return Unlimited() if sensor is None else Limited(sensor, self._now_ms, is_strict=is_strict)
