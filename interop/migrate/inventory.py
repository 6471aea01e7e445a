"""What stock clients see in a broker; it must be the same after a migration."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, OffsetSpec

from interop.migrate.contents import GROUPS, TOPICS
from interop.support.waiting import wait_until
from kafkapy.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.network.raw_client import RawClient

Inventory = dict[str, Any]


def take_inventory(bootstrap_servers: str) -> Inventory:
    """Return topics with ids and settings, partitions with offsets and records, and groups."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    inventory: Inventory = {}
    partitions: list[TopicPartition] = []
    # Apache Kafka answers requests before it has loaded its topics.
    wait_until(lambda: TOPICS.keys() <= _topics(bootstrap_servers).keys(), timeout=60)
    for name, (topic_id, count) in sorted(_topics(bootstrap_servers).items()):
        inventory[f"topic {name}"] = (topic_id.hex(), count)
        partitions += [TopicPartition(name, number) for number in range(count)]
        if not name.startswith("__"):
            inventory[f"settings of {name}"] = _settings(admin, name)
    visible = [each for each in partitions if not each.topic.startswith("__")]
    _wait_for_leaders(admin, partitions)
    bounds = {
        "start": _offsets(admin, visible, OffsetSpec.earliest()),
        "end": _offsets(admin, visible, OffsetSpec.latest()),
        "last stable": _offsets(admin, visible, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
    }
    for isolation in ("read_uncommitted", "read_committed"):
        ends = bounds["end" if isolation == "read_uncommitted" else "last stable"]
        records = _records(bootstrap_servers, visible, ends, bounds["start"], isolation)
        for each in visible:
            key = (each.topic, each.partition)
            inventory[f"{isolation} {each.topic}-{each.partition}"] = records.get(key, [])
    for what, offsets in bounds.items():
        for (topic, partition), offset in offsets.items():
            inventory[f"{what} {topic}-{partition}"] = offset
    _wait_for_coordinators(bootstrap_servers)
    for group in GROUPS:
        inventory[f"group {group}"] = _committed(admin, group)
    inventory["quotas"] = _quotas(bootstrap_servers)
    return inventory


def _quotas(bootstrap_servers: str) -> Sequence[object]:
    """Return every quota: its entity, name and value."""
    with RawClient(bootstrap_servers) as client:
        entries = client.ask(DescribeClientQuotasRequest(), 1).entries
    found = [
        (sorted((part.entity_type, part.entity_name or "") for part in entry.entity), value.key, value.value)
        for entry in entries
        for value in entry.values
    ]
    return sorted(found)


def differences(before: Inventory, after: Inventory) -> list[str]:
    """Return a line for each difference."""
    found = []
    for name in sorted({*before, *after}):
        one, two = before.get(name), after.get(name)
        if one != two:
            if isinstance(one, list) and isinstance(two, list):
                same = next(
                    (n for n, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]),
                    min(len(one), len(two)),
                )
                found.append(
                    f"{name}: {len(one)} and {len(two)} records, differing from number {same}: "
                    f"{one[same : same + 1]} and {two[same : same + 1]}"
                )
            else:
                found.append(f"{name}: {one} and {two}")
    return found


def records_by_place(inventory: Inventory, topic: str) -> dict[tuple[int, int], str]:
    """Return the digest of each record's value, by partition and offset."""
    prefix = f"read_uncommitted {topic}-"
    return {
        (int(name.removeprefix(prefix)), record[0]): record[-1]
        for name, records in inventory.items()
        if name.startswith(prefix)
        for record in records
    }


def digest(value: bytes | None) -> str:
    """A value, short enough to be shown."""
    return "null" if value is None else f"{len(value)}:{hashlib.sha1(value).hexdigest()[:12]}"


def _topics(bootstrap_servers: str) -> dict[str, tuple[bytes, int]]:
    with RawClient(bootstrap_servers) as client:
        answer = client.ask(MetadataRequest(topics=None), 12)
    return {each.name: (bytes(each.topic_id), len(each.partitions)) for each in answer.topics}


def _settings(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    described = admin.describe_configs([resource])[resource].result(30)
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {entry.name: entry.value for entry in described.values() if entry.source == own}


def _wait_for_leaders(admin: AdminClient, partitions: list[TopicPartition]) -> None:
    def led() -> bool:
        answers = admin.list_offsets({each: OffsetSpec.latest() for each in partitions})
        return all(answer.exception(30) is None for answer in answers.values())

    wait_until(led, timeout=60)


def _wait_for_coordinators(bootstrap_servers: str) -> None:
    """Wait until the groups are loaded: librdkafka may wait forever if it asks before."""

    def loaded() -> bool:
        groups = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in GROUPS]
        answer = client.ask(OffsetFetchRequest(groups=groups), 8)
        coordinators = [client.ask(FindCoordinatorRequest(key=group), 2) for group in GROUPS]
        return not any(each.error_code for each in (*answer.groups, *coordinators))

    with RawClient(bootstrap_servers) as client:
        wait_until(loaded, timeout=60)


def _offsets(
    admin: AdminClient,
    partitions: list[TopicPartition],
    at: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[tuple[str, int], int]:
    answers = admin.list_offsets(dict.fromkeys(partitions, at), isolation_level=isolation)
    return {(each.topic, each.partition): answer.result(30).offset for each, answer in answers.items()}


def _records(
    bootstrap_servers: str,
    partitions: list[TopicPartition],
    ends: dict[tuple[str, int], int],
    starts: dict[tuple[str, int], int],
    isolation: str,
) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "inventory",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "check.crcs": True,
            "enable.partition.eof": True,
        }
    )
    records: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    left = {
        (each.topic, each.partition)
        for each in partitions
        if ends[each.topic, each.partition] > starts[each.topic, each.partition]
    }
    consumer.assign([TopicPartition(topic, partition, starts[topic, partition]) for topic, partition in left])
    deadline = time.monotonic() + 60
    while left:
        assert time.monotonic() < deadline, f"{isolation} of {left} does not come to an end"
        for message in consumer.consume(1000, 0.5):
            place = (message.topic(), message.partition())
            if message.error():
                left.discard(place)  # the end of the partition
                continue
            headers = tuple((name, digest(value)) for name, value in message.headers() or ())
            records.setdefault(place, []).append(
                (
                    message.offset(),
                    message.leader_epoch(),
                    message.timestamp(),
                    message.key(),
                    headers,
                    digest(message.value()),
                )
            )
    consumer.close()
    return records


def _committed(admin: AdminClient, group: str) -> list[tuple[Any, ...]]:
    request = ConsumerGroupTopicPartitions(group)
    answer = admin.list_consumer_group_offsets([request])[group].result(30)
    return sorted(
        (each.topic, each.partition, each.offset, each.metadata) for each in answer.topic_partitions
    )
