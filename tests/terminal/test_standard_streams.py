"""Commands whose standard streams are closed, as by a service manager or `>&-`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kafkapy


def run_without(descriptor: int, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end with one of its standard streams closed."""
    streams: list[int | None] = [subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE]
    streams[descriptor] = None
    return subprocess.run(
        [sys.executable, "-m", "kafkapy", *arguments],
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        preexec_fn=lambda: os.close(descriptor),
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("descriptor", [0, 1, 2])
def test_a_check_without_a_standard_stream_ends_with_its_own_status(tmp_path: Path, descriptor: int) -> None:
    with kafkapy.Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topics({"orders": 1})
    ended = run_without(descriptor, "check", str(tmp_path / "data"))
    assert (ended.returncode, ended.stderr or b"") == (0, b"")


@pytest.mark.parametrize("descriptor", [0, 1, 2])
def test_a_list_without_a_standard_stream_ends_with_success(descriptor: int) -> None:
    with kafkapy.Broker() as broker:
        ended = run_without(descriptor, "topics", "list", "--bootstrap-server", broker.bootstrap_servers)
    assert ended.returncode == 0
    assert ended.stderr in (None, b"there are no topics.\n")
