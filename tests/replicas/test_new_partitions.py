"""The files of new partitions are created in the background."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkapy
from kafkapy.storage.disk.files import FileSystem
from tests.handlers.produce_client import batch, create_topic, fetch, produce, values
from tests.network.raw_client import RawClient


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_each_partition_of_a_new_topic_gets_its_directory(tmp_path: Path) -> None:
    with kafkapy.Broker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "orders", 70)
        create_topic(client, "bills")
        wait_until(lambda: all((tmp_path / f"orders-{index}").is_dir() for index in range(70)))
        wait_until((tmp_path / "bills-0" / "partition.metadata").exists)


def test_what_found_no_room_gets_its_directory_when_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = 0
    create, is_full = FileSystem.create, True

    def create_or_fail(files: FileSystem, path: str) -> None:
        nonlocal failed
        if is_full and "/orders-" in path:
            failed += 1
            raise OSError(errno.ENOSPC, "No space left on device", path)
        create(files, path)

    monkeypatch.setattr(FileSystem, "create", create_or_fail)
    with kafkapy.Broker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "orders", 3)
        wait_until(lambda: failed > 3)
        assert not list(tmp_path.glob("orders-*"))
        is_full = False
        wait_until(lambda: len(list(tmp_path.glob("orders-*/partition.metadata"))) == 3)
        assert [answer.error_code for answer in produce(client, "orders", batch(b"a"))] == [0]
        (data,) = fetch(client, "orders", 0)
        assert values(data) == [b"a"]
