"""Elections, quotas, access control and credentials are answered as by Kafka's one node."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkapy import handlers
from kafkapy.controller.topic_plans import NewTopic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkapy.protocol.messages.describe_acls import DescribeAclsRequest
from kafkapy.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kafkapy.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from kafkapy.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkapy.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kafkapy.protocol.types import ApiKey
from tests.handlers.admin_world import AdminWorld

EXACT, DEFAULT, ANY = 0, 1, 2
PREFERRED, UNCLEAN = 0, 1
RATE = "consumer_byte_rate"


def versions(key: ApiKey) -> list[int]:
    api = handlers.BY_KEY[key]
    return list(range(api.min_version, api.max_version + 1))


@pytest.fixture
async def world(start_world: Any) -> Any:
    """A world with a topic `t` of two partitions."""
    world = await start_world()
    await world.admin.topics.create_topics([NewTopic("t", 2)])
    return world


# --- UpdateFeatures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.UPDATE_FEATURES))
async def test_a_feature_may_be_set_to_the_level_that_it_has(world: AdminWorld, version: int) -> None:
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="group.version", max_version_level=1)]
    )
    answer = await world.ask(request, version)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    named = [(each.feature, each.error_code, each.error_message) for each in answer.results]
    assert named == ([("group.version", ErrorCode.NONE, "NONE")] if version < 2 else [])


@pytest.mark.parametrize(
    ("feature", "level", "upgrade_type", "why"),
    [
        ("nope", 1, 1, "Local controller 1 does not support this feature."),
        ("group.version", 0, 1, "Can't downgrade the version of this feature without setting the upgrade"),
        ("group.version", 2, 1, "Local controller 1 only supports versions 0-1"),
        ("group.version", -1, 1, "A feature version cannot be less than 0."),
        ("group.version", 1, 0, "The controller does not support the given upgrade type."),
        ("metadata.version", 29, 2, "Refusing to perform the requested downgrade"),
        ("metadata.version", 99, 1, "Local controller 1 only supports versions 7-30"),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
async def test_wrong_levels_of_features_are_refused(
    world: AdminWorld, version: int, feature: str, level: int, upgrade_type: int, why: str
) -> None:
    good = FeatureUpdateKey(feature="share.version", max_version_level=1)
    wrong = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=upgrade_type)
    request = UpdateFeaturesRequest(feature_updates=[good, wrong], validate_only=True)
    answer = await world.ask(request, version)
    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert why in answer.error_message


async def test_a_feature_is_not_switched_off(world: AdminWorld) -> None:
    off = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=3)
    for validate_only, error in ((True, ErrorCode.NONE), (False, ErrorCode.INVALID_UPDATE_VERSION)):
        request = UpdateFeaturesRequest(feature_updates=[off], validate_only=validate_only)
        assert (await world.ask(request, 2)).error_code == error


# --- ElectLeaders ----------------------------------------------------------------------------------------


async def elect(
    world: AdminWorld, topics: dict[str, list[int]] | None, version: int = 2, **fields: int
) -> tuple[int, dict[str, list[tuple[int, int]]]]:
    partitions = None
    if topics is not None:
        partitions = [TopicPartitions(topic=name, partitions=numbers) for name, numbers in topics.items()]
    response = await world.ask(ElectLeadersRequest(topic_partitions=partitions, **fields), version)
    results = {
        each.topic: [(one.partition_id, one.error_code) for one in each.partition_result]
        for each in response.replica_election_results
    }
    return response.error_code, results


async def test_a_long_name_is_not_repeated_for_each_partition(world: Any) -> None:
    wanted = [TopicPartitions(topic="x" * 32_767, partitions=list(range(3)))]
    response = await world.ask(ElectLeadersRequest(topic_partitions=wanted), 2)
    (topic,) = response.replica_election_results
    assert [len(each.error_message) < 300 for each in topic.partition_result] == [True] * 3


@pytest.mark.parametrize("version", versions(ApiKey.ELECT_LEADERS))
async def test_partitions_that_are_led_need_no_election(world: Any, version: int) -> None:
    assert await elect(world, {"t": [0, 1, 2, -1], "absent": [0]}, version) == (
        ErrorCode.NONE,
        {
            "t": [
                (0, ErrorCode.ELECTION_NOT_NEEDED),
                (1, ErrorCode.ELECTION_NOT_NEEDED),
                (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ],
            "absent": [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
        },
    )
    assert await elect(world, None, version) == (ErrorCode.NONE, {"t": []})


@pytest.mark.parametrize(
    ("election", "error"),
    [
        (PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
async def test_a_partition_whose_disk_failed_has_nobody_to_elect(
    world: Any, election: int, error: ErrorCode
) -> None:
    world.replicas.offline = {("t", 1)}
    wanted = {"t": [(1, error)]}
    assert await elect(world, {"t": [1]}, election_type=election) == (ErrorCode.NONE, wanted)
    assert await elect(world, None, election_type=election) == (ErrorCode.NONE, wanted)


async def test_an_election_of_no_kind_is_refused(world: Any) -> None:
    assert await elect(world, {"t": [0]}, election_type=2) == (
        ErrorCode.INVALID_REQUEST,
        {"t": [(0, ErrorCode.INVALID_REQUEST)]},
    )


async def test_an_election_of_all_partitions_lets_others_be_served_meanwhile(world: Any) -> None:
    world.turns.seconds = 0
    await world.admin.topics.create_topics([NewTopic(f"many-{n}", 50) for n in range(10)])
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    being_served = asyncio.create_task(others())
    await asyncio.sleep(0)
    before = turns
    code, results = await elect(world, None)
    being_served.cancel()
    assert (code, len(results)) == (ErrorCode.NONE, 11)
    assert turns - before >= 500


# --- quotas ----------------------------------------------------------------------------------------------


async def set_quota(world: AdminWorld, value: float | None, version: int = 1, **names: str | None) -> Any:
    entity = [
        EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in names.items()
    ]
    change = OpData(key=RATE, value=value or 0.0, remove=value is None)
    entry = AlterClientQuotasRequestEntryData(entity=entity, ops=[change])
    (answer,) = (await world.ask(AlterClientQuotasRequest(entries=[entry]), version)).entries
    assert [(each.entity_type, each.entity_name) for each in answer.entity] == [
        (each.entity_type, each.entity_name) for each in entity
    ]
    return answer.error_code, answer.error_message


async def described(
    world: AdminWorld, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> Any:
    filters = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    request = DescribeClientQuotasRequest(components=filters, strict=strict)
    response = await world.ask(request, version)
    if response.error_code:
        assert response.entries is None
        return response.error_code
    return [
        (
            {each.entity_type: each.entity_name for each in entry.entity},
            {v.key: v.value for v in entry.values},
        )
        for entry in response.entries
    ]


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_CLIENT_QUOTAS))
async def test_quotas_are_set_shown_and_removed(world: Any, version: int) -> None:
    assert await set_quota(world, 5.0, version, user="a") == (ErrorCode.NONE, None)
    assert await described(world, ("user", EXACT, "a"), version=version) == [({"user": "a"}, {RATE: 5.0})]
    assert await set_quota(world, -1.0, version, user="a") == (
        ErrorCode.INVALID_REQUEST,
        f"Quota {RATE} must be greater than 0",
    )
    assert await set_quota(world, None, version, user="a") == (ErrorCode.NONE, None)
    assert await described(world, version=version) == []


async def test_quotas_are_found_by_what_they_are_for(world: Any) -> None:
    await set_quota(world, 1.0, user="a")
    await set_quota(world, 2.0, user=None)
    await set_quota(world, 3.0, user="a", client_id="c")
    await set_quota(world, 4.0, client_id=None)

    async def values(*components: tuple[str, int, str | None], strict: bool = False) -> set[float]:
        return {found[RATE] for _, found in await described(world, *components, strict=strict)}

    assert await values() == {1, 2, 3, 4}
    assert await values(("user", ANY, None)) == {1, 2, 3}
    assert await values(("user", ANY, None), strict=True) == {1, 2}
    assert await values(("user", EXACT, "a")) == {1, 3}
    assert await values(("user", DEFAULT, None)) == {2}
    assert await values(("user", EXACT, "a"), ("client-id", ANY, None)) == {3}
    assert await values(("client-id", DEFAULT, None)) == {4}
    assert await values(("user", EXACT, "nobody")) == set()


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("host", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
async def test_filters_that_mean_nothing_are_refused(
    world: Any, components: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    assert await described(world, *components) == error


# --- access control and credentials ------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_ACLS))
async def test_access_control_is_off(world: Any, version: int) -> None:
    response = await world.ask(DescribeAclsRequest(), version)
    assert (response.error_code, response.resources) == (ErrorCode.SECURITY_DISABLED, [])
    assert response.error_message
    created = await world.ask(CreateAclsRequest(creations=[AclCreation()] * 2), version)
    assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    deleted = await world.ask(DeleteAclsRequest(filters=[DeleteAclsFilter()] * 2), version)
    assert [each.error_code for each in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED] * 2


@pytest.mark.parametrize(
    ("users", "answers"),
    [
        (None, []),
        (["a", "b"], [("a", ErrorCode.RESOURCE_NOT_FOUND), ("b", ErrorCode.RESOURCE_NOT_FOUND)]),
        (["a", "a"], [("a", ErrorCode.DUPLICATE_RESOURCE)]),
    ],
)
async def test_no_user_has_credentials(
    world: Any, users: list[str] | None, answers: list[tuple[str, int]]
) -> None:
    names = None if users is None else [UserName(name=user) for user in users]
    response = await world.ask(DescribeUserScramCredentialsRequest(users=names), 0)
    assert [(each.user, each.error_code) for each in response.results] == answers
