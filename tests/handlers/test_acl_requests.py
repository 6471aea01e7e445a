"""CreateAcls, DescribeAcls and DeleteAcls, as clients see them."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkapy.protocol.messages.describe_acls import DescribeAclsRequest
from kafkapy.security.acls.model import Operation, PatternType, Permission, ResourceType

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def find(version: int = 3) -> dict[str, Any]:
    """A filter that finds everything: version 0 has no types of patterns."""
    return ANY if version else {**ANY, "pattern_type_filter": 3}


ANY: dict[str, Any] = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
ANY |= {"resource_name_filter": None, "principal_filter": None, "host_filter": None}


@pytest.fixture
async def world(start_world: Any) -> Any:
    return await start_world(**{"authorizer.class.name": STANDARD})


def creation(**changes: Any) -> AclCreation:
    fields: dict[str, Any] = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": "orders",
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(**fields | changes)


async def create(world: Any, *creations: AclCreation, version: int = 3) -> list[tuple[int, str | None]]:
    response = await world.ask(CreateAclsRequest(creations=list(creations)), version)
    return [(each.error_code, each.error_message) for each in response.results]


async def described(world: Any, version: int = 3, **changes: Any) -> list[tuple[Any, ...]]:
    response = await world.ask(DescribeAclsRequest(**find(version) | changes), version)
    assert (response.error_code, response.error_message) == (0, None)
    return sorted(
        (
            each.resource_type,
            each.pattern_type,
            each.resource_name,
            *(getattr(acl, name) for name in acl.__slots__),
        )
        for each in response.resources
        for acl in each.acls
    )


ALICE = (2, 3, "orders", "User:alice", "*", 3, 3)


@pytest.mark.parametrize("version", range(4))
async def test_acls_are_created_shown_and_deleted(world: Any, version: int) -> None:
    assert await create(world, creation(), version=version) == [(0, None)]
    assert await described(world, version) == [ALICE]
    deleted = await world.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**find(version))]), version)
    (found,) = deleted.filter_results
    assert (found.error_code, found.error_message) == (0, None)
    (acl,) = found.matching_acls
    assert (acl.error_code, acl.resource_name, acl.principal) == (0, "orders", "User:alice")
    assert await described(world, version) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"resource_type": 4, "resource_name": "c"},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 0}, "ResourceType 0 is not known."),
        ({"resource_type": 99}, "ResourceType 99 is not known."),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"principal": "x" * 5_000 + ":"}, "The name, principal and host of an ACL have at most 4000"),
        (
            {"principal": "alice"},
            "Could not parse principal from `alice` (no colon is present separating the principal type",
        ),
        ({"resource_type": 3, "resource_name": "a/b"}, "The ACLs of a resource are in a node of its name"),
    ],
)
async def test_what_cannot_be_an_acl_is_refused_alone(
    world: Any, changes: dict[str, Any], message: str
) -> None:
    (refused, created) = await create(world, creation(**changes), creation())
    assert refused[0] == ErrorCode.INVALID_REQUEST
    assert str(refused[1]).startswith(message)
    assert created == (0, None)
    assert await described(world) == [ALICE]


async def test_filters_find_patterns_that_cover_a_name(world: Any) -> None:
    prefixed, wildcard = creation(resource_name="ord", resource_pattern_type=4), creation(resource_name="*")
    assert await create(world, creation(), prefixed, wildcard) == [(0, None)] * 3
    asked: dict[str, Any] = {"resource_type_filter": 2, "resource_name_filter": "orders"}
    names = {acl[2] for acl in await described(world, pattern_type_filter=2, **asked)}
    assert names == {"*", "ord", "orders"}
    assert await described(world, pattern_type_filter=3, **asked) == [ALICE]
    assert {acl[2] for acl in await described(world, 0)} == {"*", "orders"}  # version 0 knows no prefixes


async def test_a_filter_that_is_not_known_is_refused(world: Any) -> None:
    await create(world, creation())
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        for code in (0, 99):
            asked = ANY | {field: code}
            response = await world.ask(DescribeAclsRequest(**asked), 3)
            assert (response.error_code, response.resources) == (ErrorCode.INVALID_REQUEST, [])
            filters = [DeleteAclsFilter(**asked), DeleteAclsFilter(**ANY | {"principal_filter": "User:bob"})]
            deleted = await world.ask(DeleteAclsRequest(filters=filters), 3)
            codes = [each.error_code for each in deleted.filter_results]
            assert codes == [ErrorCode.INVALID_REQUEST, 0]
    assert await described(world) == [ALICE]


async def test_an_authorizer_that_keeps_no_acls_refuses_their_requests(start_world: Any) -> None:
    world = await start_world(**{"authorizer.class.name": "tests.security.operator_authorizers:NoTopics"})
    assert [code for code, _ in await create(world, creation())] == [ErrorCode.SECURITY_DISABLED]
    response = await world.ask(DescribeAclsRequest(**ANY), 3)
    assert response.error_code == ErrorCode.SECURITY_DISABLED
