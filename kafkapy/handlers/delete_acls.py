"""DeleteAcls: refuse, since there is no access control and so no rule to delete.

Versions: 0-3 (Apache Kafka 4 dropped v0).

Behaviour:

- Each filter is answered with SECURITY_DISABLED, as by an Apache Kafka without an authorizer.

Version notes:

- v1 knows patterns of names (KIP-290).
- v2 is flexible.
- v3 knows users as resources.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.describe_acls import NO_AUTHORIZER
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def handle(context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Refuse each filter."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
            for _ in request.filters
        ]
    )
