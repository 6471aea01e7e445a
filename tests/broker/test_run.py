"""`kafkapy run` runs a command beside a broker of its own, and ends as the command does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafkapy.run import VARIABLES

COMMAND = (sys.executable, "-m", "kafkapy", "run")

_LIST_TOPICS = """
import json, os, sys
from confluent_kafka.admin import AdminClient

servers = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
topics = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=20).topics
partitions = {name: len(topic.partitions) for name, topic in topics.items()}
print(json.dumps([partitions, {name: os.environ[name] for name in sys.argv[1:]}]))
sys.exit(3)
"""


def ended(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60)


def test_the_command_finds_the_broker_and_its_topics() -> None:
    names = (*VARIABLES, "MY_BROKER")
    options = ("--topic", "orders:6", "--topic", "one", "--env", "MY_BROKER", "--set", "broker.id=7")
    result = ended(*options, "--", sys.executable, "-c", _LIST_TOPICS, *names)
    assert (result.returncode, result.stderr) == (3, "")
    partitions, addresses = json.loads(result.stdout)
    assert partitions == {"orders": 6, "one": 1}
    assert set(addresses) == set(names)
    assert len(set(addresses.values())) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("no-such-command",), 127, "there is no command no-such-command"),
        (("/",), 126, "/ cannot be run: Permission denied"),
        (("--", "sh", "-c", "kill -9 $$"), 137, ""),
        ((), 2, "missing argument 'COMMAND...'. See kafkapy run --help."),
        (("--topic", "a:0", "true"), 2, "--topic a:0: expected NAME or NAME:PARTITIONS"),
        (("--env", "A=b", "true"), 2, "--env A=b: expected the NAME of a variable"),
        (("--topic", "a b", "true"), 1, "topic a b: Topic name is invalid"),
        (("--set", "x", "true"), 2, "--set x: expected KEY=VALUE"),
        (("--set", "listeners=PLAINTEXT://256.0.0.1:1", "true"), 1, "256.0.0.1"),
    ],
)
def test_what_does_not_work_is_told_in_one_line(arguments: tuple[str, ...], code: int, told: str) -> None:
    result = ended(*arguments)
    assert result.returncode == code
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == bool(told)


def test_the_options_of_the_command_are_its_own() -> None:
    result = ended("printf", "%s", "--topic")
    assert (result.returncode, result.stdout) == (0, "--topic")


def test_a_signal_goes_on_to_the_command(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f'trap "exit 9" TERM; echo > {ready}; while :; do sleep 0.05; done'
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([*COMMAND, "--", "sh", "-c", script], env=environment)
    try:
        deadline = time.monotonic() + 30
        while not ready.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 9
    finally:
        process.kill()
        process.wait()
    assert list(tmp_path.iterdir()) == [ready]
