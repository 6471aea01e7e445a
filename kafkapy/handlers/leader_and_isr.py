"""LeaderAndIsr: the controller tells this broker what to lead and what to follow.

Versions: 0-7.

Behaviour:

- replicas/controller_requests.py handles it. Each partition has its own error code.
- A partition that the metadata tree does not have is UNKNOWN_TOPIC_OR_PARTITION. A leader epoch or partition
  epoch above the tree's is UNKNOWN_LEADER_EPOCH.
- A request of an old controller is STALE_CONTROLLER_EPOCH, and one with a controller epoch that the metadata
  tree does not have INVALID_REQUEST. One for an earlier registration of this broker is
  STALE_BROKER_EPOCH.

Version notes:

- v1 says which partitions are new.
- v2 groups partitions by topic, and adds the broker epoch.
- v3 adds the replicas that a reassignment adds and removes.
- v5 adds topic ids and the type of the request, and answers by topic id.
- v6 adds the recovery state, which has no effect here.
- v7 says whether a KRaft controller asks.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse


async def handle(context: RequestContext, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
    """Change the roles of the partitions."""
    return await context.broker.controller_requests.leader_and_isr(request)
