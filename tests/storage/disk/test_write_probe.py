"""A probe says whether a write would block, and does not block itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkapy.storage.disk.write_probe import PureWriteProbe, WriteProbe, new_write_probe
from tests.crash.loop_disk import LoopDisk, why_not
from tests.network.raw_client import eventually

PATIENCE = 0.02
TWINS = pytest.mark.parametrize("make", [PureWriteProbe, new_write_probe])

Make = Callable[[int, float, float], WriteProbe]


@TWINS
@pytest.mark.parametrize("fresh", [0.0, 60.0])
def test_a_file_that_takes_writes_passes_and_does_not_change(
    make: Make, fresh: float, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    before = path.stat()
    fd = os.open(path, os.O_RDWR)
    probe = make(fd, fresh, PATIENCE)
    assert all(probe.passes() for _ in range(100))
    probe.close()
    os.close(fd)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (b"content", before.st_mtime_ns)


@TWINS
def test_the_error_of_a_write_is_left_to_the_write_itself(make: Make) -> None:
    reading, writing = os.pipe()
    probe = make(reading, 0.0, PATIENCE)
    assert probe.passes()
    probe.close()
    os.close(reading)
    os.close(writing)


@TWINS
def test_a_closed_probe_keeps_nobody_from_writing(make: Make, tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    probe = make(fd, 0.0, PATIENCE)
    assert probe.passes()
    probe.close()
    probe.close()
    os.close(fd)
    assert probe.passes()


@pytest.mark.slow
@TWINS
def test_a_frozen_file_system_does_not_pass_until_it_is_thawed(make: Make, tmp_path: Path) -> None:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with LoopDisk(tmp_path / "disk", megabytes=24) as disk:
        fd = os.open(disk.path / "file", os.O_RDWR | os.O_CREAT)
        probe = make(fd, 0.0, PATIENCE)
        assert probe.passes()
        with disk.frozen():
            assert [probe.passes() for _ in range(100)] == [False] * 100
        eventually(probe.passes, "the probe passes")
        with disk.frozen():
            assert not probe.passes()
            probe.close()  # the thread that is stuck ends by itself
        del probe
        os.close(fd)
