"""Kafka's metadata log: what is written is read back.

What Kafka's own log says counts as Kafka counts it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkapy.metadata.delegation_tokens import DelegationToken
from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    EntityData,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kafkapy.protocol.records import Record, build_batch
from kafkapy.protocol.types import TopicPartition, random_uuid
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.migrate.cluster import Cluster, KnownCluster, KnownPartition
from kafkapy.tools.migrate.kraft_log import read_metadata_log
from kafkapy.tools.migrate.kraft_records import encode_metadata_record
from kafkapy.tools.migrate.kraft_replay import replay
from kafkapy.tools.migrate.kraft_snapshot import snapshot
from kafkapy.tools.migrate.migration_error import MigrationError

ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))
DIRECTORY = random_uuid()


def write_snapshot(folder: Path) -> Path:
    """A snapshot of a cluster with one topic."""
    topic = Topic("t", ID, (PartitionState(1, 4, (1,), (1,)),) * 2, {"cleanup.policy": "compact"})
    image = MetadataImage("c", broker_configs={"": {"a": "1"}, "1": {"b": "2"}}).with_topics([topic])
    directories = {TopicPartition("t", number): DIRECTORY for number in range(2)}
    name, data = snapshot(Cluster(1, image, 7000), directories, DIRECTORY)
    path = folder / name
    path.write_bytes(data)
    return path


def log_of(*messages: TopMessage, base_offset: int = 0) -> bytes:
    """A batch for each message, each in its newest version."""
    data = b""
    for offset, message in enumerate(messages, base_offset):
        value = encode_metadata_record(message, message.VERSIONS[1])
        data += build_batch([Record(timestamp=1, value=value)], base_offset=offset, leader_epoch=1)
    return data


def read(folder: Path, *, clean: bool = False) -> KnownCluster:
    log = read_metadata_log(ReadOnlyFiles(), str(folder), clean=clean)
    known = replay(log.messages, "the log")
    known.doubt = log.doubt
    return known


def topic_made(name: str = "t", topic_id: bytes = ID, **fields: object) -> list[TopMessage]:
    partition = PartitionRecord(
        partition_id=0, topic_id=topic_id, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0
    )
    for field, value in fields.items():
        setattr(partition, field, value)
    return [TopicRecord(name=name, topic_id=topic_id), partition]


def test_a_snapshot_says_what_was_put_into_it(tmp_path: Path) -> None:
    write_snapshot(tmp_path)
    known = read(tmp_path)
    assert known.topics["t"].id == ID
    assert known.topics["t"].configs == {"cleanup.policy": "compact"}
    assert known.topics["t"].partitions == {n: KnownPartition(4, (1,), (1,), (DIRECTORY,)) for n in range(2)}
    assert known.broker_configs == {"": {"a": "1"}, "1": {"b": "2"}}
    assert known.next_producer_id == 7000
    assert not known.not_carried


def test_the_log_goes_on_behind_the_snapshot(tmp_path: Path) -> None:
    offset = int(write_snapshot(tmp_path).name[:20])
    stale = log_of(*[TopicRecord(name="stale", topic_id=OTHER_ID)] * offset)
    (tmp_path / f"{0:020d}.log").write_bytes(
        stale + log_of(ProducerIdsRecord(next_producer_id=9000), base_offset=offset)
    )
    known = read(tmp_path)
    assert list(known.topics) == ["t"]
    assert known.next_producer_id == 9000


def test_a_snapshot_without_an_end_does_not_count(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    filling = [ProducerIdsRecord(next_producer_id=1000)] * int(path.name[:20])
    (tmp_path / f"{0:020d}.log").write_bytes(log_of(*topic_made("fresh"), *filling))
    assert list(read(tmp_path).topics) == ["fresh"]


def test_a_log_whose_snapshot_is_gone_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"{500:020d}.log").write_bytes(log_of(*topic_made(), base_offset=500))
    with pytest.raises(MigrationError, match="no valid snapshot for offset 500"):
        read(tmp_path)


def test_a_torn_end_is_left_out(tmp_path: Path) -> None:
    data = log_of(*topic_made(), ProducerIdsRecord(next_producer_id=1000))
    for cut in range(1, 60):
        (tmp_path / f"{0:020d}.log").write_bytes(data[:-cut])
        known = read(tmp_path)
        assert known.next_producer_id == 0
        assert "is torn at byte" in (known.doubt or "")


@pytest.mark.parametrize("batch", range(3))
def test_bad_bytes_that_more_follows_are_damage(tmp_path: Path, batch: int) -> None:
    messages = [*topic_made(), *[ProducerIdsRecord(next_producer_id=1000)] * 2]
    sizes = [len(log_of(message)) for message in messages]
    path, start = tmp_path / f"{0:020d}.log", sum(sizes[:batch])
    for position in (start + 7, start + 11, start + sizes[batch] - 1):
        data = bytearray(log_of(*messages))
        data[position] ^= 1
        path.write_bytes(data)
        with pytest.raises(MigrationError, match=r"is damaged at byte \d+. Restore it"):
            read(tmp_path)


def test_bad_bytes_at_the_end_are_damage_after_a_stop_in_order(tmp_path: Path) -> None:
    data = log_of(*topic_made(), ProducerIdsRecord(next_producer_id=1000))
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(data)
    assert read(tmp_path, clean=True).next_producer_id == 1000
    for wrong in (data[:-1], data[:-1] + b"\xff", data + bytes(100)):
        path.write_bytes(wrong)
        with pytest.raises(MigrationError, match="is damaged at byte"):
            read(tmp_path, clean=True)


def test_a_log_that_ends_below_its_last_producer_snapshot_was_cut(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(log_of(*topic_made()))
    (tmp_path / f"{2:020d}.snapshot").touch()
    assert list(read(tmp_path, clean=True).topics) == ["t"]
    (tmp_path / f"{3:020d}.snapshot").touch()
    with pytest.raises(MigrationError, match="ends at offset 2, but should reach offset 3"):
        read(tmp_path, clean=True)
    assert list(read(tmp_path).topics) == ["t"]


def test_a_log_that_ends_below_a_snapshot_was_cut(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    (tmp_path / f"{0:020d}.log").write_bytes(log_of(*topic_made()))
    with pytest.raises(MigrationError, match="ends at offset 2, but should reach"):
        read(tmp_path)


def test_a_log_that_is_empty_or_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MigrationError, match="has no log"):
        read(tmp_path)
    (tmp_path / f"{0:020d}.log").touch()
    with pytest.raises(MigrationError, match="has an empty log"):
        read(tmp_path)
    (tmp_path / f"{0:020d}.log").unlink()
    write_snapshot(tmp_path)
    assert list(read(tmp_path, clean=True).topics) == ["t"]
    (tmp_path / "quorum-state").write_text("{}")
    with pytest.raises(MigrationError, match="has no log"):
        read(tmp_path)


def test_offsets_that_are_missing_are_a_missing_part(tmp_path: Path) -> None:
    one, two = log_of(*topic_made()), log_of(ProducerIdsRecord(next_producer_id=1000), base_offset=5)
    (tmp_path / f"{0:020d}.log").write_bytes(one + two)
    with pytest.raises(MigrationError, match="lacks the offsets 2 to 4"):
        read(tmp_path)
    (tmp_path / f"{0:020d}.log").write_bytes(one)
    (tmp_path / f"{5:020d}.log").write_bytes(two)
    with pytest.raises(MigrationError, match="lacks the offsets 2 to 4"):
        read(tmp_path)


def test_damage_below_the_snapshot_takes_nothing_away(tmp_path: Path) -> None:
    offset = int(write_snapshot(tmp_path).name[:20])
    data = bytearray(log_of(*[ProducerIdsRecord(next_producer_id=1000)] * offset))
    data[-1] ^= 1
    data += log_of(ProducerIdsRecord(next_producer_id=9000), base_offset=offset)
    (tmp_path / f"{0:020d}.log").write_bytes(data)
    assert read(tmp_path, clean=True).next_producer_id == 9000


def test_records_of_a_transaction_count_when_it_ends(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(
        log_of(
            BeginTransactionRecord(name=None),
            *topic_made("aborted", OTHER_ID),
            AbortTransactionRecord(reason=None),
            BeginTransactionRecord(name=None),
            *topic_made("ended"),
            EndTransactionRecord(),
            BeginTransactionRecord(name=None),
            *topic_made("open", OTHER_ID),
        )
    )
    assert list(read(tmp_path).topics) == ["ended"]


def test_each_change_of_the_leader_is_an_epoch(tmp_path: Path) -> None:
    changes = [
        PartitionChangeRecord(partition_id=0, topic_id=ID, leader=-1),
        PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1, 2]),
        PartitionChangeRecord(partition_id=0, topic_id=ID, leader=1, replicas=[1, 2]),
    ]
    (tmp_path / f"{0:020d}.log").write_bytes(log_of(*topic_made(), *changes))
    assert read(tmp_path).topics["t"].partitions[0][:2] == (2, (1, 2))


def test_an_eligible_leader_has_all_records(tmp_path: Path) -> None:
    made = topic_made(replicas=[1, 2], isr=[2])
    change = PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[], eligible_leader_replicas=[1])
    (tmp_path / f"{0:020d}.log").write_bytes(log_of(*made, change))
    assert read(tmp_path).topics["t"].partitions[0].in_sync == (1,)


def test_settings_that_were_taken_back_and_topics_that_were_deleted_are_gone(tmp_path: Path) -> None:
    def setting(topic: str, value: str | None) -> ConfigRecord:
        return ConfigRecord(resource_type=2, resource_name=topic, name="retention.ms", value=value)

    (tmp_path / f"{0:020d}.log").write_bytes(
        log_of(
            *topic_made("kept"),
            setting("kept", "1"),
            setting("kept", None),
            *topic_made("gone", OTHER_ID),
            setting("gone", "1"),
            RemoveTopicRecord(topic_id=OTHER_ID),
            *topic_made("gone", OTHER_ID),
        )
    )
    assert {name: topic.configs for name, topic in read(tmp_path).topics.items()} == {"kept": {}, "gone": {}}


def quota(key: str, value: float | None, *entity: tuple[str, str | None]) -> ClientQuotaRecord:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    return ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None)


def test_quotas_and_settings_of_groups_and_client_metrics_are_read(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(
        log_of(
            ConfigRecord(resource_type=32, resource_name="g", name="share.delivery.count.limit", value="4"),
            ConfigRecord(resource_type=16, resource_name="m", name="interval.ms", value="1000"),
            ConfigRecord(resource_type=16, resource_name="gone", name="interval.ms", value="1000"),
            ConfigRecord(resource_type=16, resource_name="gone", name="interval.ms", value=None),
            quota("consumer_byte_rate", 5.0, ("user", "a")),
            quota("producer_byte_rate", 6.0, ("user", "a")),
            quota("producer_byte_rate", None, ("user", "a")),
            quota("request_percentage", 12.5, ("user", "b"), ("client-id", None)),
            quota("new_rate", 1.0, ("user", "c")),
        )
    )
    known = read(tmp_path)
    assert known.group_configs == {"g": {"share.delivery.count.limit": "4"}}
    assert known.client_metrics_configs == {"m": {"interval.ms": "1000"}}
    assert known.client_quotas.configs == {
        (("user", "a"),): {"consumer_byte_rate": "5"},
        (("user", "b"),): {},
        (("client-id", None), ("user", "b")): {"request_percentage": "12.5"},
    }
    assert known.not_carried == ["1 client quotas of unknown kinds"]


def test_what_this_broker_has_nothing_for_is_counted(tmp_path: Path) -> None:
    unknown = build_batch([Record(timestamp=1, value=bytes([1, 99, 0]))], base_offset=0)
    (tmp_path / f"{0:020d}.log").write_bytes(unknown)
    assert read(tmp_path).not_carried == ["1 metadata records of unknown types"]


def token(token_id: str, **values: Any) -> DelegationTokenRecord:
    fields: dict[str, Any] = {"owner": "User:alice", "requester": "User:admin", **values}
    return DelegationTokenRecord(token_id=token_id, **fields)


def test_delegation_tokens_are_those_that_were_not_removed(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(
        log_of(
            token("first", expiration_timestamp=1),
            token("second"),
            token("first", renewers=["User:bob"], issue_timestamp=2, max_timestamp=4, expiration_timestamp=3),
            RemoveDelegationTokenRecord(token_id="second"),
            token("third", requester=""),
        )
    )
    known = read(tmp_path)
    assert known.not_carried == []
    assert known.delegation_tokens == {
        "first": DelegationToken("first", "User:alice", "User:admin", ("User:bob",), 2, 4, 3),
        "third": DelegationToken("third", "User:alice", "User:alice", (), 0, 0, 0),
    }


def test_delegation_tokens_that_cannot_be_kept_are_counted(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(log_of(token("a/b"), token("x", owner="alice")))
    known = read(tmp_path)
    assert known.delegation_tokens == {}
    assert known.not_carried == ["2 delegation tokens with malformed ids or principals"]


def entry(number: int, name: str = "orders", **values: Any) -> AccessControlEntryRecord:
    fields: dict[str, Any] = {
        "resource_type": 2,
        "pattern_type": 3,
        "operation": 3,
        "permission_type": 3,
        **values,
    }
    return AccessControlEntryRecord(
        id=bytes([number] * 16), principal=f"User:{number}", host="*", resource_name=name, **(fields | values)
    )


def test_acls_are_those_that_were_not_removed(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(
        log_of(
            entry(1),
            entry(2, permission_type=2),
            entry(3),
            RemoveAccessControlEntryRecord(id=bytes([3] * 16)),
            entry(4, "app.", resource_type=3, pattern_type=4),
        )
    )
    known = read(tmp_path)
    assert known.not_carried == []
    found = {path: json.loads(node.data)["acls"] for path, node in known.acls.items()}
    assert found == {
        "/kafka-acl/Topic/orders": [
            {"principal": "User:1", "permissionType": "Allow", "operation": "Read", "host": "*"},
            {"principal": "User:2", "permissionType": "Deny", "operation": "Read", "host": "*"},
        ],
        "/kafka-acl-extended/prefixed/Group/app.": [
            {"principal": "User:4", "permissionType": "Allow", "operation": "Read", "host": "*"}
        ],
    }


def test_acls_that_cannot_be_kept_are_named(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(log_of(entry(1, "a/b"), entry(2, operation=99), entry(3)))
    known = read(tmp_path)
    assert list(known.acls) == ["/kafka-acl/Topic/orders"]
    assert known.not_carried == [
        "access control entries for these names, which nodes cannot have: a/b",
        "1 access control entries of unknown kinds",
    ]


def test_a_partition_of_no_topic_is_a_missing_part(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(log_of(*topic_made()[1:]))
    with pytest.raises(MigrationError, match="a part of the log is missing"):
        read(tmp_path)


def test_a_record_of_a_later_version_is_refused(tmp_path: Path) -> None:
    value = bytearray(encode_metadata_record(topic_made()[1], 2))
    value[2] = 9  # the version
    (tmp_path / f"{0:020d}.log").write_bytes(build_batch([Record(timestamp=1, value=bytes(value))]))
    with pytest.raises(MigrationError, match="written by an unknown release of Kafka"):
        read(tmp_path)
