"""Half of Apache Kafka's metadata never passes for all of it.

A topic that it does not name would count as deleted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from interop.support.kafka_process import KafkaProcess
from kafkapy.protocol.records import iter_headers
from tests.tools.migrate.harness import files_of, refusal, run

pytestmark = pytest.mark.jvm

LOG = f"__cluster_metadata-0/{0:020d}.log"


@pytest.fixture(scope="module")
def kafka_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of Kafka 4.3.1 with two topics, stopped in order."""
    with KafkaProcess(tmp_path_factory.mktemp("kafka"), heap="512m") as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        for made in admin.create_topics([NewTopic("x", 2, 1), NewTopic("y", 1, 1)]).values():
            made.result(30)
    return server.data


def flip(path: Path) -> None:
    """One bit, in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut_in_a_batch(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 1)


def cut_between_batches(path: Path) -> None:
    positions = [position for position, _ in iter_headers(path.read_bytes())]
    os.truncate(path, positions[len(positions) // 2])


def empty(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("damage", [flip, cut_in_a_batch, cut_between_batches, empty, Path.unlink])
@pytest.mark.parametrize("in_place", [False, True], ids=["copy", "in place"])
def test_an_import_refuses_it_and_changes_nothing(
    kafka_data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path], None],
    in_place: bool,
) -> None:
    data = tmp_path / "data"
    shutil.copytree(kafka_data, data)
    damage(data / LOG)
    before = files_of(data)
    told = refusal(capsys, "import", data, "--in-place" if in_place else tmp_path / "here")
    assert "__cluster_metadata-0" in told
    assert "Restore it from a copy." in told
    assert files_of(data) == before
    assert not (tmp_path / "here").exists()


def test_whole_metadata_are_taken(
    kafka_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Imported 2 topics with 3 partitions" in run(capsys, "import", kafka_data, tmp_path / "here")
