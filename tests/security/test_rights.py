"""Every API: without rights it refuses and tells nothing, with its rights it works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import kafkapy
from kafkapy import handlers
from kafkapy.broker.core import BrokerCore
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.handlers import Api, refusals, rights
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.rights import RULES
from kafkapy.loop.turns import take_turn
from kafkapy.protocol.codec import encode
from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.types import ApiKey
from kafkapy.security.acls.loading import load_authorizer
from kafkapy.security.acls.model import (
    CLUSTER_NAME,
    REFUSALS,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.handlers.group_client import commit
from tests.handlers.group_client import find_coordinator as find
from tests.handlers.produce_client import create_topic
from tests.network.raw_client import RawClient
from tests.security.sample_requests import Names, codes, sample

ADMIN, ALICE, MALLORY = "User:admin", "User:alice", "User:mallory"

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": ADMIN,
    "durability": "os",
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": False,
    "delegation.token.secret.key": "secret",
    "metrics.port": 0,  # client telemetry is served while metrics are on
}

AUTHORIZATION = set(REFUSALS.values())

SILENT = {ApiKey.DESCRIBE_DELEGATION_TOKEN, ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS}
"""Their answers leave out what the client may not know."""

OPEN = {
    ApiKey.API_VERSIONS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.SASL_HANDSHAKE,
}
"""Everyone may ask these."""

CREATES = {ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS}
"""Each of their answers has a new id."""

EVERY_API = pytest.mark.parametrize("api", handlers.APIS, ids=lambda api: ApiKey(api.key).name)


def become(broker: kafkapy.Broker, client: RawClient, principal: str) -> None:
    """Let the broker take the client for this principal, as after a login."""

    async def change(core: BrokerCore) -> None:
        port = client.socket.getsockname()[1]
        (connection,) = [each for each in core.server.connections if each.peer_port == port]
        connection.principal = principal
        connection.listener = replace(connection.listener, protocol=SecurityProtocol.SASL_PLAINTEXT)

    find(client, "any")  # the broker has accepted it
    broker.call(change)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafkapy.Broker]:
    with kafkapy.Broker(data_dir=tmp_path_factory.mktemp("broker"), config=SETTINGS) as broker:
        with RawClient(broker.bootstrap_servers) as admin:
            become(broker, admin, ADMIN)
            find(admin, "any")
            find(admin, "any", key_type=1)
        yield broker


@pytest.fixture(scope="module")
def admin(broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        become(broker, client, ADMIN)
        yield client


@pytest.fixture
def mallory(broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        become(broker, client, MALLORY)
        yield client


def grant(admin: RawClient, kind: ResourceType, name: str, *operations: Operation) -> None:
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=PatternType.LITERAL,
                principal=MALLORY,
                host="127.0.0.1",
                operation=operation,
                permission_type=Permission.ALLOW,
            )
            for operation in operations
        ]
    )
    assert {each.error_code for each in admin.ask(request, 3).results} == {0}


def revoke_all(admin: RawClient) -> None:
    any_acl = DeleteAclsFilter(
        resource_type_filter=1,
        pattern_type_filter=1,
        operation=1,
        permission_type=1,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
    )
    admin.ask(DeleteAclsRequest(filters=[any_acl]), 3)


def make(admin: RawClient, number: str) -> tuple[Names, Names]:
    """Names of things that exist, and of the same length of things that do not."""
    made, absent = (
        Names(f"{kind}-topic-{number}", f"{kind}-group-{number}", f"{kind}-id-{number}") for kind in "xy"
    )
    made = made._replace(topic_id=create_topic(admin, made.topic))
    commit(admin, made.group, {(made.topic, 0): 0})
    admin.ask(InitProducerIdRequest(transactional_id=made.transactional_id, transaction_timeout_ms=1_000), 4)
    return made, absent._replace(topic_id=bytes(15) + b"\x63")


MORE_VERSIONS = {
    ApiKey.METADATA: (1, 10),
    ApiKey.OFFSET_COMMIT: (9,),
    ApiKey.OFFSET_FETCH: (2, 7, 9),
    ApiKey.FETCH: (3, 12),
    ApiKey.PRODUCE: (12,),
    ApiKey.FIND_COORDINATOR: (3, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (3,),
    ApiKey.DELETE_TOPICS: (5,),
    ApiKey.DESCRIBE_LOG_DIRS: (3,),
}
"""The versions that differ in what they name, or in how they refuse, beside the first and the last."""


def versions(api: Api) -> list[int]:
    return sorted({api.min_version, *MORE_VERSIONS.get(api.key, ()), api.max_version})


def variants(api: Api, version: int) -> Iterator[dict[str, Any]]:
    """What else a request may ask for."""
    yield {}
    if api.key == ApiKey.FIND_COORDINATOR and version >= 1:
        yield {"key_type": 1}
        if version >= 6:
            yield {"key_type": 2}
    if api.key == ApiKey.INIT_PRODUCER_ID:
        yield {"transactional_id": None}
    if api.key in (ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
        yield {"resource_type": 4, "resource_name": "1"}
        yield {"resource_type": 32}
    if api.key == ApiKey.FETCH and version < 15:
        yield {"replica_id": 2}
    if api.key == ApiKey.OFFSET_FETCH and version >= 2:
        yield {"topics": None}


def has_no_error(api: Api, version: int) -> bool:
    """Whether an answer cannot have one: it is empty."""
    return api.key == ApiKey.DESCRIBE_LOG_DIRS and version < 3


def needs_a_right(api: Api, version: int) -> bool:
    """Whether a client without rights is refused in this version."""
    rule = RULES[api.key]
    needs = [need for need in (*rule.gate, *rule.items) if need.first_version <= version <= need.last_version]
    return bool(needs) and api.key not in SILENT


def renamed(data: bytes, names: Names, others: Names) -> bytes:
    for old, new in zip(names[:3], others[:3], strict=True):
        data = data.replace(str(old).encode(), str(new).encode())
    return data


def test_the_table_has_every_api_and_no_other() -> None:
    assert list(RULES) == [api.key for api in handlers.IN_CLUSTER]


def test_each_api_that_anyone_may_ask_is_named_here() -> None:
    assert {key for key, rule in RULES.items() if rule == rights.Rule()} == OPEN


@EVERY_API
def test_without_rights_an_api_refuses_and_tells_nothing(
    admin: RawClient, mallory: RawClient, api: Api
) -> None:
    """What exists is answered as what does not: no name and no existence is told."""
    made, absent = make(admin, f"a{api.key}")
    expected = {need.error for need in (*RULES[api.key].gate, *RULES[api.key].items)}
    for version in versions(api):
        for variant in variants(api, version):
            answers = [
                mallory.ask(sample(api.key, version, each, **variant), version) for each in (made, absent)
            ]
            of_made, of_absent = (encode(answer, version) for answer in answers)
            creates_its_own = api.key in CREATES and not needs_a_right(api, version)
            by_id = made.topic_id in encode(sample(api.key, version, made, **variant), version)
            if not by_id and not creates_its_own:
                # That there is a topic of an id is no secret, nor is it in Apache Kafka.
                assert renamed(of_made, made, absent) == of_absent, (version, variant)
            if needs_a_right(api, version) and not has_no_error(api, version):
                assert codes(answers[0]) - {0} <= expected, (version, variant)
                assert codes(answers[0]) - {0}, (version, variant)


@EVERY_API
def test_without_rights_an_id_tells_no_name(admin: RawClient, mallory: RawClient, api: Api) -> None:
    made, _ = make(admin, f"b{api.key}")
    for version in versions(api):
        request = sample(api.key, version, made, by_id=True)
        answer = mallory.ask(request, version)
        if made.topic.encode() not in encode(request, version):
            assert made.topic.encode() not in encode(answer, version)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        (ApiKey.METADATA, {"topics": None}),
        (ApiKey.LIST_GROUPS, {}),
        (ApiKey.LIST_TRANSACTIONS, {}),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, {"topics": [], "cursor": None}),
        (ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}),
        (ApiKey.LIST_CONFIG_RESOURCES, {}),
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, {"topics": None}),
        (ApiKey.ELECT_LEADERS, {"topic_partitions": None}),
    ],
)
def test_without_rights_a_list_of_everything_is_empty(
    admin: RawClient, mallory: RawClient, key: ApiKey, values: dict[str, Any]
) -> None:
    made, _ = make(admin, f"c{key}")
    api = handlers.BY_KEY[key]
    for version in {max(api.min_version, key == ApiKey.METADATA), api.max_version}:
        request = sample(key, version, made, **values)
        shown = encode(mallory.ask(request, version), version)
        for name in made:
            wanted = name if isinstance(name, bytes) else name.encode()
            assert wanted not in shown or wanted in encode(request, version)


@EVERY_API
def test_with_its_rights_an_api_works(admin: RawClient, mallory: RawClient, api: Api) -> None:
    for version in versions(api):
        made, _ = make(admin, f"d{api.key}-{version}")
        names = {
            ResourceType.TOPIC: made.topic,
            ResourceType.GROUP: made.group,
            ResourceType.TRANSACTIONAL_ID: made.transactional_id,
            ResourceType.CLUSTER: CLUSTER_NAME,
            ResourceType.DELEGATION_TOKEN: "none",
            ResourceType.USER: f"User:{made.owner}",
        }
        rule = RULES[api.key]
        for need in (*rule.gate, *rule.items):
            if need.first_version <= version <= need.last_version:
                grant(admin, need.resource_type, names[need.resource_type], need.operation)
        for variant in variants(api, version):
            if "replica_id" in variant:
                continue  # a follower needs CLUSTER_ACTION, which no consumer needs
            if variant.get("key_type") == 2:
                variant["coordinator_keys"] = [f"{made.group}:AAAAAAAAAAAAAAAAAAAAAA:0"]
            elif variant.get("key_type") == 1:
                variant |= {"key": made.transactional_id, "coordinator_keys": [made.transactional_id]}
            elif variant.get("resource_type") == 32:
                variant["resource_name"] = made.group
            answer = mallory.ask(sample(api.key, version, made, **variant), version)
            assert not codes(answer) & AUTHORIZATION, (version, variant)
        revoke_all(admin)


BETWEEN_BROKERS = [api for api in handlers.IN_CLUSTER if RULES[api.key] == rights._BETWEEN_BROKERS]


@pytest.mark.parametrize("api", BETWEEN_BROKERS, ids=lambda api: ApiKey(api.key).name)
def test_requests_between_brokers_need_cluster_action(api: Api) -> None:
    """Also those that a broker alone does not serve."""
    authorizer = load_authorizer({**{name: str(text) for name, text in SETTINGS.items()}})

    class Stub:
        is_this_broker = False
        peer_host = "127.0.0.1"

        def __init__(self, principal: str) -> None:
            self.principal = principal
            self.authorizer = authorizer
            self.audit_log = SimpleNamespace(refused=lambda *_: None, logs_allowed=False)

    for version in range(api.min_version, api.max_version + 1):
        names = Names("t", "g", "i")
        request = sample(api.key, version, names)
        header = RequestHeader(api.key, version, 0, "c")
        context = RequestContext(Stub(""), Stub(MALLORY), api.key, version, 0, "c", header)  # type: ignore[arg-type]
        error = rights.refusal(context, request)
        assert error == REFUSALS[ResourceType.CLUSTER]
        end = take_turn(refusals.answer(context, request, error))
        assert end is not None
        assert codes(end[0]) - {0} == {error}
        encode(end[0], version)
        context.connection = Stub(ADMIN)  # type: ignore[assignment]
        assert rights.refusal(context, request) is None
