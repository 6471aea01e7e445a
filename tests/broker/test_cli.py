"""`kafkapy serve` as a process: how it starts, what it says, how it stops."""

from __future__ import annotations

import json
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.network.raw_client import RawClient, api_versions, correlation_ids
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.piped import address_of, piped, serve_options

STARTS_WITHIN = 10


def kafkapy(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    command = [sys.executable, "-m", "kafkapy", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def cpu_seconds(*program: str) -> float:
    """The CPU time of a Python program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *program], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def create_by_metadata(client: RawClient, topic: str) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        response = client.ask(request, 9)
        assert isinstance(response, MetadataResponse)
        if response.topics[0].error_code == 0:
            return
    raise AssertionError(f"{topic} was not created")


def topics(client: RawClient) -> set[str | None]:
    return {topic.name for topic in client.ask(MetadataRequest(topics=None), 9).topics}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_the_broker_cleanly(tmp_path: Path, number: int) -> None:
    with piped("-m", "kafkapy", *serve_options(tmp_path)) as process:
        with RawClient(address_of(process)) as client:
            client.send(api_versions())
            assert correlation_ids(client, 1) == [7]
            process.send_signal(number)
            assert process.wait(20) == 0
            assert client.is_closed()
        assert process.stdout is not None
        assert process.stderr is not None
        said = process.stdout.read()
        assert re.fullmatch(r"Data in \S+/data \(durability=fsync\)\nStopping\n", said)
        assert "Traceback" not in process.stderr.read()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_topics_survive_a_stop_and_a_kill(tmp_path: Path) -> None:
    for number, name in ((signal.SIGTERM, "one"), (signal.SIGKILL, "two"), (signal.SIGTERM, "three")):
        with KafkapyProcess(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
            create_by_metadata(client, name)
            broker.process.send_signal(number)
            assert broker.wait(20) is not None
    with KafkapyProcess(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert topics(client) == {"one", "two", "three"}


def test_a_fetch_that_waits_is_answered_when_the_broker_stops(tmp_path: Path) -> None:
    with KafkapyProcess(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        create_by_metadata(client, "t")
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=600_000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[partition])]
        )
        client.send(encode_request(request, 12, 1, "raw"))
        with RawClient(broker.bootstrap_servers) as other:
            create_by_metadata(other, "u")
        started = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - started < 3
        assert len(client.receive_frame()) > 4


def test_the_broker_starts_quickly(tmp_path: Path) -> None:
    """By CPU time, against that of a small program: both take more where others compute."""
    with KafkapyProcess(tmp_path):
        pass
    times, small = [], []
    for _ in range(3):
        small.append(cpu_seconds("-c", "import asyncio, decimal, json, logging, ssl, sqlite3"))
        with KafkapyProcess(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
            client.send(api_versions())
            assert correlation_ids(client, 1) == [7]
            times.append(broker.cpu_seconds)
    print("start to first answer:", ", ".join(f"{seconds:.3f} s" for seconds in times), f"({small=})")
    assert min(times) < STARTS_WITHIN * min(small)


def test_two_brokers_cannot_share_a_port(tmp_path: Path) -> None:
    with KafkapyProcess(tmp_path) as broker:
        failed = kafkapy("serve", "--data", str(tmp_path / "other"), "--listen", broker.bootstrap_servers)
        assert failed.returncode == 1
        expected = f"kafkapy: cannot listen on {broker.bootstrap_servers}: the port is in use; "
        assert failed.stderr.splitlines()[-1].startswith(expected)
        assert "Traceback" not in failed.stderr


def test_two_brokers_cannot_share_a_data_directory(tmp_path: Path) -> None:
    with KafkapyProcess(tmp_path):
        failed = kafkapy("serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
        assert failed.returncode == 1
        assert failed.stderr.splitlines()[-1].startswith("kafkapy: ")
        assert str(tmp_path / "data") in failed.stderr
        assert "Traceback" not in failed.stderr


def test_a_data_directory_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    failed = kafkapy("serve", "--data", str(tmp_path / "file" / "data"), "--listen", "127.0.0.1:0")
    assert failed.returncode == 1
    directory = tmp_path / "file" / "data"
    assert failed.stderr.splitlines()[-1].startswith(f"kafkapy: {directory} cannot be used: ")
    assert failed.stderr.endswith("choose another directory.\n")


def test_a_directory_that_the_broker_may_not_write_is_one_line_with_the_remedy() -> None:
    # In /sys not even root makes a directory.
    failed = kafkapy(
        "serve", "--listen", "127.0.0.1:0", "--data", "/sys/kafkapy-data", "--log-level", "warning"
    )
    assert failed.returncode == 1
    assert failed.stderr.startswith("kafkapy: /sys/kafkapy-data cannot be used: opening it: ")
    assert failed.stderr.endswith(
        "Run the broker as the owner of the directory and its files, or make them writable.\n"
    )
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "num.partition=3"], "unknown setting num.partition: did you mean num.partitions?"),
        (["--set", "num.partitions"], "--set num.partitions: expected KEY=VALUE"),
        (["--set", "num.partitions=x"], "num.partitions=x: expected a whole number of 32 bits"),
        (["--listen", "9092"], "--listen 9092: expected HOST:PORT, such as 127.0.0.1:9092"),
        (["--listen", "A://b:1"], "--listen A://b:1: expected HOST:PORT, such as 127.0.0.1:9092"),
        (["--data", ""], "--data is empty: name a directory"),
        (
            ["--data", "x", "--set", "log.dirs=a,b"],
            "--data and --set log.dirs are given, which mean the same: give one of them",
        ),
        (
            ["--data", "x", "--set", "log.dir=a"],
            "--data and --set log.dir are given, which mean the same: give one of them",
        ),
        (
            ["--listen", "127.0.0.1:0", "--set", "listeners=PLAINTEXT://:0"],
            "--listen and --set listeners are given, which mean the same: give one of them",
        ),
        (["--port", "9092"], "no such option '--port'. See kafkapy serve --help."),
        (["9092"], "got unexpected extra argument (9092). See kafkapy serve --help."),
        (["--log-level", "loud"], "invalid value for '--log-level': 'loud' is not one of 'debug', 'info', "),
        (["--config", "nowhere"], "cannot read nowhere: No such file or directory"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(arguments: list[str], message: str) -> None:
    failed = kafkapy("serve", *arguments)
    assert failed.returncode == 2
    assert failed.stdout == ""
    assert failed.stderr.startswith(f"kafkapy: {message}")
    assert failed.stderr.count("\n") == 1


def test_a_configuration_file_is_read_and_options_win(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path = tmp_path / "server.properties"
        path.write_text(
            f"listeners=PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}\nlog.dirs=nowhere\nnum.partitions=3\n"
            "another.key=User:admin\ncustom.key=secret\nlog.retention.msec=5\n"
            "listener.name.plaintext.num.network.threads=5\n"
        )
        options = ["--config", str(path), "--log-format", "json", "--log-level", "debug"]
        with piped("-m", "kafkapy", *serve_options(tmp_path, *options)) as process:
            with RawClient(address_of(process)) as client:
                create_by_metadata(client, "t")
                response = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
                assert len(response.topics[0].partitions) == 3
                client.send(b"GET / HTTP/1.1\r\n\r\n")
                assert client.is_closed()
            process.terminate()
            _, errors = process.communicate(timeout=20)
    lines = [json.loads(line) for line in errors.splitlines()]
    closing = [
        line
        for line in lines
        if line["logger"] == "kafkapy.network.connection" and line["level"] == "warning"
    ]
    (unknown,) = (line for line in lines if "are not known" in line["message"])
    assert unknown["level"] == "warning"
    assert unknown["message"].endswith(
        "another.key, custom.key, log.retention.msec (did you mean log.retention.ms?)"
    )
    (idle,) = (line for line in lines if "have no effect in this broker" in line["message"])
    assert idle["message"].endswith(": listener.name.plaintext.num.network.threads")
    assert "the client speaks HTTP" in closing[0]["message"]
    assert {"time", "level", "logger", "message"} == closing[0].keys()


def test_a_replication_factor_that_one_broker_cannot_have_is_named_at_start(tmp_path: Path) -> None:
    options = serve_options(tmp_path, "--set", "offsets.topic.replication.factor=3")
    with piped("-m", "kafkapy", *options) as process:
        assert address_of(process)
        process.terminate()
        _, errors = process.communicate(timeout=20)
    (warning,) = [line for line in errors.splitlines() if " WARNING " in line]
    assert "offsets.topic.replication.factor=3, and brokers: 1." in warning


def test_help_and_version_say_what_there_is() -> None:
    assert "serve" in kafkapy("--help").stdout
    shown = kafkapy("serve", "--help").stdout
    for option in ("--data", "--listen", "--config", "--set", "--log-level", "--log-format"):
        assert option in shown
