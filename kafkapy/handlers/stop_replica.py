"""StopReplica: the controller has this broker stop or delete replicas.

Versions: 0-4.

Behaviour:

- replicas/controller_requests.py handles it. Each partition has its own error code.
- A replica that is stopped fetches no more. One that is deleted is gone from the disk when the answer comes.
- A request of an old controller is STALE_CONTROLLER_EPOCH, and one with a controller epoch that the metadata
  tree does not have INVALID_REQUEST. One for an earlier registration of this broker is
  STALE_BROKER_EPOCH. A leader epoch below the partition's is FENCED_LEADER_EPOCH.
- A deletion of a replica that the metadata tree assigns to this broker is FENCED_LEADER_EPOCH too, unless its
  topic is marked for deletion: it was meant for an earlier topic of the name.

Version notes:

- v1 groups partitions by topic, and adds the broker epoch.
- v3 adds leader epochs, and says for each partition whether it is deleted.
- v4 says whether a KRaft controller asks.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


async def handle(context: RequestContext, request: StopReplicaRequest) -> StopReplicaResponse:
    """Stop the replicas."""
    return await context.broker.controller_requests.stop_replica(request)
