"""What a client with some rights sees and may do, in the words of Apache Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkapy
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkapy.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.types import ZERO_UUID
from kafkapy.security.acls.model import CLUSTER_NAME, Operation, ResourceType, bits
from tests.handlers.group_client import commit
from tests.handlers.group_client import find_coordinator as find
from tests.handlers.produce_client import batch, create_topic
from tests.network.raw_client import RawClient
from tests.security.test_rights import ADMIN, MALLORY, SETTINGS, become, grant, revoke_all
from tests.security.token_client import create, describe, renew

T, G, X = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafkapy.Broker]:
    settings = {**SETTINGS, "auto.create.topics.enable": True, "group.consumer.heartbeat.interval.ms": 5_000}
    with kafkapy.Broker(data_dir=tmp_path_factory.mktemp("broker"), config=settings) as broker:
        with RawClient(broker.bootstrap_servers) as admin:
            become(broker, admin, ADMIN)
            find(admin, "any")
        yield broker


@pytest.fixture
def admin(broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        become(broker, client, ADMIN)
        yield client
        revoke_all(client)


@pytest.fixture
def mallory(broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        become(broker, client, MALLORY)
        yield client


def fetch(topic_id: bytes, **fields: Any) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    topic = FetchTopic(topic_id=topic_id, partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1_000_000, topics=[topic])
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def write(topic: str, records: bytes, **fields: Any) -> ProduceRequest:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data], **fields)


def only(response: Any) -> Any:
    """The answer about the one partition."""
    (topic,) = response.responses
    (partition,) = topic.partitions if hasattr(topic, "partitions") else topic.partition_responses
    return partition


def test_a_client_cannot_pass_for_a_follower(admin: RawClient, mallory: RawClient) -> None:
    """READ does not make it one (CVE-2018-1288)."""
    topic_id = create_topic(admin, "followed")
    grant(admin, T, "followed", Operation.READ)
    assert only(mallory.ask(fetch(topic_id), 17)).error_code == 0
    follower = fetch(topic_id, replica_state=ReplicaState(replica_id=2))
    assert only(mallory.ask(follower, 17)).error_code == DENIED
    grant(admin, ResourceType.CLUSTER, CLUSTER_NAME, Operation.CLUSTER_ACTION)
    assert only(mallory.ask(follower, 17)).error_code != DENIED


def test_a_transaction_needs_its_id(admin: RawClient, mallory: RawClient) -> None:
    """No crafted Produce goes round the transactional id (CVE-2018-17196)."""
    create_topic(admin, "written")
    grant(admin, T, "written", Operation.WRITE)
    transactional = batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    for transactional_id in (None, "mine"):
        refused = mallory.ask(write("written", transactional, transactional_id=transactional_id), 9)
        assert only(refused).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    # An id without a transaction needs no right, in Apache Kafka neither.
    assert only(mallory.ask(write("written", batch(b"v"), transactional_id="mine"), 9)).error_code == 0
    grant(admin, X, "mine", Operation.WRITE)
    refused = mallory.ask(write("written", transactional, transactional_id="mine"), 9)
    assert only(refused).error_code not in (0, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def test_one_batch_of_a_transaction_refuses_the_whole_request(admin: RawClient, mallory: RawClient) -> None:
    for name in ("plain", "odd"):
        create_topic(admin, name)
        grant(admin, T, name, Operation.WRITE)
    request = write("plain", batch(b"v"), transactional_id="mine")
    transactional = batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    request.topic_data += write("odd", transactional).topic_data
    answers = [each.partition_responses[0].error_code for each in mallory.ask(request, 9).responses]
    assert answers == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2


def test_whoever_may_write_somewhere_may_have_a_producer_id(admin: RawClient, mallory: RawClient) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
    assert mallory.ask(request, 4).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    grant(admin, T, "anything", Operation.WRITE)
    assert mallory.ask(request, 4).error_code == 0


def test_metadata_shows_topics_that_one_may_describe_and_what_one_may_do(
    admin: RawClient, mallory: RawClient
) -> None:
    for name in ("shown", "hidden"):
        create_topic(admin, name)
    grant(admin, T, "shown", Operation.READ, Operation.ALTER_CONFIGS)
    request = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    (topic,) = mallory.ask(request, 12).topics
    assert topic.name == "shown"
    expected = bits(Operation.READ, Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
    assert topic.topic_authorized_operations == expected
    named = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("shown", "hidden", "none")])
    found = {each.name: (each.error_code, each.topic_id) for each in mallory.ask(named, 12).topics}
    assert found["hidden"] == found["none"] == (DENIED, ZERO_UUID)
    assert found["shown"][0] == 0


def test_the_operations_on_the_cluster_need_describe(admin: RawClient, mallory: RawClient) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    grant(admin, ResourceType.CLUSTER, CLUSTER_NAME, Operation.CREATE)
    assert mallory.ask(request, 1).cluster_authorized_operations == 0
    grant(admin, ResourceType.CLUSTER, CLUSTER_NAME, Operation.ALTER)
    expected = bits(Operation.CREATE, Operation.ALTER, Operation.DESCRIBE)
    assert mallory.ask(request, 1).cluster_authorized_operations == expected


def test_a_topic_is_made_on_demand_only_with_create(admin: RawClient, mallory: RawClient) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="demanded")], allow_auto_topic_creation=True)
    grant(admin, T, "demanded", Operation.WRITE)
    (topic,) = mallory.ask(request, 12).topics
    assert (topic.error_code, topic.topic_id) == (DENIED, ZERO_UUID)
    assert admin.ask(MetadataRequest(topics=None), 12).topics != []
    assert "demanded" not in {each.name for each in admin.ask(MetadataRequest(topics=None), 12).topics}
    grant(admin, T, "demanded", Operation.CREATE)
    (topic,) = mallory.ask(request, 12).topics
    assert topic.error_code == 0


def test_a_deletion_by_id_names_the_topic_only_to_who_may_describe_it(
    admin: RawClient, mallory: RawClient
) -> None:
    topic_id = create_topic(admin, "deleted")
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=10_000)
    (answer,) = mallory.ask(request, 6).responses
    assert (answer.error_code, answer.name) == (DENIED, None)
    grant(admin, T, "deleted", Operation.DESCRIBE)
    (answer,) = mallory.ask(request, 6).responses
    assert (answer.error_code, answer.name) == (DENIED, "deleted")
    grant(admin, T, "deleted", Operation.DELETE)
    (answer,) = mallory.ask(request, 6).responses
    assert (answer.error_code, answer.name) == (0, "deleted")


def test_a_new_topic_shows_its_settings_only_to_who_may_see_them(
    admin: RawClient, mallory: RawClient
) -> None:
    grant(admin, T, "made", Operation.CREATE)
    wanted = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("made", "other")]
    answers = mallory.ask(CreateTopicsRequest(topics=wanted, timeout_ms=10_000), 7).topics
    made, other = sorted(answers, key=lambda each: each.name)
    assert (made.error_code, made.topic_config_error_code, made.num_partitions) == (0, DENIED, -1)
    assert not made.configs
    assert (other.error_code, other.error_message) == (DENIED, "Authorization failed.")


def test_a_fetch_session_ends_with_its_right(admin: RawClient, mallory: RawClient) -> None:
    topic_id = create_topic(admin, "revoked")
    grant(admin, T, "revoked", Operation.READ)
    opened = mallory.ask(fetch(topic_id, session_epoch=0), 15)
    assert only(opened).error_code == 0
    revoke_all(admin)
    assert only(admin.ask(write("revoked", batch(b"secret")), 9)).error_code == 0
    again = fetch(topic_id, session_id=opened.session_id, session_epoch=1, topics=[])
    answer = only(mallory.ask(again, 15))
    assert (answer.error_code, bytes(answer.records or b"")) == (DENIED, b"")


def test_lists_leave_out_groups(admin: RawClient, mallory: RawClient) -> None:
    create_topic(admin, "of-groups")
    for group in ("mine", "theirs"):
        commit(admin, group, {("of-groups", 0): 0})
    grant(admin, G, "mine", Operation.READ)
    assert [each.group_id for each in mallory.ask(ListGroupsRequest(), 4).groups] == ["mine"]
    request = DescribeGroupsRequest(groups=["mine", "theirs"], include_authorized_operations=True)
    mine, theirs = mallory.ask(request, 5).groups
    assert mine.authorized_operations == bits(Operation.READ, Operation.DESCRIBE)
    assert theirs.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    grant(admin, ResourceType.CLUSTER, CLUSTER_NAME, Operation.DESCRIBE)
    assert {each.group_id for each in mallory.ask(ListGroupsRequest(), 4).groups} >= {"mine", "theirs"}


def heartbeat(client: RawClient, group: str, **fields: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="AAAAAAAAAAAAAAAAAAAAAA", rebalance_timeout_ms=10_000, topic_partitions=[]
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return client.ask(request, 1)


def test_a_member_may_subscribe_only_to_what_it_may_describe(admin: RawClient, mallory: RawClient) -> None:
    create_topic(admin, "subscribed")
    grant(admin, G, "members", Operation.READ)
    for name in ("subscribed", "missing"):
        refused = heartbeat(mallory, "members", member_epoch=0, subscribed_topic_names=[name])
        assert (refused.error_code, refused.error_message) == (DENIED, None)
    grant(admin, T, "subscribed", Operation.READ)
    joined = heartbeat(mallory, "members", member_epoch=0, subscribed_topic_names=["subscribed"])
    assert joined.error_code == 0


def test_a_regular_expression_matches_only_what_a_member_may_describe(
    admin: RawClient, mallory: RawClient
) -> None:
    visible = create_topic(admin, "regex-visible")
    create_topic(admin, "regex-hidden")
    grant(admin, G, "expressive", Operation.READ)
    grant(admin, T, "regex-visible", Operation.READ)
    answer = heartbeat(
        mallory, "expressive", member_epoch=0, subscribed_topic_names=None, subscribed_topic_regex="regex-.*"
    )
    assert answer.error_code == 0
    deadline = 200
    while answer.assignment is None or not answer.assignment.topic_partitions:
        deadline -= 1
        assert deadline, "the member gets no topic"
        answer = heartbeat(mallory, "expressive", member_epoch=answer.member_epoch)
        assert answer.error_code == 0
    assert [each.topic_id for each in answer.assignment.topic_partitions] == [visible]


def test_a_group_with_a_hidden_topic_is_not_described(admin: RawClient, mallory: RawClient) -> None:
    create_topic(admin, "assigned")
    answer = heartbeat(admin, "described", member_epoch=0, subscribed_topic_names=["assigned"])
    assert answer.error_code == 0
    grant(admin, G, "described", Operation.DESCRIBE)
    request = ConsumerGroupDescribeRequest(group_ids=["described"], include_authorized_operations=True)
    (group,) = mallory.ask(request, 1).groups
    assert (group.error_code, group.members) == (DENIED, [])
    assert "assigned" not in group.error_message
    grant(admin, T, "assigned", Operation.DESCRIBE)
    (group,) = mallory.ask(request, 1).groups
    assert group.error_code == 0
    assert len(group.members) == 1
    assert group.authorized_operations == bits(Operation.DESCRIBE)


def test_an_authorizer_that_fails_refuses(tmp_path: Path) -> None:
    settings = {**SETTINGS, "authorizer.class.name": "tests.security.operator_authorizers:Broken"}
    with (
        kafkapy.Broker(data_dir=tmp_path, config=settings) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        response = client.ask(ListGroupsRequest(), 4)
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


# --- delegation tokens ------------------------------------------------------------------------------------


def test_a_token_for_another_owner_needs_create_tokens(admin: RawClient, mallory: RawClient) -> None:
    assert create(mallory).error_code == ErrorCode.NONE
    refused = create(mallory, owner="carol")
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.token_id, refused.hmac, refused.expiry_timestamp_ms) == ("", b"", -1)
    grant(admin, ResourceType.USER, "User:carol", Operation.CREATE_TOKENS)
    token = create(mallory, owner="carol")
    assert (token.error_code, token.principal_name) == (ErrorCode.NONE, "carol")
    refused = create(mallory, owner="dave")
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


def test_tokens_of_others_are_shown_to_those_with_a_right(admin: RawClient, mallory: RawClient) -> None:
    first, second = create(admin, owner="erin"), create(admin, owner="frank")
    own = create(mallory)

    def shown() -> set[str]:
        return {each.token_id for each in describe(mallory).tokens} & {
            token.token_id for token in (first, second, own)
        }

    assert shown() == {own.token_id}
    grant(admin, ResourceType.DELEGATION_TOKEN, first.token_id, Operation.DESCRIBE)
    assert shown() == {own.token_id, first.token_id}
    grant(admin, ResourceType.USER, "User:frank", Operation.DESCRIBE_TOKENS)
    assert shown() == {own.token_id, first.token_id, second.token_id}
    assert renew(mallory, second.hmac).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
