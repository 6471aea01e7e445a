"""DescribeCluster: describe the brokers, the controller and the cluster's id (KIP-700).

Versions: 0-2.

Behaviour:

- The answer is that of Metadata without topics.
- `endpoint_type` (v1+, KIP-919) asks for brokers (1) or controllers (2). A broker answers the first only.

Version notes:

- v2 adds fenced brokers. There are none: a broker that is not alive is not registered.
"""

from __future__ import annotations

from kafkapy.handlers.authorized_operations import NOT_ASKED, cluster_operations
from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS, CONTROLLERS = 1, 2


def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Answer from the image."""
    image = context.broker.metadata.image
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER",
            endpoint_type=BROKERS,
        )
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
            endpoint_type=BROKERS,
        )
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in context.nodes()
        ],
        cluster_authorized_operations=(
            cluster_operations(context) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
