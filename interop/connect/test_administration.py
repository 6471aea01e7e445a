"""What Connect asks of a broker besides records.

It needs internal topics, a group, and the offsets of connectors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from interop.connect.conftest import ConnectCluster
from interop.connect.file_connectors import PARTITIONS, file_sink, file_source, lines_of
from interop.connect.worker import GROUP, INTERNAL_TOPICS, RestError, Worker
from interop.support.committed_records import committed_messages, committed_values
from interop.support.known_topics import create_topics, wait_until_known
from interop.support.waiting import wait_until
from kafkapy.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.network.raw_client import RawClient

LINES = [f"line {number:06}" for number in range(300)]


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.capability("topics")
def test_internal_topics_are_compacted_and_have_the_partitions_that_were_asked_for(
    connect: ConnectCluster,
) -> None:
    admin = AdminClient({"bootstrap.servers": connect.server.bootstrap_servers})
    wanted = [ConfigResource(ResourceType.TOPIC, topic) for topic in INTERNAL_TOPICS.values()]
    found = {each.name: future.result(30) for each, future in admin.describe_configs(wanted).items()}
    assert {topic: configs["cleanup.policy"].value for topic, configs in found.items()} == dict.fromkeys(
        INTERNAL_TOPICS.values(), "compact"
    )
    topics = admin.list_topics(timeout=30).topics
    assert [len(topics[INTERNAL_TOPICS[use]].partitions) for use in ("config", "offset", "status")] == [
        1,
        5,
        2,
    ]


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.capability("groups")
def test_workers_are_members_of_a_group_of_type_connect(connect: ConnectCluster) -> None:
    def stable() -> DescribedGroup | None:
        with RawClient(_coordinator(connect, GROUP)) as client:
            (group,) = client.ask(DescribeGroupsRequest(groups=[GROUP]), 5).groups
        return group if group.group_state == "Stable" else None

    group = wait_until(stable)
    assert group is not None
    assert (group.protocol_type, group.protocol_data) == ("connect", "sessioned")
    assert sorted(member.client_id for member in group.members) == ["worker-a", "worker-b"]


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.capability("errors")
def test_a_worker_refuses_an_internal_topic_that_is_not_only_compacted(
    connect: ConnectCluster, tmp_path: Path, name: str
) -> None:
    create_topics(connect.server.bootstrap_servers, (name,), 1, config={"cleanup.policy": "compact,delete"})
    worker = Worker(
        tmp_path, connect.server.bootstrap_servers, name="c", group_id=name, config_storage_topic=name
    )
    worker.launch()
    refusal = f"Topic '{name}' supplied via the 'config.storage.topic' property"
    try:
        # It says so and begins to end, for which it takes a minute.
        wait_until(lambda: refusal in worker.output(100), timeout=60)
    finally:
        worker.kill()


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.capability("group admin")
def test_offsets_of_a_source_and_a_sink_are_told_altered_and_reset(
    connect: ConnectCluster, tmp_path: Path, name: str
) -> None:
    source, sink, servers = tmp_path / "source", tmp_path / "sink", connect.server.bootstrap_servers
    source.write_text("".join(f"{line}\n" for line in LINES))
    size, worker = source.stat().st_size, connect.worker
    worker.put(f"connectors/source-{name}/config", file_source(source, name))
    wait_until_known(servers, name)
    worker.put(f"connectors/sink-{name}/config", file_sink(sink, name))
    wait_until(timeout=60, condition=lambda: sorted(lines_of(sink)) == LINES)

    key = {"filename": str(source)}
    assert offsets(worker, f"source-{name}") == [{"partition": key, "offset": {"position": size}}]
    ends = end_offsets(servers, name)
    wait_until(lambda: sink_offsets(worker, f"sink-{name}") == ends)

    # The source begins again in the middle of the file; the sink is given what is new.
    stop(worker, f"source-{name}")
    alter(worker, f"source-{name}", [{"partition": key, "offset": {"position": size // 2}}])
    worker.put(f"connectors/source-{name}/resume")
    wait_until(timeout=60, condition=lambda: sorted(lines_of(sink)) == sorted(LINES + LINES[150:]))

    # The sink begins again at an offset in one partition, and at the beginning in all others.
    stop(worker, f"sink-{name}")
    expected = committed_values(servers, name, PARTITIONS)
    worker.ask("DELETE", f"connectors/sink-{name}/offsets")
    assert offsets(worker, f"sink-{name}") == []
    partition = {"kafka_topic": name, "kafka_partition": 1}
    alter(worker, f"sink-{name}", [{"partition": partition, "offset": {"kafka_offset": 0}}])
    alter(
        worker,
        f"sink-{name}",
        [{"partition": partition, "offset": {"kafka_offset": end_offsets(servers, name)[1]}}],
    )
    sink.unlink()
    worker.put(f"connectors/sink-{name}/resume")
    wanted = sorted(expected[0] + expected[2])
    wait_until(timeout=60, condition=lambda: sorted(lines_of(sink)) == wanted)


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.capability("records")
def test_records_that_a_sink_cannot_read_go_to_its_dead_letter_queue(
    connect: ConnectCluster, tmp_path: Path, name: str
) -> None:
    source, sink, servers = tmp_path / "source", tmp_path / "sink", connect.server.bootstrap_servers
    source.write_text('{"a":1}\nno json\n"text"\nno json either\n')
    connect.worker.put(f"connectors/source-{name}/config", file_source(source, name))
    wait_until_known(servers, name)
    settings = {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    connect.worker.put(f"connectors/sink-{name}/config", {**file_sink(sink, name), **settings})
    wait_until(timeout=60, condition=lambda: sorted(lines_of(sink)) == ["text", "{a=1}"])

    def dead() -> list[tuple[bytes | None, dict[str, bytes | None]]]:
        found = committed_messages(servers, f"{name}-dead", 1)[0]
        return sorted((message.value(), dict(message.headers() or ())) for message in found)

    wait_until(lambda: len(dead()) == 2)
    letters = dead()
    assert [value for value, _ in letters] == [b"no json", b"no json either"]
    assert {headers["__connect.errors.topic"] for _, headers in letters} == {name.encode()}


def _coordinator(connect: ConnectCluster, group: str) -> str:
    with RawClient(connect.server.bootstrap_servers.partition(",")[0]) as client:
        (found,) = client.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators
    return f"{found.host}:{found.port}"


def offsets(worker: Worker, connector: str) -> list[dict[str, dict[str, object]]]:
    found: list[dict[str, dict[str, object]]] = worker.get(f"connectors/{connector}/offsets")["offsets"]
    return found


def sink_offsets(worker: Worker, connector: str) -> dict[object, object]:
    return {
        each["partition"]["kafka_partition"]: each["offset"]["kafka_offset"]
        for each in offsets(worker, connector)
    }


def end_offsets(servers: str, topic: str) -> dict[int, int]:
    """The offset after the last record of each partition, as a sink commits it.

    A sink does not know of markers.
    """
    found = committed_messages(servers, topic, PARTITIONS)
    return {partition: (messages[-1].offset() or 0) + 1 for partition, messages in found.items()}


def stop(worker: Worker, connector: str) -> None:
    worker.put(f"connectors/{connector}/stop")

    def stopped() -> bool:
        status = worker.get(f"connectors/{connector}/status")
        return status["connector"]["state"] == "STOPPED" and not status["tasks"]

    wait_until(stopped, timeout=60)


def alter(worker: Worker, connector: str, wanted: list[dict[str, Any]]) -> None:
    """Set offsets; the worker refuses while its tasks have not yet stopped."""

    body = {"offsets": wanted}
    wait_until(lambda: worker.ask("PATCH", f"connectors/{connector}/offsets", body), ignoring=RestError)
