"""ElectLeaders, and access control where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from interop.differential.brokers import Broker, Pair
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkapy.protocol.messages.describe_acls import DescribeAclsRequest
from kafkapy.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

pytestmark = pytest.mark.jvm

ANY = 1


def test_elections(pair: Pair) -> None:
    def elections(broker: Broker) -> None:
        topic, absent = broker.topic(partitions=3), broker.name_of("absent")
        wanted: dict[str, list[tuple[str, list[int]]]] = {
            "led": [(topic, [0, 2])],
            "one twice": [(topic, [1, 1])],
            "topic twice": [(topic, [0]), (topic, [1])],
            "no partition": [(topic, [3, -1])],
            "no topic": [(absent, [0]), ("", [0]), ("..", [0])],
            "some": [(topic, [0]), (absent, [1]), (topic, [9])],
            "nothing of a topic": [(topic, [])],
            "nothing": [],
        }
        for version in broker.versions(ElectLeadersRequest):
            for election in (0, 1, 2, -1) if version else (0,):
                kind: dict[str, Any] = {"election_type": election} if version else {}
                for label, topics in wanted.items():
                    partitions = [TopicPartitions(topic=name, partitions=numbers) for name, numbers in topics]
                    request = ElectLeadersRequest(topic_partitions=partitions, timeout_ms=5000, **kind)
                    answer = broker.main.quietly(request, version)
                    results = sorted(
                        (
                            each.topic,
                            sorted(
                                (one.partition_id, one.error_code, one.error_message)
                                for one in each.partition_result
                            ),
                        )
                        for each in answer.replica_election_results
                    )
                    fields = {"error_code": answer.error_code, "results": results}
                    broker.note(f"v{version} type {election} {label}", fields)
                answer = broker.main.quietly(
                    ElectLeadersRequest(topic_partitions=None, timeout_ms=5000, **kind), version
                )
                found = [each for each in answer.replica_election_results if each.topic == topic]
                fields = {
                    "error_code": answer.error_code,
                    "results": [len(each.partition_result) for each in found],
                }
                broker.note(f"v{version} type {election} all", fields)

    pair.compare(elections)


def test_access_control_that_is_off(pair: Pair) -> None:
    def acls(broker: Broker) -> None:
        anything: dict[str, Any] = {
            "resource_type_filter": ANY,
            "resource_name_filter": None,
            "pattern_type_filter": ANY,
            "principal_filter": None,
            "host_filter": None,
            "operation": ANY,
            "permission_type": ANY,
        }
        rule = AclCreation(
            resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
        )
        for version in broker.versions(DescribeAclsRequest):
            broker.ask(f"describe v{version}", DescribeAclsRequest(**anything), version)
        for count in (0, 1, 3):
            for version in broker.versions(CreateAclsRequest):
                broker.ask(f"create {count} v{version}", CreateAclsRequest(creations=[rule] * count), version)
            for version in broker.versions(DeleteAclsRequest):
                filters = [DeleteAclsFilter(**anything) for _ in range(count)]
                broker.ask(f"delete {count} v{version}", DeleteAclsRequest(filters=filters), version)

    pair.compare(acls)
