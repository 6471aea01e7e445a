"""ACLs: what they say, and filters that find them.

An ACL (access control list entry) allows or denies one operation on the resources of a pattern, to one
principal from one host:

    literal     the resource of exactly this name; the name "*" means all resources of the type
    prefixed    the resources whose names begin with this one

The principal "User:*" and the host "*" mean any. Source: Kafka's ResourceType, PatternType, AclOperation,
AclPermissionType, AclBinding, AclBindingFilter, AclEntry.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from kafkapy.protocol.errors import ErrorCode

WILDCARD: Final = "*"
"""The name of all resources, and the host that means any."""

ANY_PRINCIPAL: Final = "User:*"

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class _Constant(IntEnum):
    """A number of the protocol.

    Every decision looks some up, and the hash of an enum is slow.
    """

    __hash__ = int.__hash__


class ResourceType(_Constant):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Constant):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    """In a filter: any pattern that covers the name."""
    LITERAL = 3
    PREFIXED = 4


class Operation(_Constant):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Constant):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


def bits(*operations: Operation) -> int:
    """A bit field with these operations."""
    return sum(1 << operation for operation in operations)


ALL_OPERATIONS: Final = bits(*(operation for operation in Operation if operation > Operation.ALL))

_IMPLY_DESCRIBE: Final = bits(Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)


def with_implied(allowed: int) -> int:
    """The operations that ACLs for the operations in `allowed` allow."""
    if allowed & _IMPLY_DESCRIBE:
        allowed |= 1 << Operation.DESCRIBE
    if allowed >> Operation.ALTER_CONFIGS & 1:
        allowed |= 1 << Operation.DESCRIBE_CONFIGS
    return allowed


OPERATIONS: Final = {
    ResourceType.TOPIC: bits(
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: bits(
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: bits(
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that exist for a resource, by the types of which describe requests tell them (KIP-430)."""

REFUSALS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error for a client that may not do what it asked of a resource, by its type."""

REFUSAL_TEXTS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
}
"""The texts of Kafka's Errors: they name nothing that the client may not know."""


class ResourcePattern(NamedTuple):
    resource_type: ResourceType
    pattern_type: PatternType
    name: str


class Acl(NamedTuple):
    pattern: ResourcePattern
    principal: str
    host: str
    operation: Operation
    permission: Permission


class AclFilter(NamedTuple):
    """Finds ACLs; a text of None means any."""

    resource_type: ResourceType = ResourceType.ANY
    pattern_type: PatternType = PatternType.ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether the filter finds this ACL."""
        return self.matches_pattern(acl.pattern) and self.matches_entry(acl)

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        """Whether the filter finds ACLs of this pattern."""
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == pattern.name
        if pattern.pattern_type is PatternType.LITERAL:
            return pattern.name in (self.name, WILDCARD)
        return self.name.startswith(pattern.name)

    @property
    def is_of_one_pattern(self) -> bool:
        """Whether it finds the ACLs of one pattern only."""
        return (
            self.resource_type > ResourceType.ANY
            and self.pattern_type > PatternType.MATCH
            and self.name is not None
        )

    def matches_entry(self, acl: Acl) -> bool:
        """Whether the filter finds this ACL, if it finds those of its pattern."""
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )
