"""Random ACLs, and what a reader of Kafka's documentation would decide by them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from kafkapy.security.acls.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

KINDS = [each for each in ResourceType if each > ResourceType.ANY]
OPERATIONS = [each for each in Operation if each > Operation.ALL]
PRINCIPALS = ["User:alice", "User:bob", "User:carol", "User:*", "Group:alice", "User:CN=x,O=y:z"]
HOSTS = ["*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1"]
NAMES = [
    "*",
    "a",
    "ab",
    "abc",
    "abcd",
    "abd",
    "b",
    "ba",
    "orders",
    "orders.eu",
    "orders.eu.1",
    "kafka-cluster",
]

IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


class Question(NamedTuple):
    principal: str
    host: str
    operation: Operation
    kind: ResourceType
    name: str


class World:
    """ACLs that share names, principals and hosts, so that they often contradict each other."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.allow_if_none = rng.random() < 0.3
        self.super_users = rng.choice([[], [], ["User:carol"], ["User:alice", "Group:alice"]])
        kinds = rng.sample(KINDS, rng.randint(1, 3))
        self.kinds = kinds
        denials = rng.choice([0.0, 0.1, 0.4])
        size = rng.choice([0, 1, 3, 10, 40, 150])
        self.names = [*NAMES, *("".join(rng.choices("ab.", k=rng.randint(1, 6))) for _ in range(20))]
        acls: dict[Acl, None] = {}
        for _ in range(size):
            pattern_type = rng.choice([PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED])
            acl = Acl(
                ResourcePattern(rng.choice(kinds), pattern_type, rng.choice(self.names)),
                rng.choice(PRINCIPALS),
                rng.choice(HOSTS),
                rng.choice([Operation.ALL, *OPERATIONS]),
                Permission.DENY if rng.random() < denials else Permission.ALLOW,
            )
            acls[acl] = None
        self.acls = list(acls)

    def question(self) -> Question:
        rng = self.rng
        return Question(
            rng.choice([each for each in PRINCIPALS if each != "User:*"]),
            rng.choice(HOSTS[1:]),
            rng.choice(OPERATIONS),
            rng.choice(self.kinds if rng.random() < 0.9 else KINDS),
            rng.choice([*self.names[1:], "orders.us", "abcde", "zz"]),
        )

    def filter(self) -> AclFilter:
        rng = self.rng
        return AclFilter(
            rng.choice([ResourceType.ANY, *self.kinds]),
            rng.choice([PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED]),
            rng.choice([None, None, *self.names]),
            rng.choice([None, None, *PRINCIPALS]),
            rng.choice([None, None, *HOSTS]),
            rng.choice([Operation.ANY, Operation.ANY, Operation.ALL, *OPERATIONS]),
            rng.choice([Permission.ANY, Permission.ANY, Permission.ALLOW, Permission.DENY]),
        )

    def expected(self, question: Question) -> bool:
        """Whether the question is to be answered with yes, by the rules as they are written down."""
        if question.principal in self.super_users:
            return True
        covering = [acl for acl in self.acls if covers(acl.pattern, question.kind, question.name)]
        if not covering:
            return self.allow_if_none
        mine = [acl for acl in covering if is_for(acl, question)]
        if any(acl.permission is Permission.DENY and _is_same(acl, question.operation) for acl in mine):
            return False
        return any(
            acl.permission is Permission.ALLOW
            and (_is_same(acl, question.operation) or acl.operation in IMPLIED.get(question.operation, ()))
            for acl in mine
        )

    def expected_on_some(self, question: Question) -> bool:
        """Whether the operation is allowed on some resource of the type: authorizeByResourceType."""
        if self.expected(question._replace(name="hardcode")):
            return True
        mine = [
            acl
            for acl in self.acls
            if acl.pattern.resource_type is question.kind
            and is_for(acl, question)
            and _is_same(acl, question.operation)
        ]
        denied = {acl.pattern for acl in mine if acl.permission is Permission.DENY}
        everything = ResourcePattern(question.kind, PatternType.LITERAL, "*")
        if everything in denied:
            return False
        allowed = {acl.pattern for acl in mine if acl.permission is Permission.ALLOW}
        return everything in allowed or any(not _is_dominated(each, denied) for each in allowed)


def covers(pattern: ResourcePattern, kind: ResourceType, name: str) -> bool:
    if pattern.resource_type is not kind:
        return False
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in ("*", name)


def is_for(acl: Acl, question: Question) -> bool:
    return acl.principal in ("User:*", question.principal) and acl.host in ("*", question.host)


def by_pattern(acls: Sequence[Acl]) -> dict[ResourcePattern, list[Acl]]:
    found: dict[ResourcePattern, list[Acl]] = {}
    for acl in acls:
        found.setdefault(acl.pattern, []).append(acl)
    return found


def _is_same(acl: Acl, operation: Operation) -> bool:
    return acl.operation in (Operation.ALL, operation)


def _is_dominated(pattern: ResourcePattern, denied: set[ResourcePattern]) -> bool:
    return pattern in denied or any(
        each.pattern_type is PatternType.PREFIXED and pattern.name.startswith(each.name) for each in denied
    )
