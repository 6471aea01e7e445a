"""DescribeAcls: the ACLs that a filter finds.

Versions: 0-3 (Apache Kafka 4 dropped v0).

Behaviour:

- Without an authorizer, or with one that keeps no ACLs, the answer is SECURITY_DISABLED.
- A filter with a constant that this release does not know is INVALID_REQUEST. Apache Kafka closes the
  connection if the constant is UNKNOWN, and otherwise finds nothing.
- The pattern type MATCH finds the ACLs of all patterns that cover the name.

Version notes:

- v1 knows patterns of names (KIP-290). Before, ACLs of prefixes are not shown.
- v2 is flexible.
- v3 knows users as resources.
"""

from __future__ import annotations

from typing import Any, TypeVar

from kafkapy.handlers.context import RequestContext
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kafkapy.security.acls.model import AclFilter, Operation, PatternType, Permission, ResourceType

NO_AUTHORIZER = "No Authorizer is configured on the broker"

C = TypeVar("C", ResourceType, PatternType, Operation, Permission)


def handle(context: RequestContext, request: DescribeAclsRequest) -> Steps[DescribeAclsResponse]:
    """Find the ACLs."""
    admin = context.broker.admin.acls
    if admin is None:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    try:
        acl_filter = filter_of(request)
        resources = []
        for pattern in admin.find_patterns(acl_filter):
            yield
            if pattern is None or (found := admin.patterns.get(pattern)) is None:
                continue  # another request has deleted them meanwhile
            acls = [acl for acl in found.acls if acl_filter.matches_entry(acl)]
            if not acls:
                continue
            context.charge(
                5 * len(acls), sum(len(acl.principal) for acl in acls), ErrorCode.REQUEST_TIMED_OUT
            )
            resources.append(
                DescribeAclsResource(
                    resource_type=pattern.resource_type,
                    resource_name=pattern.name,
                    pattern_type=pattern.pattern_type,
                    acls=[
                        AclDescription(
                            principal=acl.principal,
                            host=acl.host,
                            operation=acl.operation,
                            permission_type=acl.permission,
                        )
                        for acl in acls
                    ],
                )
            )
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    return DescribeAclsResponse(error_message=None, resources=resources)


def filter_of(request: Any) -> AclFilter:
    """The filter in a DescribeAcls request, or one of a DeleteAcls request.

    Raises:
        KafkaError: INVALID_REQUEST, a constant is not known.
    """
    return AclFilter(
        constant(ResourceType, request.resource_type_filter),
        constant(PatternType, request.pattern_type_filter),
        request.resource_name_filter,
        request.principal_filter,
        request.host_filter,
        constant(Operation, request.operation),
        constant(Permission, request.permission_type),
    )


def constant(kind: type[C], code: int) -> C:
    """The constant with this number.

    Raises:
        KafkaError: INVALID_REQUEST, there is none, or it is UNKNOWN.
    """
    try:
        found = kind(code)
    except ValueError:
        found = kind(0)
    if not found:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{kind.__name__} {code} is not known.")
    return found
