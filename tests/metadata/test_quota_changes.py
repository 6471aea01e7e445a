"""The contents of the nodes of users and clients know what has changed since others."""

from __future__ import annotations

import random

import pytest

from kafkapy.metadata.quotas import ClientQuotas, quota_entity

ENTITIES = [quota_entity({kind: f"{number}"}) for kind in ("user", "client-id") for number in range(5)]


def differing(one: ClientQuotas, other: ClientQuotas) -> set[object]:
    return {each for each in ENTITIES if one.configs.get(each) is not other.configs.get(each)}


@pytest.mark.parametrize("seed", range(20))
def test_all_that_differ_are_named_and_each_once(seed: int) -> None:
    chance = random.Random(seed)
    known = [ClientQuotas()]
    for number in range(150):
        base = known[-1] if chance.random() < 0.8 else chance.choice(known)
        some = chance.sample(ENTITIES, chance.choice([1, 1, 3]))
        changes = {each: None if chance.random() < 0.3 else {"a": str(number)} for each in some}
        known.append(base.with_changes(changes))
    for _ in range(300):
        one, other = chance.choice(known), chance.choice(known)
        named = list(one.changed_since(other))
        assert len(named) == len(set(named))
        assert differing(one, other) <= set(named)


def test_one_change_names_one_entity() -> None:
    before = ClientQuotas().with_changes({each: {} for each in ENTITIES})
    after = before.with_changes({ENTITIES[3]: {"a": "1"}})
    assert set(after.changed_since(before)) == {ENTITIES[3]}
