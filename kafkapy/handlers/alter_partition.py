"""AlterPartition: a leader changes the in-sync replicas of its partitions (KIP-497).

Versions: 0-3. Served in a cluster only.

Behaviour:

- The controller answers. Any other broker is NOT_CONTROLLER.
- A broker that the controller does not know by this epoch is STALE_BROKER_EPOCH.
- A leader with an old leader epoch is FENCED_LEADER_EPOCH; an old partition epoch is
INVALID_UPDATE_VERSION. A
  newer one means that this controller is out of date: NOT_CONTROLLER.
- A replica may join only if its broker is live, is not shutting down and has the given epoch: else
  INELIGIBLE_REPLICA (KIP-841, KIP-903).
- A change that is in force already is answered without an error, so a request may be sent again.

Version notes:

- v0-1 name topics; a replica that may not join is OPERATION_NOT_ATTEMPTED.
- v1 has the state of recovery after an unclean election (KIP-704).
- v2 gives topics by id (KIP-841).
- v3 has the broker epochs of the new in-sync replicas (KIP-903).
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


async def handle(context: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Change what may be changed."""
    return await context.broker.admin.active_controller().alter_partition(request)
