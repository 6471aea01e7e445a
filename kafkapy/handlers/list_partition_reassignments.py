"""ListPartitionReassignments: list partitions that are moving between brokers (KIP-455).

Versions: 0.

Behaviour:

- The list is empty, since there is one broker. DescribeLogDirs shows moves between its log directories.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Answer that there are none."""
    return ListPartitionReassignmentsResponse(error_message=None)
