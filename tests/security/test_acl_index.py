"""What ACLs allow, by the rules as they are written down."""

from __future__ import annotations

import random
import time

import pytest

from kafkapy.security.acls.index import AclIndex
from kafkapy.security.acls.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from kafkapy.security.acls.standard_authorizer import StandardAuthorizer
from tests.security.random_acls import World, by_pattern, covers

WORLDS = 100
QUESTIONS = 50


def authorizer(world: World) -> StandardAuthorizer:
    made = StandardAuthorizer()
    made.configure(
        {
            "super.users": ";".join(world.super_users),
            "allow.everyone.if.no.acl.found": str(world.allow_if_none).lower(),
        }
    )
    for pattern, acls in by_pattern(world.acls).items():
        made._index.put(pattern, acls)
    return made


@pytest.mark.parametrize("seed", range(WORLDS))
def test_decisions_follow_the_rules(seed: int) -> None:
    world = World(seed)
    asked = authorizer(world)
    for _ in range(QUESTIONS):
        question = world.question()
        assert asked.authorize(*question) == world.expected(question), question
        principal, host, operation, kind, _ = question
        found = asked.authorize_by_resource_type(principal, host, operation, kind)
        assert found == world.expected_on_some(question), question


def test_the_decisions_of_all_worlds_are_of_both_kinds() -> None:
    answers = [world.expected(world.question()) for world in map(World, range(WORLDS)) for _ in range(20)]
    on_some = [world.expected_on_some(world.question()) for world in map(World, range(WORLDS))]
    assert 0.2 < sum(answers) / len(answers) < 0.8
    assert 0.2 < sum(on_some) / len(on_some) < 0.8


@pytest.mark.parametrize("seed", range(20))
def test_an_index_that_has_changed_decides_as_a_new_one(seed: int) -> None:
    world, rng = World(seed), random.Random(seed)
    patterns = by_pattern(world.acls)
    index = AclIndex()
    for _ in range(3):
        for pattern in rng.sample(list(patterns), len(patterns)):
            index.put(pattern, rng.sample(patterns[pattern], rng.randint(0, len(patterns[pattern]))))
    for pattern, acls in patterns.items():
        index.put(pattern, acls)
    fresh = AclIndex()
    for pattern, acls in patterns.items():
        fresh.put(pattern, acls)
    assert vars(index)["_lengths"] == vars(fresh)["_lengths"]
    for _ in range(100):
        principal, host, operation, kind, name = world.question()
        assert index.allowed(principal, host, kind, name) == fresh.allowed(principal, host, kind, name)
        asked = principal, host, operation, kind
        assert index.allowed_on_some(*asked) == fresh.allowed_on_some(*asked)


def test_an_index_forgets_what_is_deleted() -> None:
    world = World(8)
    index, empty = AclIndex(), AclIndex()
    for pattern, acls in by_pattern(world.acls).items():
        index.put(pattern, acls)
    for pattern in by_pattern(world.acls):
        index.put(pattern, ())
    assert vars(index) | {"_counts": None} == vars(empty) | {"_counts": None}


def test_a_deny_that_is_left_alone_still_denies() -> None:
    """Apache Kafka 3.5 forgot it when another ACL was deleted (CVE-2024-27309)."""
    index = AclIndex(allow_if_none=True)
    pattern = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "orders")
    allow = Acl(pattern, "User:bob", "*", Operation.READ, Permission.ALLOW)
    deny = Acl(pattern, "User:alice", "*", Operation.READ, Permission.DENY)
    index.put(pattern, [allow, deny])
    index.put(pattern, [deny])
    assert not index.allowed("User:alice", "h", ResourceType.TOPIC, "orders") >> Operation.READ & 1


@pytest.mark.parametrize("seed", range(30))
def test_a_filter_that_matches_a_name_finds_what_covers_it(seed: int) -> None:
    world = World(seed)
    for name in ("abc", "orders.eu", "*"):
        for kind in world.kinds:
            found = AclFilter(kind, PatternType.MATCH, name)
            assert [acl for acl in world.acls if found.matches(acl)] == [
                acl for acl in world.acls if covers(acl.pattern, kind, name)
            ]


def test_ten_thousand_acls_make_no_decision_slow() -> None:
    """A walk over all ACLs would take a thousand times as long as one over ten."""

    def seconds(number: int) -> float:
        index = AclIndex()
        for each in range(number):
            kind = PatternType.PREFIXED if each % 3 == 0 else PatternType.LITERAL
            pattern = ResourcePattern(ResourceType.TOPIC, kind, f"team{each % 300:03}.app{each:05}")
            index.put(pattern, [Acl(pattern, f"User:{each % 100}", "*", Operation.READ, Permission.ALLOW)])
        start = time.thread_time()
        for each in range(2_000):
            index.allowed(
                f"User:{each % 100}", "10.0.0.1", ResourceType.TOPIC, f"team{each % 300:03}.app{each:05}"
            )
        return time.thread_time() - start

    assert seconds(10_000) < 5 * min(seconds(10) for _ in range(3))
