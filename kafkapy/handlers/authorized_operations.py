"""The operations that a client may do on a resource, as a bit field (KIP-430)."""

from __future__ import annotations

from typing import Final

from kafkapy.handlers.context import RequestContext
from kafkapy.security.acls.model import CLUSTER_NAME, Operation, ResourceType

NOT_ASKED: Final = -(2**31)
"""The value of the field if the request did not ask for it."""


def cluster_operations(context: RequestContext) -> int:
    """The operations on the cluster; none for a client that may not describe it."""
    if not context.may_on_cluster(Operation.DESCRIBE, log_if_denied=False):
        return 0
    return context.operations_on(ResourceType.CLUSTER, CLUSTER_NAME)
