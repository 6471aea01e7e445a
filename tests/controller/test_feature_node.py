"""A new controller says in /feature whether features are versioned, as Apache Kafka's does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkapy.controller.feature_node import feature_change
from kafkapy.metadata.store import Create, Node, NodeStat, SetData
from tests.controller.brokers_world import World

ENABLED = {"version": 2, "status": 1, "features": {}}
DISABLED = {"version": 1, "status": 0, "features": {}}


def node(content: Any) -> Node:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Node(data, NodeStat(4, 0, 0))


@pytest.mark.parametrize(
    ("release", "content"),
    [
        ("3.9-IV0", ENABLED),
        ("3.3", ENABLED),
        ("3.2-IV0", {**ENABLED, "version": 1}),
        ("2.7-IV2", {**ENABLED, "version": 1}),
        ("2.6-IV0", DISABLED),
        ("0.10.2-IV0", DISABLED),
    ],
)
def test_a_missing_node_is_made_for_the_release_of_the_cluster(release: str, content: Any) -> None:
    change = feature_change(None, release)
    assert isinstance(change, Create)
    assert (change.path, json.loads(change.data)) == ("/feature", content)
    assert feature_change(node(change.data), release) is None


@pytest.mark.parametrize(
    ("before", "release", "after"),
    [
        (DISABLED, "3.9", ENABLED),
        (ENABLED, "2.6", DISABLED),
        (
            {"version": 1, "status": 1, "features": {"f": {"min_version_level": 1, "max_version_level": 3}}},
            "3.9",
            {"version": 2, "status": 1, "features": {"f": {"max_version_level": 3}}},
        ),
        (
            {"version": 2, "status": 1, "features": {"f": {"max_version_level": 3}}},
            "2.8",
            {"version": 1, "status": 1, "features": {"f": {"max_version_level": 3, "min_version_level": 3}}},
        ),
        ({"version": 1, "status": 0, "features": {"f": {"max_version_level": 3}}}, "3.9", ENABLED),
        (b"nonsense", "3.9", ENABLED),
        (b'{"version":2,"status":1}', "3.9", ENABLED),
        (b"", "3.9", ENABLED),
    ],
)
def test_a_node_that_says_otherwise_is_changed(before: Any, release: str, after: Any) -> None:
    change = feature_change(node(before), release)
    assert isinstance(change, SetData)
    assert (change.path, change.version, json.loads(change.data)) == ("/feature", 4, after)


async def test_the_controller_of_a_cluster_makes_the_node_and_others_leave_it(world: World) -> None:
    one, _ = await world.start(1, 2)
    found = await one.store.get("/feature")
    assert (json.loads(found.data), found.stat.version) == (ENABLED, 0)
    await world.stop(1)
    await world.until(lambda: world.controller.id == 2)
    await world.settled()
    assert (await world.controller.store.get("/feature")).stat.version == 0
