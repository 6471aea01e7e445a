"""Where the state of an application can be queried: partitions by endpoint.

Members are told when the endpoint epoch of the group is not the one that they know. The partitions of a
member are computed again only when its tasks or the topology have changed.

Source: Apache Kafka's EndpointToPartitionsManager; KIP-1071.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkapy.groups.streams.configured_topology import ConfiguredTopology, PartitionCount
from kafkapy.groups.streams.member import StreamsMember
from kafkapy.protocol.messages.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition


class Endpoints:
    """The partitions of the members of one group that have an endpoint."""

    def __init__(self) -> None:
        self.epoch = 0
        """Rises when the tasks of a member with an endpoint change, or it goes."""
        self._known: dict[str, tuple[StreamsMember, ConfiguredTopology, EndpointToPartitions]] = {}
        """By member id, the result for a state of the member and the topology."""

    def of(
        self, members: Mapping[str, StreamsMember], configured: ConfiguredTopology, count: PartitionCount
    ) -> list[EndpointToPartitions]:
        """The partitions of all members that have an endpoint."""
        return [
            self._of_member(member, configured, count)
            for member in members.values()
            if member.endpoint is not None
        ]

    def forget(self, member_id: str) -> None:
        """Forget a member that has gone."""
        self._known.pop(member_id, None)

    def _of_member(
        self, member: StreamsMember, configured: ConfiguredTopology, count: PartitionCount
    ) -> EndpointToPartitions:
        known = self._known.get(member.member_id)
        if known is not None and known[0] is member and known[1] is configured:
            return known[2]
        assert member.endpoint is not None
        found = EndpointToPartitions(
            user_endpoint=Endpoint(host=member.endpoint.host, port=member.endpoint.port),
            active_partitions=_partitions(member.assigned.active, configured, count),
            standby_partitions=_partitions(member.assigned.standby, configured, count),
        )
        self._known[member.member_id] = member, configured, found
        return found


def _partitions(
    tasks: Mapping[str, Any], configured: ConfiguredTopology, count: PartitionCount
) -> list[TopicPartition]:
    """The partitions that tasks read: a smaller topic has none for some tasks."""
    found = []
    for subtopology_id in sorted(tasks):
        subtopology = configured.topology.subtopologies.get(subtopology_id)
        for topic in () if subtopology is None else subtopology.all_sources:
            partitions = [each for each in sorted(tasks[subtopology_id]) if each < (count(topic) or 0)]
            if partitions:
                found.append(TopicPartition(topic=topic, partitions=partitions))
    return found
