"""`kafkapy cluster` runs brokers that replicate, in one process for a terminal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.test_cluster import QUIET, read

COMMAND = (sys.executable, "-m", "kafkapy", "cluster")


def test_brokers_replicate_until_they_are_told_to_stop(tmp_path: Path) -> None:
    addresses = set()
    for run in range(2):
        with subprocess.Popen(
            [*COMMAND, "--brokers", "3", "--first-id", "0", "--data", str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                servers = process.stdout.readline().removeprefix("Listening on ").strip()
                addresses.add(servers)
                client = AdminClient({"bootstrap.servers": servers, **QUIET})
                assert set(client.list_topics(timeout=10).brokers) == {0, 1, 2}
                if run == 0:
                    client.create_topics([NewTopic("t", 1)])["t"].result()
                assert len(client.list_topics("t", timeout=10).topics["t"].partitions[0].replicas) == 3
                producer = Producer({"bootstrap.servers": servers, **QUIET})
                producer.produce("t", b"%d" % run)
                assert producer.flush(30) == 0
                assert read(servers, "t", 0, run + 1) == [b"0", b"1"][: run + 1]
            finally:
                process.terminate()
                left, _ = process.communicate(timeout=60)
            assert (process.returncode, left) == (0, "Stopping\n")
    assert len(addresses) == 1  # with --data, its brokers come back to their ports


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--brokers", "0"), 2, "0 is not in the range x>=1"),
        (("--set", "min.insync.replicas=none"), 2, "kafkapy: min.insync.replicas=none: "),
        (("--set", "zookeeper.connect=localhost:2181"), 2, "kafkapy: zookeeper.connect: a cluster in one"),
        (
            ("--set", "broker.id=7"),
            2,
            "kafkapy: broker.id: a cluster in one process gives each broker its own",
        ),
        (("--data", "/dev/null"), 1, "kafkapy: "),
    ],
)
def test_a_wrong_setting_is_one_line(arguments: Sequence[str], code: int, told: str) -> None:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert told in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
