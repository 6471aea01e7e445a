"""A broker that is stopped while it starts, or while nobody reads its output."""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode
from tests.handlers.produce_client import batch, create_topic, fetch, produce, values
from tests.network.raw_client import RawClient, api_versions, correlation_ids
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.piped import address_of, piped, serve_options

PROMPT = 10.0
"""Seconds: an idle machine takes a tenth of one."""

RECOVERING_FOR_EVER = """
import sys, threading
from kafkapy.cli import main
from kafkapy.storage.directories import log_loading

def load_log(*_, **__):
    print("recovering", file=sys.stderr, flush=True)
    threading.Event().wait()

log_loading.load_log = load_log
main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_a_broker_that_recovers_its_logs(tmp_path: Path, number: int) -> None:
    with KafkapyProcess(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "events")
        (answer,) = produce(client, "events", batch(b"acknowledged"))
        assert answer.error_code == ErrorCode.NONE
        broker.kill()
    with piped("-c", RECOVERING_FOR_EVER, *serve_options(tmp_path)) as process:
        assert process.stderr is not None
        while "recovering\n" not in (said := process.stderr.readline()):
            assert said, "it ended"
        process.send_signal(number)
        assert process.wait(PROMPT) == 0
        assert "Stopping in the middle of the start" in process.stderr.read()
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    with KafkapyProcess(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert "after an unclean stop: recovering" in broker.log_path.read_text()
        assert values(fetch(client, "events", 0)[0]) == [b"acknowledged"]


@pytest.mark.parametrize("merged", [False, True], ids=["stderr alone", "with stdout"])
def test_a_pipe_that_nobody_reads_stops_nothing(tmp_path: Path, merged: bool) -> None:
    with piped("-m", "kafkapy", *serve_options(tmp_path, "--log-level", "debug"), merged=merged) as process:
        address = address_of(process)
        noise = b"\x7f" * 2000
        deadline = time.monotonic() + 60
        for _ in range(1000):
            # Each leaves a line, more than a pipe of 64 KiB holds together.
            with RawClient(address) as client:
                client.send(noise)
                assert client.is_closed()
            assert time.monotonic() < deadline
        with RawClient(address) as client:
            client.send(api_versions())
            assert correlation_ids(client, 1) == [7]
        process.terminate()
        assert process.wait(PROMPT) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_the_last_words_of_a_broker_are_read(tmp_path: Path) -> None:
    """Lines are written by a thread, and the process waits for it."""
    with piped("-m", "kafkapy", *serve_options(tmp_path)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert address_of(process)
        process.terminate()
        assert process.wait(PROMPT) == 0
        assert process.stdout.read().endswith("Stopping\n")
        assert "started in" in process.stderr.read()


def test_a_broker_after_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    with KafkapyProcess(tmp_path, prefix=("nohup",)) as broker, RawClient(broker.bootstrap_servers) as client:
        broker.process.send_signal(signal.SIGHUP)
        client.send(api_versions())
        assert correlation_ids(client, 1) == [7]
        assert broker.stop() == 0
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("is_abstract", [False, True])
def test_the_service_manager_is_told_when_clients_are_served(tmp_path: Path, is_abstract: bool) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(60)
        name = str(tmp_path / "notify")
        manager.bind(f"\0{name}" if is_abstract else name)
        environment = {"NOTIFY_SOCKET": f"@{name}" if is_abstract else name}
        with KafkapyProcess(tmp_path, environment=environment) as broker:
            assert manager.recv(100) == b"READY=1"
            with RawClient(broker.bootstrap_servers) as client:
                client.send(api_versions())
                assert correlation_ids(client, 1) == [7]
            broker.process.terminate()
            assert manager.recv(100) == b"STOPPING=1"


def test_a_service_manager_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    with KafkapyProcess(tmp_path, environment={"NOTIFY_SOCKET": str(tmp_path / "nobody")}) as broker:
        assert broker.stop() == 0
