"""CreateAcls: allow or deny operations to principals.

Versions: 0-3 (Apache Kafka 4 dropped v0).

Behaviour:

- Without an authorizer, or with one that keeps no ACLs, each ACL is answered with SECURITY_DISABLED.
- An ACL that cannot be one is INVALID_REQUEST, with the reason; the others are created. Apache Kafka refuses
  the whole request if a constant is UNKNOWN, ANY or MATCH.
- An ACL that exists is created with success, as in Apache Kafka.
- ACLs are kept in nodes of the metadata tree that have the names of the resources. So a name has no "/", is
  not "." or "..", and is printable, as in Apache Kafka 3.9 with ZooKeeper.
- There is room for 100,000 ACLs, for some 3,000 of them with one name, and for 10,000 in one request. Beyond
  that the answer is POLICY_VIOLATION.

Version notes:

- v1 knows patterns of names (KIP-290).
- v2 is flexible.
- v3 knows users as resources.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kafkapy.controller.acls import AclAdmin, why_refused
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.describe_acls import NO_AUTHORIZER, constant
from kafkapy.handlers.per_partition import answer_each
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from kafkapy.security.acls.model import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)


def handle(
    context: RequestContext, request: CreateAclsRequest
) -> Steps[CreateAclsResponse | Awaitable[CreateAclsResponse]]:
    """Create the ACLs."""
    admin = context.broker.admin.acls
    if admin is None:
        disabled = KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        return CreateAclsResponse(
            results=(yield from answer_each(request.creations, lambda _: _result(disabled)))
        )
    wanted: list[Acl | KafkaError] = []
    for creation in request.creations:
        yield
        wanted.append(_acl(creation))
    return _create(admin, wanted)


async def _create(admin: AclAdmin, wanted: list[Acl | KafkaError]) -> CreateAclsResponse:
    valid = [each for each in wanted if isinstance(each, Acl)]
    errors: list[KafkaError | None]
    try:
        errors = await admin.create(valid)
    except KafkaError as error:
        errors = [error] * len(valid)
    created = iter(errors)
    return CreateAclsResponse(
        results=[_result(next(created) if isinstance(each, Acl) else each) for each in wanted]
    )


def _acl(creation: AclCreation) -> Acl | KafkaError:
    """The ACL, or why there can be none."""
    try:
        pattern = ResourcePattern(
            constant(ResourceType, creation.resource_type),
            constant(PatternType, creation.resource_pattern_type),
            creation.resource_name,
        )
        acl = Acl(
            pattern,
            creation.principal,
            creation.host,
            constant(Operation, creation.operation),
            constant(Permission, creation.permission_type),
        )
    except KafkaError as error:
        return error
    if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        why: str | None = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not pattern.name:
        why = "Invalid empty resource name"
    else:
        why = why_refused(acl)
    return acl if why is None else KafkaError(ErrorCode.INVALID_REQUEST, why)


def _result(error: KafkaError | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult(error_message=None)
    return AclCreationResult(error_code=error.code, error_message=error.message)
