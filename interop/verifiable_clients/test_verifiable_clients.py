"""Consumers of one group are given what a producer says was acknowledged.

They are Apache Kafka's VerifiableProducer and VerifiableConsumers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from interop.conftest import ServerFactory
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from interop.support.known_topics import create_topics
from interop.support.waiting import wait_until
from interop.verifiable_clients.program import ENDED_BY_SIGTERM, VerifiableClient, given, steady_producer

TOPIC: Final = "verified"
PARTITIONS: Final = 4
MESSAGES: Final = 4_000


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.capability("restart")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_given_what_was_acknowledged_though_the_broker_is_killed_and_one_leaves(
    new_server: ServerFactory, tmp_path: Path, protocol: str
) -> None:
    with skipped_without_jars():
        kafka_jars()
        server = new_server(tmp_path / "server")
    with server:
        create_topics(server.bootstrap_servers, (TOPIC,), PARTITIONS)
        common = {"bootstrap_server": server.bootstrap_servers, "topic": TOPIC}
        member = {**common, "group_id": "verifiers", "group_protocol": protocol, "verbose": True}
        if protocol == "classic":
            member["session_timeout"] = 6_000
        member["reset_policy"] = "earliest"
        producer = steady_producer(tmp_path, **common, max_messages=MESSAGES, throughput=250)
        with (
            VerifiableClient(tmp_path, "VerifiableConsumer", **member) as first,
            VerifiableClient(tmp_path, "VerifiableConsumer", **member) as second,
        ):
            wait_until(lambda: [len(assigned(each)) for each in (first, second)] == [2, 2], timeout=60)
            with producer:
                wait_until(lambda: given(first) and given(second), timeout=60)
                server.kill()
                server.start()
                sent = len(producer.events("producer_send_success"))
                more = min(sent + 200, MESSAGES)
                wait_until(lambda: len(producer.events("producer_send_success")) >= more, timeout=60)
                assert first.stop() == ENDED_BY_SIGTERM, first.output()
                assert producer.wait() == 0, producer.output()
            acknowledged = {
                (each["partition"], each["offset"], each["value"])
                for each in producer.events("producer_send_success")
            }
            assert len(acknowledged) == MESSAGES
            assert producer.events("producer_send_error") == []
            wait_until(lambda: given(first) | given(second) >= acknowledged, timeout=60)
            assert given(first) | given(second) == acknowledged
            ends: dict[int, int] = {}
            for partition, offset, _ in acknowledged:
                ends[partition] = max(ends.get(partition, 0), offset + 1)
            wait_until(lambda: committed(first) | committed(second) == ends, timeout=30)
            assert second.stop() == ENDED_BY_SIGTERM, second.output()
        server.stop()


def assigned(consumer: VerifiableClient) -> set[int]:
    """The partitions that it has now."""
    partitions: set[int] = set()
    for told in consumer.told:
        those = {each["partition"] for each in told.get("partitions", ()) if "partition" in each}
        if told["name"] == "partitions_assigned":
            partitions |= those
        elif told["name"] in ("partitions_revoked", "partitions_lost"):
            partitions -= those
    return partitions


def committed(consumer: VerifiableClient) -> dict[int, int]:
    """Of each partition the last offset that was committed with success."""
    return {
        offset["partition"]: offset["offset"]
        for event in consumer.events("offsets_committed")
        if event["success"]
        for offset in event["offsets"]
    }
