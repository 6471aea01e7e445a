"""The start offsets of share groups (KIP-932).

Operators describe, alter and delete them. Brokers ask share coordinators about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from interop.differential.brokers import Broker, Differs, Pair
from interop.differential.groups import find_coordinator
from interop.support.waiting import wait_until
from kafkapy.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from kafkapy.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kafkapy.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kafkapy.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kafkapy.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkapy.protocol.types import random_uuid

pytestmark = pytest.mark.jvm

NOWHERE = "nobody-made-this"


class Operator:
    """Somebody who asks for a share group's offsets and alters them."""

    def __init__(self, broker: Broker, group: str) -> None:
        self.broker, self.group = broker, group

    def describe(self, label: str, topic: str | None, *partitions: int, group: str | None = None) -> None:
        """Ask for partitions of a topic, or for all, in every version."""
        topics = None
        if topic is not None:
            topics = [DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=list(partitions))]
        name = self.group if group is None else group
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=topics)
        for version in self.broker.versions(DescribeShareGroupOffsetsRequest):
            request = DescribeShareGroupOffsetsRequest(groups=[wanted])
            self.broker.ask(f"{label}, described by v{version}", request, version)

    def altering(self, topic: str, *offsets: tuple[int, int]) -> AlterShareGroupOffsetsRequest:
        wanted = [
            AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
            for index, offset in offsets
        ]
        topics = [AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=wanted)] if topic else []
        return AlterShareGroupOffsetsRequest(group_id=self.group, topics=topics)

    def alter(self, label: str, topic: str, *offsets: tuple[int, int]) -> None:
        """Let partitions begin at offsets; no topic is named if `topic` is empty."""
        self.broker.ask(label, self.altering(topic, *offsets), 0)

    def delete(self, label: str, *topics: str) -> None:
        named = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
        self.broker.ask(label, DeleteShareGroupOffsetsRequest(group_id=self.group, topics=named), 0)

    def beat(self, label: str, epoch: int, *topics: str) -> None:
        self.broker.ask(
            label,
            ShareGroupHeartbeatRequest(
                group_id=self.group,
                member_id="m",
                member_epoch=epoch,
                subscribed_topic_names=list(topics) or None,
            ),
            1,
        )


def find_share_coordinator(broker: Broker) -> None:
    """Wait until both coordinators answer.

    The first request creates the topic of the share coordinator.
    """
    find_coordinator(broker)
    topic = broker.topic("warms-up", partitions=60)
    operator = Operator(broker, broker.name_of("warms-up"))
    request = operator.altering(topic, *((index, 0) for index in range(60)))

    def ready() -> bool:
        answer = broker.main.quietly(request, 0)
        errors = {each.error_code for found in answer.responses for each in found.partitions}
        return (answer.error_code, errors) == (0, {0})

    wait_until(ready, timeout=60)


def test_offsets_are_described_altered_and_deleted(pair: Pair) -> None:
    def scenario(broker: Broker) -> None:
        find_share_coordinator(broker)
        topic, other = broker.topic(partitions=3), broker.topic()
        operator = Operator(broker, broker.name_of("group"))
        operator.describe("no group", None, group="")
        operator.describe("partitions of no group", topic, 0, 1, group="")
        operator.describe("a group that does not exist", None)
        # Of a partition that does not exist nothing is asked: Apache Kafka 4.3.1 never answers.
        operator.describe("partitions for a group that does not exist", topic, 0, 2)
        operator.delete("deletes of a group that does not exist", topic)
        operator.alter("alters nothing", "")
        operator.alter("alters an unknown topic", NOWHERE, (0, 1))
        operator.alter("alters an unknown partition", topic, (9, 1))
        operator.describe("after refusals", None)
        operator.alter("alters", topic, (0, 0), (1, 5), (7, 1))
        operator.describe("altered", None)
        operator.describe("altered partitions", topic, 0, 1, 2)
        operator.describe("another topic", other, 0)
        operator.describe("an unknown topic", NOWHERE, 0)
        operator.alter("alters again", topic, (1, 3))
        operator.alter("an offset below 0", topic, (2, -3))
        operator.alter("an offset far beyond the end", topic, (2, 1 << 40))
        operator.describe("altered again", topic, 0, 1, 2)
        operator.beat("joins", 0, topic)
        operator.alter("alters while there is a member", topic, (0, 1))
        operator.delete("deletes while there is a member", topic)
        operator.describe("while there is a member", topic, 1)
        operator.beat("leaves", -1)
        operator.alter("alters after it", topic, (0, 2))
        operator.delete("deletes of no topic")
        operator.delete("deletes of an unknown topic", NOWHERE)
        operator.delete("deletes of a topic without offsets", other)
        operator.delete("deletes", topic)
        operator.delete("deletes again", topic)
        operator.describe("deleted", None)
        operator.describe("deleted partitions", topic, 0, 1)
        operator.alter("begins again", topic, (0, 4))
        operator.describe("begun again", None)

    pair.compare(
        scenario,
        Differs(
            "partitions of no group, *",
            "groups[0].error_code",
            "Apache Kafka: UNKNOWN_SERVER_ERROR",
        ),
    )


class Leader:
    """What the leader of a share partition asks the share coordinator."""

    def __init__(self, broker: Broker, group: str, topic_id: bytes) -> None:
        self.broker, self.group, self.topic_id = broker, group, topic_id

    def initialize(self, label: str, epoch: int, start: int, partition: int = 0) -> None:
        messages = initialize_share_group_state
        wanted = messages.PartitionData(partition=partition, state_epoch=epoch, start_offset=start)
        topic = messages.InitializeStateData(topic_id=self.topic_id, partitions=[wanted])
        self._ask(label, messages.InitializeShareGroupStateRequest, topic)

    def read(self, label: str, epoch: int, partition: int = 0) -> None:
        messages = read_share_group_state
        wanted = messages.PartitionData(partition=partition, leader_epoch=epoch)
        topic = messages.ReadStateData(topic_id=self.topic_id, partitions=[wanted])
        self._ask(label, messages.ReadShareGroupStateRequest, topic)

    def summarize(self, label: str, epoch: int, partition: int = 0) -> None:
        messages = read_share_group_state_summary
        wanted = messages.PartitionData(partition=partition, leader_epoch=epoch)
        topic = messages.ReadStateSummaryData(topic_id=self.topic_id, partitions=[wanted])
        self._ask(label, messages.ReadShareGroupStateSummaryRequest, topic)

    def write(
        self, label: str, start: int, batches: Sequence[tuple[int, int, int, int]] = (), **fields: Any
    ) -> None:
        """Write batches: first and last offset, delivery state and delivery count."""
        messages = write_share_group_state
        given = {"partition": 0, "state_epoch": 1, "leader_epoch": 1, "delivery_complete_count": 0, **fields}
        wanted = messages.PartitionData(
            start_offset=start,
            state_batches=[
                messages.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in batches
            ],
            **given,
        )
        topic = messages.WriteStateData(topic_id=self.topic_id, partitions=[wanted])
        self._ask(label, messages.WriteShareGroupStateRequest, topic)

    def delete(self, label: str, partition: int = 0) -> None:
        messages = delete_share_group_state
        topic = messages.DeleteStateData(
            topic_id=self.topic_id, partitions=[messages.PartitionData(partition=partition)]
        )
        self._ask(label, messages.DeleteShareGroupStateRequest, topic)

    def _ask(self, label: str, request: Any, topic: Any) -> None:
        """Ask about one topic, in every version."""
        for version in self.broker.versions(request):
            asked = request(group_id=self.group, topics=[topic])
            self.broker.ask(f"{label}, v{version}", asked, version)


def test_states_of_share_partitions(pair: Pair) -> None:
    def scenario(broker: Broker) -> None:
        find_share_coordinator(broker)
        topic = broker.topic(partitions=3)
        leader = Leader(broker, broker.name_of("group"), broker.topic_id(topic))
        leader.read("reads before there is a state", 1)
        leader.summarize("a summary before there is a state", 1)
        leader.write("writes before there is a state", 0)
        leader.delete("deletes before there is a state")
        leader.initialize("initializes", 1, 10)
        leader.initialize("initializes in the same epoch", 1, 11)
        leader.initialize("initializes in an older epoch", 0, 12)
        leader.read("reads", 1)
        leader.summarize("a summary", 1)
        leader.write("writes", 10, [(10, 14, 0, 1), (15, 15, 2, 1), (16, 19, 4, 5)])
        leader.read("reads what was written", 2)
        leader.write("writes in an older leader epoch", 20, leader_epoch=1)
        leader.write("writes in an older state epoch", 20, leader_epoch=2, state_epoch=0)
        leader.write("writes in a later state epoch", 20, leader_epoch=2, state_epoch=5)
        leader.write("writes backwards", 15, [(14, 13, 0, 1)], leader_epoch=2)
        leader.write("writes an unknown delivery state", 15, [(15, 15, 9, 1)], leader_epoch=2)
        leader.write("moves the start", 15, [(17, 18, 2, 1)], leader_epoch=2, delivery_complete_count=2)
        leader.write("a start that stays", -1, [(30, 31, 0, 2)], leader_epoch=2, delivery_complete_count=2)
        leader.read("reads in an older leader epoch", 1)
        leader.read("reads the end", 2)
        leader.summarize("a summary of the end", 2)
        leader.summarize("a summary in an older leader epoch", 0)
        leader.initialize("initializes anew", 7, 100)
        leader.read("reads the new state", 3)
        leader.delete("deletes")
        leader.delete("deletes again")
        leader.read("reads what was deleted", 3)
        unknown = Leader(broker, leader.group, random_uuid())
        nobody = Leader(broker, "", leader.topic_id)
        for who, asks in (("unknown topic", unknown), ("no group", nobody)):
            asks.initialize(f"{who}: initializes", 1, 0)
            asks.read(f"{who}: reads", 1)
            asks.summarize(f"{who}: a summary", 1)
            asks.write(f"{who}: writes", 0)
            asks.delete(f"{who}: deletes")
        leader.initialize("unknown partition: initializes", 1, 0, partition=9)
        leader.read("unknown partition: reads", 1, partition=9)
        leader.delete("unknown partition: deletes", partition=9)
        leader.initialize("initializes without an epoch", -1, 5, partition=1)
        leader.read("reads without an epoch", -1, partition=1)

    pair.compare(scenario)
