"""Offsets of share groups: where the records begin that a group has not done with.

Admin APIs of KIP-932, which the client library does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kafka.structs import TopicPartition

from kafkapy.commands import messages
from kafkapy.commands.connection.admin import Admin, Coordinator
from kafkapy.commands.connection.failures import check, failure_text


class SharePosition(NamedTuple):
    """Where a share group's records begin in a partition, and how many it has not done with.

    Records behind the first one may be done with, so the lag may be less than all up to the end. Brokers
    before Apache Kafka 4.2 do not tell it: then it is None.
    """

    start: int
    lag: int | None


def share_positions(admin: Admin, name: str) -> dict[Any, SharePosition]:
    """The positions of a share group, by partition."""
    wanted = [
        messages.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
            group_id=name, topics=None
        )
    ]
    request = messages.DescribeShareGroupOffsetsRequest(groups=wanted)
    found = {}
    for answer in admin.to_coordinators([name], Coordinator.GROUP, lambda _: request):
        for group in answer.groups:
            check(group.error_code, group.error_message, f"group {name}")
            for topic in group.topics:
                for partition in topic.partitions:
                    check(partition.error_code, partition.error_message, f"group {name}")
                    if partition.start_offset >= 0:
                        place = TopicPartition(topic.topic_name, partition.partition_index)
                        lag = None if partition.lag is None or partition.lag < 0 else partition.lag
                        found[place] = SharePosition(partition.start_offset, lag)
    return found


def share_offsets(admin: Admin, name: str) -> dict[Any, int]:
    """Where the records of a share group begin, by partition."""
    return {place: position.start for place, position in share_positions(admin, name).items()}


def set_share_offsets(admin: Admin, name: str, offsets: Mapping[Any, int]) -> None:
    """Let the records of a share group without members begin elsewhere; raises UserError."""
    of_request = messages.AlterShareGroupOffsetsRequest
    by_topic: dict[str, list[Any]] = {}
    for place, offset in offsets.items():
        partition = of_request.AlterShareGroupOffsetsRequestTopic.AlterShareGroupOffsetsRequestPartition(
            partition_index=place.partition, start_offset=offset
        )
        by_topic.setdefault(place.topic, []).append(partition)
    topics = [
        of_request.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
        for topic, partitions in by_topic.items()
    ]
    request = of_request(group_id=name, topics=topics)
    for answer in admin.to_coordinators([name], Coordinator.GROUP, lambda _: request):
        check(answer.error_code, answer.error_message, f"group {name}")
        for topic in answer.responses:
            for partition in topic.partitions:
                about = f"group {name}, {topic.topic_name}:{partition.partition_index}"
                check(partition.error_code, partition.error_message, about)


def delete_share_offsets(admin: Admin, name: str, topics: Iterable[str]) -> list[dict[str, Any]]:
    """Delete what a share group without members knows of topics; rows with what became of each.

    Raises UserError if none can be deleted.
    """
    of_request = messages.DeleteShareGroupOffsetsRequest
    wanted = [of_request.DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
    request = of_request(group_id=name, topics=wanted)
    rows = []
    for answer in admin.to_coordinators([name], Coordinator.GROUP, lambda _: request):
        check(answer.error_code, answer.error_message, f"group {name}")
        for topic in answer.responses:
            code = topic.error_code
            row = {"topic": topic.topic_name, "result": "failed" if code else "deleted"}
            rows.append({**row, "error": failure_text(code, topic.error_message) if code else None})
    return rows
