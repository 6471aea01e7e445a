"""A broker whose last log directory has failed ends by itself, and says why."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.servers.kafkapy_process import KafkapyProcess


def test_a_broker_ends_when_its_only_disk_fails(tmp_path: Path) -> None:
    environment = {"KAFKAPY_CRASH_AT": "fail:sync:60", "KAFKAPY_CRASH_COUNT": str(tmp_path / "count")}
    program = ("-m", "tests.crash.crash_driver")
    with KafkapyProcess(tmp_path, program=program, environment=environment) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        with contextlib.suppress(KafkaException):
            admin.create_topics([NewTopic("events", 1, 1)])["events"].result(10)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        deadline = time.monotonic() + 20
        while broker.running and time.monotonic() < deadline:
            producer.produce("events", b"x")
            producer.poll(0.01)
        assert broker.wait(20) == 1
        producer.purge()
    said = broker.log_path.read_text()
    assert "No log directory is left: the broker stops." in said
    assert "kafkapy: no log directory can be used any more." in said
    assert "Traceback" not in said
