"""Commands whose standard streams are closed, or have an encoding without some characters."""

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


@pytest.mark.parametrize(
    ("encoding", "shown"), [("utf-8", "3 € 日".encode()), ("latin-1", rb"3 \u20ac \u65e5")]
)
def test_a_record_that_the_locale_cannot_show_is_escaped(encoding: str, shown: bytes) -> None:
    with kafkapy.Broker() as broker:
        broker.produce("prices", value="3 € 日")
        broker.produce("prices", value="the next")
        command = [sys.executable, "-m", "kafkapy", "consume", "prices", "--from-beginning", "--exit"]
        ended = subprocess.run(
            [*command, "--bootstrap-server", broker.bootstrap_servers],
            env={**os.environ, "PYTHONIOENCODING": encoding},
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 0
    assert ended.stdout.startswith(shown)
    assert ended.stdout.endswith(b"\nthe next\n")


def test_a_path_that_is_not_text_is_shown(tmp_path: Path) -> None:
    with kafkapy.Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topics({"orders": 1})
    odd = os.fsencode(tmp_path) + b"/d\xff"
    (tmp_path / "data").rename(Path(os.fsdecode(odd)))
    (Path(os.fsdecode(odd)) / "orders-0" / "00000000000000000007.log.deleted").touch()
    command = [sys.executable, "-m", "kafkapy", "check", os.fsdecode(odd)]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.startswith(b"harmless: ")
