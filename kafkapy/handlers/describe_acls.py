"""DescribeAcls: refuse, since there is no access control and so no rule to show.

Versions: 0-3 (Apache Kafka 4 dropped v0).

Behaviour:

- The answer is SECURITY_DISABLED, as from an Apache Kafka without an authorizer.

Version notes:

- v1 knows patterns of names (KIP-290).
- v2 is flexible.
- v3 knows users as resources.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

NO_AUTHORIZER = "No Authorizer is configured on the broker"


def handle(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Say that access control is off."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
