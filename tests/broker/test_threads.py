"""A broker that cannot start a thread says so, or continues with the threads it has."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import kafkapy
from kafkapy.broker.core import StartError
from kafkapy.protocol.errors import ErrorCode
from tests.handlers.produce_client import batch, create_topic, fetch, produce, values
from tests.loop.thread_starts import no_thread_starts
from tests.network.raw_client import RawClient, eventually

DURABLE = {"durability": "fsync", "log.segment.delete.delay.ms": "0"}


@pytest.mark.parametrize("started", ["kafkapy_0", "kafkapy_9", "kafkapy-metadata"])
def test_a_start_without_threads_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: str
) -> None:
    broker = kafkapy.Broker(data_dir=tmp_path)
    with monkeypatch.context() as patch:
        no_thread_starts(patch, lambda name: name != started)
        with pytest.raises(StartError, match="ulimit -u"):
            broker.start()
    with broker:
        assert broker.bootstrap_servers


def test_recovery_without_threads_is_one_clear_line_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        kafkapy.Broker(data_dir=tmp_path, config=DURABLE) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        create_topic(client, "events")
        produce(client, "events", batch(b"x"))
    (tmp_path / ".kafka_cleanshutdown").unlink()
    broker = kafkapy.Broker(data_dir=tmp_path)
    with monkeypatch.context() as patch:
        no_thread_starts(patch, lambda name: not name.startswith("kafkapy-recovery"))
        with pytest.raises(StartError, match="ulimit -u"):
            broker.start()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with broker, RawClient(broker.bootstrap_servers) as client:
        assert values(fetch(client, "events", 0)[0]) == [b"x"]


def test_a_running_broker_outlives_a_lack_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {**DURABLE, "replica.high.watermark.checkpoint.interval.ms": 100}
    checkpoint = tmp_path / "replication-offset-checkpoint"
    with (
        kafkapy.Broker(data_dir=tmp_path, config=config) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        with monkeypatch.context() as patch:
            no_thread_starts(patch, lambda _: False)
            create_topic(client, "events", 3)
            produce(client, "events", *[batch(b"x")] * 3, timeout_ms=300)
        answers = produce(client, "events", *[batch(b"y")] * 3)
        assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
        assert [values(data)[-1] for data in fetch(client, "events", 0, 0, 0)] == [b"y"] * 3
        eventually(lambda: checkpoint.exists() and "events 0" in checkpoint.read_text(), "it is written")


def test_a_start_without_a_descriptor_for_a_listener_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_socket(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(socket.socket, "bind", no_socket)
    with pytest.raises(StartError, match="ulimit -n"):
        kafkapy.Broker().start()
