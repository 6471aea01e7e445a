"""The start offsets of share groups (KIP-932), which operators describe, alter and delete."""

from __future__ import annotations

import pytest

from interop.differential.brokers import Broker, Differs, Pair
from interop.differential.groups import find_coordinator
from interop.support.waiting import wait_until
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
