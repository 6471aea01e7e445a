"""Directories to migrate: how a broker writes one, what it shows, and the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from kafkapy.cli import main
from kafkapy.inprocess import Broker
from kafkapy.metadata.image import MetadataImage

TOPICS = {
    "orders": (3, {"retention.ms": "-1", "segment.bytes": "1048576"}),
    "users": (1, {"cleanup.policy": "compact", "compression.type": "zstd"}),
    "empty": (2, {}),
}


def write_directory(*paths: Path) -> dict[str, Any]:
    """Let a broker write a data directory and stop cleanly; return what it showed."""
    broker = Broker(data_dir=paths[0], config={"log.dirs": ",".join(map(str, paths))})
    with broker:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        admin = AdminClient(servers)
        wanted = [NewTopic(name, count, 1, config=configs) for name, (count, configs) in TOPICS.items()]
        for made in admin.create_topics(wanted).values():
            made.result(10)
        setting = ConfigEntry("log.retention.ms", "86400000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[setting])
        admin.incremental_alter_configs([resource])[resource].result(10)
        producer = Producer({**servers, "enable.idempotence": True})
        for number in range(4500):
            producer.produce("orders", b"%d" % number * 200, partition=number % 3 // 2)
            if number % 10 == 0:
                producer.produce("users", b"%d" % number, b"%d" % (number % 7))
        assert producer.flush(30) == 0
        consumer = Consumer({**servers, "group.id": "readers"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 42, metadata="here")], asynchronous=False)
        consumer.close()
        return show(broker)


def open_directory(*paths: Path) -> dict[str, Any]:
    """Return what a broker shows of a directory."""
    with Broker(data_dir=paths[0], config={"log.dirs": ",".join(map(str, paths))}) as broker:
        return show(broker)


def show(broker: Broker) -> dict[str, Any]:
    """Return topics with ids and settings, partition ends, a committed offset, a producer id."""
    image: MetadataImage = broker.core.metadata.image
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    (committed,) = consumer.committed([TopicPartition("orders", 0)], timeout=10)
    consumer.close()
    return {
        "cluster": image.cluster_id,
        "topics": {
            name: (topic.id, len(topic.partitions), dict(topic.configs))
            for name, topic in image.topics.items()
        },
        "brokers": {name: dict(configs) for name, configs in image.broker_configs.items() if configs},
        "logs": {
            str(partition): (log.log_start_offset, log.log_end_offset, dict(log.producers).keys())
            for partition, log in broker.core.logs.logs.items()
        },
        "committed": (committed.offset, committed.metadata),
    }


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that must succeed, and return its output."""
    code, out, err = run_any(capsys, *arguments)
    assert (code, err) == (0, "")
    return out


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that must fail, and return the one line that says why."""
    code, out, err = run_any(capsys, *arguments)
    assert code in (1, 2)
    assert not out
    assert err.startswith("kafkapy: ")
    assert err.count("\n") == 1
    return err.removeprefix("kafkapy: ").rstrip()


def run_any(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[object, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main.main([str(each) for each in arguments], prog_name="kafkapy")
    out, err = capsys.readouterr()
    return stopped.value.code, out, err


def files_of(*folders: Path) -> dict[str, bytes]:
    """Return every file with its content."""
    return {
        str(path): path.read_bytes()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
