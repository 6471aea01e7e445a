"""Commands that cannot write a file name it, and leave no part of it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import kafkapy


def run_with_small_files(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command that can write no more than 20 bytes to a file, as on a full disk."""
    return subprocess.run(
        [sys.executable, "-m", "kafkapy", *arguments],
        cwd=folder,
        env={**os.environ, "XDG_CONFIG_HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20)),
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (("diagnose", "--data", ".", "--output", "all.tar.gz"), "all.tar.gz"),
        (("context", "set", "here", "--bootstrap-server", "127.0.0.1:9092"), "kafkapy/contexts.yaml"),
        (("trace", "--to", "127.0.0.1:9092", "--write", "seen.trace"), "seen.trace"),
    ],
)
def test_a_file_that_has_no_room_is_named(tmp_path: Path, arguments: tuple[str, ...], file: str) -> None:
    ended = run_with_small_files(tmp_path, *arguments)
    assert ended.returncode == 1
    assert f"{file}: File too large." in ended.stderr
    assert "standard output" not in ended.stderr


def test_an_archive_that_has_no_room_does_not_stay(tmp_path: Path) -> None:
    run_with_small_files(tmp_path, "diagnose", "--data", ".", "--output", "all.tar.gz")
    assert not (tmp_path / "all.tar.gz").exists()


def test_an_argument_that_is_not_text_is_one_line() -> None:
    with kafkapy.Broker() as broker:
        command = [
            sys.executable,
            "-m",
            "kafkapy",
            "topics",
            "create",
            "a\udcffb",
        ]  # the byte 0xff, as Python has it
        command += ["--bootstrap-server", broker.bootstrap_servers]
        ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stderr == b"kafkapy: 'a\\udcffb' has bytes that are not UTF-8: correct that argument.\n"
