"""Which batches a Delta table holds, by the commits of its log.

interop/spark has real tables.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from kafkapy.pipeline.tables.batch import Batch, differences
from kafkapy.pipeline.tables.delta_log import DeltaLog

if TYPE_CHECKING:
    from kafkapy.pipeline.stores import HadoopFiles


class LocalFiles:
    """`HadoopFiles` without Spark; counts what is read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.read: list[str] = []

    def exists(self, name: str) -> bool:
        return (self._folder / name).exists()

    def read_text(self, name: str) -> str:
        self.read.append(name)
        return (self._folder / name).read_text()


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    (tmp_path / "_delta_log").mkdir()
    return LocalFiles(tmp_path)


def commit(folder: Path, version: int, metadata: str | None) -> Path:
    info = {"timestamp": 1, "operation": "WRITE"}
    if metadata is not None:
        info["userMetadata"] = metadata
    path = folder / "_delta_log" / f"{version:020d}.json"
    actions = [{"txn": {"appId": "a", "version": version}}, {"commitInfo": info}, {"add": {"path": "x"}}]
    path.write_text("\n".join(map(json.dumps, actions)) + "\n")
    return path


def log_of(files: LocalFiles) -> DeltaLog:
    return DeltaLog(cast("HadoopFiles", files))


def batch(number: int) -> Batch:
    return Batch("orders-1", number, {0: (number, number + 1), 7: (0, 1_000_000)})


def test_a_table_without_commits_has_no_batch(files: LocalFiles) -> None:
    assert list(log_of(files).batches()) == []


def test_batches_come_newest_first_without_what_others_committed(files: LocalFiles, tmp_path: Path) -> None:
    log = log_of(files)
    for version, metadata in enumerate([None, batch(0).to_json(), "of mine", "[1]", '{"a": 1}', "3"]):
        commit(tmp_path, version, metadata)
    assert list(log.batches()) == [batch(0)]
    commit(tmp_path, 6, batch(1).to_json())
    commit(tmp_path, 7, None)
    assert list(log.batches()) == [batch(1), batch(0)]


def test_the_newest_commit_is_read_once(files: LocalFiles, tmp_path: Path) -> None:
    log = log_of(files)
    commit(tmp_path, 0, batch(0).to_json())
    for _ in range(3):
        assert next(log.batches()) == batch(0)
    assert len(files.read) == 1


def test_a_log_whose_old_commits_were_deleted_says_so(files: LocalFiles, tmp_path: Path) -> None:
    for version in range(10, 14):
        commit(tmp_path, version, batch(version).to_json())
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text('{"version": 11, "size": 3}')
    assert list(log_of(files).batches()) == [batch(13), batch(12), batch(11), batch(10), None]


def test_a_batch_without_offsets_is_one_of_a_former_version() -> None:
    assert Batch.from_mapping({"app_id": "a", "batch_id": "4"}) == Batch("a", 4, None)


def test_differences_name_the_first_partitions_that_differ() -> None:
    planned = dict.fromkeys(range(6), (0, 10))
    written = {0: (0, 10), 1: (5, 10), 2: (0, 9)}
    assert differences(planned, written) == (
        "partition 1 is 0 to 9 here and 5 to 9 in the table, partition 2 is 0 to 9 here and 0 to 8 in the "
        "table, partition 3 is 0 to 9 here and nothing in the table, ..."
    )
