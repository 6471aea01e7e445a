"""Log directories know each other: what a missing one holds is not made anew, empty."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkapy.protocol.types import TopicPartition, random_uuid
from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.disk.log_directory import LogDirectoryError
from kafkapy.storage.log.log_config import LogConfig
from tests.storage.log_harness import TOPIC_ID, TP, Logs, fill

OTHER = TopicPartition("events", 1)


def two(tmp_path: Path) -> Logs:
    """A broker that stopped with a log in each of two directories.

    The first partition's is in `a`.
    """
    logs = Logs(tmp_path, dirs=("a", "b"))
    fill(logs.log, 5)
    logs.manager.create(OTHER, TOPIC_ID, LogConfig(), new=True)
    logs.stop()
    assert logs.log.directory == tmp_path / "a" / "events-0"
    return logs


def start(logs: Logs, *dirs: str) -> None:
    logs.dirs = dirs
    logs.manager = logs.new_manager()


def test_the_order_of_the_directories_does_not_matter(tmp_path: Path) -> None:
    logs = two(tmp_path)
    start(logs, "b", "a")
    assert logs.manager.offline_dirs == []
    assert logs.log.log_end_offset == 5


def test_a_directory_that_is_not_named_is_missing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logs = two(tmp_path)
    start(logs, "b")
    assert logs.manager.missing_dirs == [str(tmp_path / "a")]
    assert f"{tmp_path / 'a'}, which this broker had at its last start, is missing" in caplog.text
    with pytest.raises(StorageError, match="which is offline"):
        logs.manager.create(TP, TOPIC_ID, LogConfig())
    assert logs.manager.create(OTHER, TOPIC_ID, LogConfig()).directory == tmp_path / "b" / "events-1"
    new = logs.manager.create(TopicPartition("new", 0), random_uuid(), LogConfig(), new=True)
    assert new.directory == tmp_path / "b" / "new-0"
    logs.stop()
    start(logs, "b", "a")
    assert logs.log.log_end_offset == 5


def test_an_empty_directory_in_its_place_is_where_its_disk_should_be(tmp_path: Path) -> None:
    logs = two(tmp_path)
    (tmp_path / "a").rename(tmp_path / "elsewhere")
    (tmp_path / "a").mkdir()
    start(logs, "a", "b")
    assert logs.manager.offline_dirs == [tmp_path / "a"]
    with pytest.raises(StorageError):
        logs.manager.create(TP, TOPIC_ID, LogConfig())
    logs.stop()
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "elsewhere").rename(tmp_path / "a")
    start(logs, "a", "b")
    assert logs.log.log_end_offset == 5


def test_a_directory_that_was_renamed_is_the_same(tmp_path: Path) -> None:
    logs = two(tmp_path)
    (tmp_path / "a").rename(tmp_path / "c")
    start(logs, "b", "c")
    assert logs.manager.offline_dirs == []
    assert logs.log.log_end_offset == 5


def test_a_directory_that_lost_its_meta_properties_is_known_by_its_place(tmp_path: Path) -> None:
    logs = two(tmp_path)
    (tmp_path / "a" / "meta.properties").unlink()
    start(logs, "a", "b")
    assert logs.manager.offline_dirs == []
    logs.stop()
    start(logs, "b")
    assert logs.manager.missing_dirs == [str(tmp_path / "a")]


def test_what_was_in_a_directory_can_be_given_up(tmp_path: Path) -> None:
    logs = two(tmp_path)
    meta = tmp_path / "b" / "meta.properties"
    kept = [line for line in meta.read_text().splitlines() if not line.endswith("/a")]
    meta.write_text("\n".join(kept))
    start(logs, "b")
    assert logs.manager.missing_dirs == []
    assert logs.manager.create(TP, TOPIC_ID, LogConfig()).log_end_offset == 0


def test_a_new_directory_is_added(tmp_path: Path) -> None:
    logs = two(tmp_path)
    start(logs, "a", "b", "c")
    assert logs.manager.offline_dirs == []
    logs.stop()
    start(logs, "a", "b")
    assert logs.manager.missing_dirs == [str(tmp_path / "c")]


def test_a_copy_of_a_directory_is_refused_beside_it(tmp_path: Path) -> None:
    logs = two(tmp_path)
    shutil.copytree(tmp_path / "a", tmp_path / "c")
    with pytest.raises(LogDirectoryError, match="is a copy of the other"):
        start(logs, "a", "b", "c")


@pytest.mark.parametrize("damage", ["log.directory.???=/x", "log.directory.=", "log.directory"])
def test_a_line_that_rotted_keeps_nothing_from_starting(tmp_path: Path, damage: str) -> None:
    logs = two(tmp_path)
    for name in ("a", "b"):
        with open(tmp_path / name / "meta.properties", "a", encoding="utf-8") as file:
            file.write(f"{damage}\n")
    start(logs, "a", "b")
    assert logs.manager.offline_dirs == []
