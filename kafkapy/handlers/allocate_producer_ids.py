"""AllocateProducerIds: reserve a block of producer ids for a broker (KIP-730).

Versions: 0. Served in a cluster only.

Behaviour:

- The controller reserves the next 1000 ids. Brokers of this program reserve them in the metadata themselves;
  brokers of Apache Kafka ask.
- A broker that is not registered is BROKER_ID_NOT_REGISTERED, with another epoch STALE_BROKER_EPOCH.
- Any other broker than the controller is NOT_CONTROLLER.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


async def handle(context: RequestContext, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    """Reserve a block."""
    return await context.broker.admin.active_controller().allocate_producer_ids(request)
