"""ControlledShutdown: a broker that is about to stop hands over its partitions (KIP-143).

Versions: 0-3. Served in a cluster only.

Behaviour:

- The controller elects other leaders for the partitions that the broker leads, and takes the broker out of
  the in-sync replicas of the partitions that it follows.
- The answer lists the partitions that it still leads, because no other replica is in sync. The broker asks
  again, or stops all the same. Partitions with one replica are not listed.
- A broker that is not registered is BROKER_NOT_AVAILABLE, with an old epoch STALE_BROKER_EPOCH.
- Any other broker than the controller is NOT_CONTROLLER.

Version notes:

- v2 has the broker's epoch (KIP-380).
- v3 is flexible.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)


async def handle(context: RequestContext, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
    """Move the leaders, and answer what is left."""
    return await context.broker.admin.active_controller().controlled_shutdown(request)
