"""Requests that only brokers may send.

A broker alone asks itself within its process, so such a request by a connection is a client's. It is refused,
as Apache Kafka refuses a client that may not act for the cluster (ClusterAction). In a cluster, brokers
connect as clients do, and no login tells which is which. An authorizer, if there is one, has decided in front
of the handler (rights.py).
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode


def refusal_of(context: RequestContext) -> ErrorCode:
    """The error for a request of brokers: NONE unless a client has certainly sent it."""
    if context.broker.clustered or context.connection.is_this_broker or context.broker.authorizer is not None:
        return ErrorCode.NONE
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
