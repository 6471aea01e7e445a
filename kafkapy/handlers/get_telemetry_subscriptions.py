"""GetTelemetrySubscriptions: tell a client which metrics to push, and when (KIP-714).

Version: 0.

Behaviour:

- It is served while metrics are on (`metrics.port`). Apache Kafka serves it while a metrics reporter exports
  what clients push.
- A client without an instance id gets one. Its subscription is that of all `client-metrics` resources that
  match it, with the shortest of their intervals. The subscription's id is Apache Kafka's.
- A client that asks again within its interval gets THROTTLING_QUOTA_EXCEEDED, unless the resources have
  changed.
- Counters are asked for from their beginning on, as Prometheus wants them. Apache Kafka asks for differences.
- A connection has one instance: naming another one forgets the first. An instance is forgotten with its
  connection, or after a silence of a minute or of three intervals.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kafkapy.protocol.types import ZERO_UUID, Uuid, random_uuid, uuid_to_text
from kafkapy.telemetry.telemetry import SUPPORTED_COMPRESSION, Client


async def handle(
    context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Answer what is asked of the client."""
    telemetry = context.broker.telemetry
    assert telemetry is not None  # the dispatcher serves the API only then
    instance_id = request.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = random_uuid()
    error, instance = await telemetry.subscription(client_of(context, instance_id))
    if error is not ErrorCode.NONE:
        return GetTelemetrySubscriptionsResponse(error_code=error)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(SUPPORTED_COMPRESSION),
        push_interval_ms=instance.asked.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=False,
        requested_metrics=list(instance.asked.metrics),
    )


def client_of(context: RequestContext, instance_id: Uuid) -> Client:
    """The client that asks."""
    connection = context.connection
    name, version = connection.software or (None, None)
    properties = {
        "client_instance_id": uuid_to_text(instance_id),
        "client_id": context.client_id,
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": connection.peer_host,
        "client_source_port": str(connection.peer_port),
    }
    return Client(instance_id, connection, properties, context.principal)
