"""UpdateMetadata: the controller tells this broker the state of the cluster.

Versions: 0-8.

Behaviour:

- This broker follows the metadata tree itself. It takes from the request only what is not there, the offline
  replicas, and what it has not read yet, new topics (replicas/controller_requests.py).
- A request of an old controller is STALE_CONTROLLER_EPOCH, and one with a controller epoch that the metadata
  tree does not have INVALID_REQUEST. One for an earlier registration of this broker is
  STALE_BROKER_EPOCH.

Version notes:

- v4 adds the offline replicas.
- v5 groups partitions by topic, and adds the broker epoch.
- v7 adds topic ids.
- v8 says whether a KRaft controller asks.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


async def handle(context: RequestContext, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
    """Note what the metadata tree does not tell."""
    return await context.broker.controller_requests.update_metadata(request)
