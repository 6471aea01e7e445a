"""DeleteAcls: delete the ACLs that filters find.

Versions: 0-3 (Apache Kafka 4 dropped v0).

Behaviour:

- Without an authorizer, or with one that keeps no ACLs, each filter is answered with SECURITY_DISABLED.
- A filter with a constant that this release does not know is INVALID_REQUEST; the others are followed.
- An ACL that several filters find is in the answer of each, as in Apache Kafka 4.
- If a request finds more than 10,000 ACLs, each filter is INVALID_REQUEST and nothing is deleted.

Version notes:

- v1 knows patterns of names (KIP-290).
- v2 is flexible.
- v3 knows users as resources.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kafkapy.controller.acls import AclAdmin
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.describe_acls import NO_AUTHORIZER, filter_of
from kafkapy.handlers.per_partition import answer_each
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kafkapy.security.acls.model import Acl, AclFilter


def handle(
    context: RequestContext, request: DeleteAclsRequest
) -> Steps[DeleteAclsResponse | Awaitable[DeleteAclsResponse]]:
    """Delete the ACLs."""
    admin = context.broker.admin.acls
    if admin is None:
        disabled = KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        return DeleteAclsResponse(
            filter_results=(yield from answer_each(request.filters, lambda _: _refused(disabled)))
        )
    filters: list[AclFilter | KafkaError] = []
    for wanted in request.filters:
        yield
        filters.append(_filter(wanted))
    return _delete(admin, filters)


async def _delete(admin: AclAdmin, filters: list[AclFilter | KafkaError]) -> DeleteAclsResponse:
    valid = [each for each in filters if isinstance(each, AclFilter)]
    results: list[DeleteAclsFilterResult]
    try:
        results = [_result(acls) for acls in await admin.delete(valid)]
    except KafkaError as error:
        results = [_refused(error) for _ in valid]
    done = iter(results)
    return DeleteAclsResponse(
        filter_results=[next(done) if isinstance(each, AclFilter) else _refused(each) for each in filters]
    )


def _filter(wanted: DeleteAclsFilter) -> AclFilter | KafkaError:
    try:
        return filter_of(wanted)
    except KafkaError as error:
        return error


def _result(acls: list[Acl]) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[
            DeleteAclsMatchingAcl(
                error_message=None,
                resource_type=acl.pattern.resource_type,
                resource_name=acl.pattern.name,
                pattern_type=acl.pattern.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ],
    )


def _refused(error: KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
