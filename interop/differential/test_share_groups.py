"""Share groups (KIP-932) on both brokers.

Heartbeats and their errors, sessions, acquired records and acknowledgements are compared.
"""

from __future__ import annotations

from typing import Any

import pytest

from interop.differential.brokers import Broker, Pair
from interop.differential.groups import find_coordinator
from interop.support.waiting import wait_until
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kafkapy.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kafkapy.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kafkapy.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.handlers.produce_client import batch

pytestmark = pytest.mark.jvm

GROUP = 32
ACCEPT, RELEASE, REJECT = 1, 2, 3


def beat(group: str, member: str, epoch: int, *topics: str, **fields: Any) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        subscribed_topic_names=list(topics) or None,
        **fields,
    )


def test_heartbeats_that_are_refused(pair: Pair) -> None:
    def scenario(broker: Broker) -> None:
        find_coordinator(broker)
        group, topic = broker.name_of("group"), broker.topic()
        client = broker.connect()
        for label, request in {
            "no member id": beat(group, "", 0, topic),
            "a long member id": beat(group, "m" * 37, 0, topic),
            "no topics": beat(group, "m", 0),
            "an epoch below -1": beat(group, "m", -2, topic),
            "no group": beat("", "m", 0, topic),
            "an empty rack": beat(group, "m", 0, topic, rack_id=""),
            "an unknown group": beat(group, "m", 3),
            "leaves an unknown group": beat(group, "m", -1),
        }.items():
            client.ask(label, request, 1)
        client.ask("joins", beat(group, "m", 0, topic), 1)
        client.ask("unknown member", beat(group, "x", 3), 1)
        client.ask("an epoch ahead", beat(group, "m", 99), 1)
        client.ask("leaves", beat(group, "m", -1), 1)
        client.ask("leaves again", beat(group, "m", -1), 1)
        for each in (group, "none", ""):  # Kafka answers several in an order of its own
            client.ask(f"describe {each}", ShareGroupDescribeRequest(group_ids=[each]), 1)
        client.ask("list", ListGroupsRequest(types_filter=["share"]), 5)

    pair.compare(scenario)


def test_records_are_acquired_and_acknowledged(pair: Pair) -> None:
    def scenario(broker: Broker) -> None:
        find_coordinator(broker)
        group, topic = broker.name_of("group"), broker.topic()
        topic_id = broker.topic_id(topic)
        client = broker.connect()
        configs = [AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")]
        resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=configs)
        client.quietly(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        epoch = client.quietly(beat(group, "m", 0, topic), 1).member_epoch

        def assigned() -> bool:
            nonlocal epoch
            answer = client.quietly(beat(group, "m", epoch), 1)
            epoch = answer.member_epoch
            return answer.assignment is not None and bool(answer.assignment.topic_partitions)

        wait_until(assigned)
        for start in (0, 4):
            data = PartitionProduceData(index=0, records=batch(*[b"%d" % (start + n) for n in range(4)]))
            topics = [TopicProduceData(name=topic, partition_data=[data])]
            client.quietly(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics), 9)

        session = 0

        def fetch(label: str, **fields: Any) -> None:
            nonlocal session
            given = {"max_wait_ms": 2000, "min_bytes": 1, "max_records": 100, "batch_size": 100, **fields}
            request = ShareFetchRequest(
                group_id=group,
                member_id="m",
                share_session_epoch=session,
                topics=[FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition_index=0)])],
                **given,
            )
            answer = client.ask(label, request, 2)
            session += not answer.error_code

        def say(label: str, first: int, last: int, *types: int, partition: int = 0) -> None:
            nonlocal session
            said = AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
            data = AcknowledgePartition(partition_index=partition, acknowledgement_batches=[said])
            request = ShareAcknowledgeRequest(
                group_id=group,
                member_id="m",
                share_session_epoch=session,
                topics=[AcknowledgeTopic(topic_id=topic_id, partitions=[data])],
            )
            answer = client.ask(label, request, 2)
            session += not answer.error_code

        say("no session", 0, 0, ACCEPT)
        fetch("first")
        say("part", 0, 2, ACCEPT, RELEASE, REJECT)
        say("not acquired any more", 0, 2, ACCEPT)
        say("beyond", 7, 9, ACCEPT)
        say("far beyond", 70, 90, ACCEPT)
        say("backwards", 5, 4, ACCEPT)
        say("no types", 3, 4)
        say("too few types", 3, 5, ACCEPT, ACCEPT)
        say("a wrong type", 3, 3, 7)
        say("a renewal without notice", 3, 3, 4)
        say("no such partition", 3, 3, ACCEPT, partition=9)
        fetch("released")
        say("the rest", 1, 7, RELEASE, RELEASE, RELEASE, RELEASE, RELEASE, ACCEPT, ACCEPT)
        say("without the second", 3, 5, RELEASE)
        say("the first", 1, 1, RELEASE)
        fetch("in parts")
        fetch("a strict limit", max_records=1, share_acquire_mode=1)
        session += 5
        fetch("a wrong epoch")

    pair.compare(scenario)
