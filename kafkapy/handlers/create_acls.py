"""CreateAcls: refuse, since there is no access control that rules could be made for.

Versions: 0-3 (Apache Kafka 4 dropped v0).

Behaviour:

- Each rule is answered with SECURITY_DISABLED, as by an Apache Kafka without an authorizer.

Version notes:

- v1 knows patterns of names (KIP-290).
- v2 is flexible.
- v3 knows users as resources.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.describe_acls import NO_AUTHORIZER
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Refuse each rule."""
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
            for _ in request.creations
        ]
    )
