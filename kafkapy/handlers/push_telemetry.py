"""PushTelemetry: take metrics of a client (KIP-714).

Version: 0.

Behaviour:

- It is served while metrics are on, and Prometheus reads the values there (docs/metrics.md).
- The checks are, in this order:
  - an instance id that no client has: INVALID_REQUEST;
  - a push after one that was to be the last: INVALID_REQUEST;
  - a push before the interval is over: THROTTLING_QUOTA_EXCEEDED. The first push after the subscription was
    got may come early, and so may the last one;
  - another subscription id than the present one: UNKNOWN_SUBSCRIPTION_ID;
  - UNSUPPORTED_COMPRESSION_TYPE;
  - more bytes than `telemetry.max.bytes`: TELEMETRY_TOO_LARGE;
  - bytes that cannot be decompressed or decoded, or are more than `telemetry.max.bytes` decompressed:
    INVALID_RECORD.
- A client of which nothing is asked may push, and its values are dropped. So are metrics that were not asked
  for.
- Decompression stops at `telemetry.max.bytes`. It is done, with the decoding, in a thread.
"""

from __future__ import annotations

from typing import Final

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.get_telemetry_subscriptions import client_of
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kafkapy.protocol.types import ZERO_UUID, Uuid

RESERVED: Final[tuple[Uuid, ...]] = (ZERO_UUID, (1).to_bytes(16))
"""Kafka's names for nothing and for the metadata topic."""


async def handle(context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Take the metrics."""
    telemetry = context.broker.telemetry
    assert telemetry is not None  # the dispatcher serves the API only then
    if request.client_instance_id in RESERVED:
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
    error = await telemetry.push(
        client_of(context, request.client_instance_id),
        subscription_id=request.subscription_id,
        terminating=request.terminating,
        compression=request.compression_type,
        metrics=request.metrics,
    )
    return PushTelemetryResponse(error_code=error)
