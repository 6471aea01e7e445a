"""Which topics of a directory are taken over, and what is said of the others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from kafkapy.inprocess import Broker
from kafkapy.metadata.quotas import ClientQuotas
from kafkapy.protocol.records import Record, build_batch
from kafkapy.protocol.types import ZERO_UUID, TopicPartition, Uuid, random_uuid, uuid_to_text
from kafkapy.tools.migrate.cluster import KnownCluster, KnownPartition, KnownTopic
from kafkapy.tools.migrate.import_plan import ImportPlan, plan_import
from kafkapy.tools.migrate.importing import MetadataPlace, import_copy
from kafkapy.tools.migrate.migration_error import MigrationError
from kafkapy.tools.migrate.source import Source

ID = bytes(range(16))
DIRECTORY = random_uuid()


def make_directory(root: Path, **partitions: Uuid | None) -> Path:
    """A log directory of Kafka's; partitions by name (`t_0`) with their topic ids."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "meta.properties").write_text(
        f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={uuid_to_text(DIRECTORY)}\n"
    )
    for name, topic_id in partitions.items():
        folder = root / name.replace("_", "-")
        folder.mkdir()
        (folder / f"{0:020d}.log").touch()
        if topic_id is not None:
            (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_to_text(topic_id)}")
    return root


def known(topic: str, partitions: Mapping[int, KnownPartition], **configs: str) -> KnownCluster:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    return KnownCluster("somewhere", {topic: KnownTopic(topic, ID, dict(partitions), settings)})


def plan(root: Path, described: KnownCluster | None = None, *, in_place: bool = False) -> ImportPlan:
    with Source([root]) as source:
        return plan_import(source, described, in_place=in_place)


HERE = KnownPartition(5, (1,), (1,), (DIRECTORY,))
ELSEWHERE = KnownPartition(5, (2,), (2,), (random_uuid(),))


def test_topics_come_from_the_names_of_the_directories(tmp_path: Path) -> None:
    make_directory(tmp_path, t_0=ID, t_1=ID)
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n")
    found = plan(tmp_path).cluster.image.topics["t"]
    assert found.id == ID
    assert [state.leader_epoch for state in found.partitions] == [7, 0]
    assert found.configs == {"retention.ms": "-1"}


def test_a_topic_that_the_cleaner_knows_is_compacted(tmp_path: Path) -> None:
    make_directory(tmp_path, t_0=ID)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 0\n")
    assert plan(tmp_path).cluster.image.topics["t"].configs == {"cleanup.policy": "compact"}


def test_a_topic_with_a_gap_in_its_partitions_stays_behind(tmp_path: Path) -> None:
    make_directory(tmp_path, t_0=ID, t_2=ID)
    found = plan(tmp_path)
    assert not found.cluster.image.topics
    assert found.not_carried == ["topic t: only partitions 0, 2 are here"]


def test_partitions_of_two_topics_of_one_name_stay_behind(tmp_path: Path) -> None:
    make_directory(tmp_path, t_0=ID, t_1=random_uuid())
    assert "different topic ids" in plan(tmp_path).not_carried[0]


def test_a_topic_that_is_partly_on_another_broker_stays_behind(tmp_path: Path) -> None:
    make_directory(tmp_path, t_0=ID)
    found = plan(tmp_path, known("t", {0: HERE, 1: ELSEWHERE}))
    assert not found.cluster.image.topics
    assert "partitions 1 are on other brokers" in found.not_carried[0]


@pytest.mark.parametrize("directory", [DIRECTORY, ZERO_UUID], ids=["a directory", "none"])
def test_a_partition_that_has_nothing_yet_needs_no_directory(tmp_path: Path, directory: Uuid) -> None:
    make_directory(tmp_path, t_0=ID)
    new = KnownPartition(0, (1,), (1,), (directory,))
    assert len(plan(tmp_path, known("t", {0: HERE, 1: new})).cluster.image.topics["t"].partitions) == 2


def test_a_partition_in_a_directory_that_is_not_named_is_missing(tmp_path: Path) -> None:
    make_directory(tmp_path, t_0=ID)
    other = KnownPartition(0, (1,), (1,), (random_uuid(),))
    assert "a directory that was not named" in plan(tmp_path, known("t", {0: HERE, 1: other})).not_carried[0]


def test_the_logs_of_a_deleted_topic_stay_behind(tmp_path: Path) -> None:
    make_directory(tmp_path, t_0=random_uuid(), u_0=ID)
    found = plan(tmp_path, known("t", {0: KnownPartition(0, (1,), (1,), (ZERO_UUID,))}))
    assert not found.folders
    assert [line.partition(": ")[2] for line in found.not_carried] == [
        "it belongs to another topic with the name t",
        "it was deleted: the metadata does not know it",
    ]


def test_what_torn_metadata_do_not_know_is_not_called_deleted(tmp_path: Path) -> None:
    make_directory(tmp_path, t_0=ID, t_1=ID, u_0=random_uuid())
    described = known("t", {0: HERE})
    described.doubt = "the log is torn"
    with pytest.raises(MigrationError, match="the log is torn, and the metadata does not know t-1, u-0"):
        plan(tmp_path, described)
    described.doubt = None
    assert [line.partition(": ")[2] for line in plan(tmp_path, described).not_carried] == [
        "the metadata does not know this partition",
        "it was deleted: the metadata does not know it",
    ]


def test_a_partition_without_a_directory_is_remarked_upon(tmp_path: Path) -> None:
    make_directory(tmp_path, t_0=ID)
    [remark] = plan(tmp_path, known("t", {0: HERE, 1: HERE})).remarks
    assert remark.startswith("t: these partitions have no directory, and will be empty: 1.")


def test_a_partition_whose_directory_is_a_symbolic_link_comes_along(tmp_path: Path) -> None:
    make_directory(tmp_path / "data", t_0=ID)
    (tmp_path / "data" / "t-0").rename(tmp_path / "elsewhere")
    (tmp_path / "data" / "t-0").symlink_to(tmp_path / "elsewhere")
    import_copy([tmp_path / "data"], [tmp_path / "here"], MetadataPlace(), lambda *_: None)
    assert (tmp_path / "here" / "t-0" / f"{0:020d}.log").exists()
    assert not (tmp_path / "here" / "t-0").is_symlink()


def test_a_replica_that_was_not_in_sync_is_remarked_upon(tmp_path: Path) -> None:
    make_directory(tmp_path, t_0=ID)
    found = plan(tmp_path, known("t", {0: KnownPartition(5, (1, 2), (2,), ())}))
    assert found.remarks == ["t-0: this broker was not an in-sync replica, and may lack the last records"]


def test_settings_that_are_not_had_here_are_named(tmp_path: Path) -> None:
    make_directory(tmp_path, t_0=ID)
    configs = {"retention_ms": "5", "message_format_version": "2.8", "remote_storage_enable": "true"}
    found = plan(tmp_path, known("t", {0: HERE}, **configs))
    assert found.cluster.image.topics["t"].configs == {"retention.ms": "5"}
    assert found.not_carried == [
        "t: message.format.version=2.8 (unknown setting)",
        "records of t in tiered storage: only those in the directory are imported",
    ]


def test_dynamic_settings_of_this_broker_come_along(tmp_path: Path) -> None:
    make_directory(tmp_path)
    described = KnownCluster(
        "somewhere",
        broker_configs={
            "": {"log.retention.ms": "5", "log.cleaner.threads": "x"},
            "1": {
                "listeners": "PLAINTEXT://:1",
                "custom.key": "secret",
                "listener.name.plaintext.max.connections": "7",
                "listener.name.plaintext.ssl.key.password": "hunter2",
            },
            "2": {"log.retention.ms": "6"},
        },
    )
    found = plan(tmp_path, described)
    assert found.cluster.image.broker_configs[""] == {"log.retention.ms": "5"}
    own = found.cluster.image.broker_configs["1"]
    assert own["custom.key"] == "secret"
    assert own["listener.name.plaintext.max.connections"] == "7"
    assert "listener.name.plaintext.ssl.key.password" not in own
    assert "2" not in found.cluster.image.broker_configs
    assert not any("secret" in line or "hunter2" in line for line in found.not_carried)
    assert any("log.cleaner.threads=x" in line for line in found.not_carried)


def test_settings_of_groups_and_quotas_come_along(tmp_path: Path) -> None:
    make_directory(tmp_path)
    described = KnownCluster(
        "somewhere",
        group_configs={"g": {"consumer.session.timeout.ms": "50000", "consumer.new.thing": "1"}},
        client_metrics_configs={"m": {"interval.ms": "soon"}},
        client_quotas=ClientQuotas().with_changes({(("user", "a"),): {"consumer_byte_rate": "5"}}),
    )
    found = plan(tmp_path, described)
    image = found.cluster.image
    assert image.group_configs == {"g": {"consumer.session.timeout.ms": "50000"}}
    assert image.client_metrics_configs == {}
    assert image.client_quotas is described.client_quotas
    assert found.not_carried == [
        "group g: consumer.new.thing=1 (unknown setting)",
        "client metrics m: interval.ms=soon (expected a whole number of 32 bits)",
    ]


def test_new_producer_ids_are_above_those_in_use(tmp_path: Path) -> None:
    make_directory(tmp_path, t_0=ID)
    batch = build_batch([Record(timestamp=1, value=b"")], producer_id=4321, producer_epoch=0, base_sequence=0)
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(batch)
    assert plan(tmp_path).cluster.next_producer_id > 4321
    exactly = KnownCluster("somewhere", next_producer_id=5000)
    assert plan(tmp_path, exactly).cluster.next_producer_id == 5000


def make_holes(root: Path) -> Path:
    """A partition with one record in each of three segments, which was compacted."""
    make_directory(root, t_0=ID)
    for offset in (0, 50, 100):
        batch = build_batch([Record(timestamp=1, key=b"", value=b"")], base_offset=offset, leader_epoch=0)
        (root / "t-0" / f"{offset:020d}.log").write_bytes(batch)
    return root


def test_the_recovery_point_is_raised_to_the_last_hole(tmp_path: Path) -> None:
    make_holes(tmp_path)
    assert plan(tmp_path).recovery_points == [{TopicPartition("t", 0): 100}]
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 100\n")
    assert plan(tmp_path).recovery_points == [{}]
    (tmp_path / "cleaner-offset-checkpoint").unlink()
    (tmp_path / ".kafka_cleanshutdown").touch()
    assert plan(tmp_path).recovery_points == [{}]


@pytest.mark.parametrize("high_watermark", [0, 50, 101])
def test_behind_a_hole_that_compaction_made_nothing_is_lost(tmp_path: Path, high_watermark: int) -> None:
    root = make_holes(tmp_path / "root")
    (root / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {high_watermark}\n")
    import_copy([root], [tmp_path / "here"], MetadataPlace(), lambda *_: None)
    with Broker(data_dir=tmp_path / "here") as broker:
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "g",
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([Position("t", 0, 0)])
        offsets: list[int] = []
        while (message := consumer.poll(10)) is not None and message.error() is None:
            offsets.append(message.offset())
        consumer.close()
    assert offsets == [0, 50, 100]


def test_directories_of_two_brokers_are_not_one(tmp_path: Path) -> None:
    one, two = make_directory(tmp_path / "one"), make_directory(tmp_path / "two")
    (two / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=2\n")
    with pytest.raises(MigrationError, match="belong to broker 1 and 2: name those of one broker only"):
        Source([one, two])


def test_a_partition_in_two_directories_is_refused(tmp_path: Path) -> None:
    one, two = make_directory(tmp_path / "one", t_0=ID), make_directory(tmp_path / "two", t_0=ID)
    with pytest.raises(MigrationError, match="remove the one that is out of date"):
        Source([one, two])
