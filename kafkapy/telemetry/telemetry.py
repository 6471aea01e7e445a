"""The telemetry of one broker: what its handlers ask, and what a scrape reads."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from kafkapy.configs.client_match import ClientProperties
from kafkapy.loop.clock import Clock
from kafkapy.metadata.cache import MetadataCache
from kafkapy.protocol.compression import Compression, decompress
from kafkapy.protocol.errors import DecodeError, ErrorCode
from kafkapy.protocol.types import Uuid, uuid_to_text
from kafkapy.telemetry.instances import ClientInstance, ClientInstances, Connection, lifetime_ms
from kafkapy.telemetry.otlp import LONGEST, decode_push
from kafkapy.telemetry.samples import AllSamples, ClientSample, named
from kafkapy.telemetry.subscriptions import NOTHING, Asked, Subscriptions

SUPPORTED_COMPRESSION: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
"""In the order in which clients choose. A push may also be without compression."""

logger = logging.getLogger(__name__)


class Client(NamedTuple):
    """A client that asks."""

    instance_id: Uuid
    connection: Connection
    properties: ClientProperties
    """By the names of `ClientMatch`."""
    principal: str

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that tell it."""
        properties = {name: (value or "")[:LONGEST] for name, value in self.properties.items()}
        return {**properties, "principal": self.principal[:LONGEST]}


class Counts:
    """What has happened since the start."""

    __slots__ = ("exports", "failures", "throttled", "unknown_subscriptions")

    def __init__(self) -> None:
        self.exports = 0
        self.failures = 0
        self.throttled = 0
        self.unknown_subscriptions = 0


class ClientTelemetry:
    """The telemetry of the clients of one broker."""

    def __init__(
        self,
        metadata: MetadataCache,
        clock: Clock,
        costly: Callable[..., Awaitable[Any]],
        max_bytes: int,
    ) -> None:
        """`costly` runs a call in a thread; a push has at most `max_bytes`, also decompressed."""
        self._metadata = metadata
        self._clock = clock
        self._costly = costly
        self.max_bytes = max_bytes
        self.instances = ClientInstances()
        self.samples = AllSamples()
        self.counts = Counts()
        self._subscriptions = Subscriptions({})

    async def subscription(self, client: Client) -> tuple[ErrorCode, ClientInstance]:
        """What is asked of a client, unless it asks too early."""
        instance = await self._instance(client)
        if not instance.may_get(self._clock.now_ms()):
            self.counts.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED, instance
        return ErrorCode.NONE, instance

    async def push(
        self, client: Client, *, subscription_id: int, terminating: bool, compression: int, metrics: bytes
    ) -> ErrorCode:
        """Take the metrics of a client; return why not, or NONE."""
        instance = await self._instance(client)
        error = instance.refusal(
            self._clock.now_ms(), subscription_id=subscription_id, terminating=terminating
        )
        if error is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            self.counts.throttled += 1
        elif error is ErrorCode.UNKNOWN_SUBSCRIPTION_ID:
            self.counts.unknown_subscriptions += 1
        if error is not ErrorCode.NONE:
            return error
        if compression not in SUPPORTED_COMPRESSION and compression != Compression.NONE:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(metrics) > self.max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        if metrics and instance.asked.metrics:
            return await self._export(client, instance.asked, Compression(compression), metrics)
        return ErrorCode.NONE

    def expire(self) -> None:
        """Forget the clients that have been silent for long."""
        now_ms = self._clock.now_ms()
        self.instances.expire(now_ms)
        self.samples.expire(now_ms)

    async def _instance(self, client: Client) -> ClientInstance:
        """The instance of a client, with the subscriptions of now."""
        subscriptions = self._present_subscriptions()
        instance = self.instances.find(client.instance_id, subscriptions, self._clock.now_ms())
        if instance is not None:
            return instance
        asked = NOTHING
        if subscriptions.configs:
            asked = await self._costly(subscriptions.asked_of, client.properties)
            now_ms = self._clock.now_ms()
            if (instance := self.instances.find(client.instance_id, subscriptions, now_ms)) is not None:
                return instance  # the client has asked twice at once
        instance = ClientInstance(client.instance_id, subscriptions, asked)
        return self.instances.put(client.instance_id, client.connection, instance, self._clock.now_ms())

    def _present_subscriptions(self) -> Subscriptions:
        configs = self._metadata.image.client_metrics_configs
        if configs is not self._subscriptions.configs:
            self._subscriptions = Subscriptions(configs)
        return self._subscriptions

    async def _export(
        self, client: Client, asked: Asked, compression: Compression, metrics: bytes
    ) -> ErrorCode:
        try:
            found, left_out = await self._costly(_read, compression, metrics, self.max_bytes, asked)
        except DecodeError as error:
            self.counts.failures += 1
            text = uuid_to_text(client.instance_id)
            logger.debug("The metrics of client instance %s cannot be read: %.300s", text, error)
            return ErrorCode.INVALID_RECORD
        self.counts.exports += 1
        expires_ms = self._clock.now_ms() + lifetime_ms(asked)
        self.samples.update(client.instance_id, client.labels, found, left_out, expires_ms)
        return ErrorCode.NONE


def _read(
    compression: Compression, metrics: bytes, limit: int, asked: Asked
) -> tuple[list[tuple[ClientSample, float, bool]], int]:
    """Decompress and decode a push, in a thread.

    Raises:
        DecodeError: it is broken, or larger than `limit` when it is decompressed.
    """
    push = decode_push(decompress(compression, metrics, limit=limit))
    found, left_out = named(sample for sample in push.samples if asked.includes(sample.name))
    return found, push.left_out + left_out
