"""`kafkapy check`: one line a finding, an exit status, JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkapy.check_dir.command import check
from tests.check_dir.directories import files, flip, killed, stopped


def test_a_sound_directory_exits_with_0(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    result = CliRunner().invoke(check, [str(path.parent)])
    assert result.exit_code == 0
    [line] = result.output.splitlines()
    assert line.startswith("1 partition, ")
    assert line.endswith("nothing is wrong")


def test_a_finding_is_one_line_and_exits_with_1(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    log = files(path, ".log")[0]
    flip(log, 80)
    result = CliRunner().invoke(check, [str(path.parent)])
    assert result.exit_code == 1
    line, summary = result.output.splitlines()
    assert line.startswith(f"damaged: {log} at byte 0, offset 0: the CRC is wrong")
    assert "Restore the partition" in line
    assert summary.endswith("1 damaged")


def test_what_is_harmless_exits_with_0(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    (path / f"{0:020d}.log.deleted").touch()
    result = CliRunner().invoke(check, [str(path.parent)])
    assert result.exit_code == 0
    assert result.output.startswith("harmless: ")


def test_json_has_one_object_a_line(tmp_path: Path) -> None:
    path = killed(tmp_path)
    (path / "partition.metadata").write_text("rubbish")
    result = CliRunner().invoke(check, ["--json", "--deep", str(path.parent)])
    finding, summary = map(json.loads, result.output.splitlines())
    assert finding["kind"] == "finding"
    assert finding["severity"] == "repaired"
    assert finding["file"] == str(path / "partition.metadata")
    assert summary["kind"] == "summary"
    assert summary["findings"] == {"harmless": 0, "repaired": 1, "damaged": 0}
    assert summary["partitions"] == 1


@pytest.mark.parametrize("name", ["missing", "a-file", "empty"])
def test_what_is_no_data_directory_exits_with_2_and_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "a-file").touch()
    (tmp_path / "empty").mkdir()
    result = CliRunner().invoke(check, [str(tmp_path / name)])
    assert result.exit_code == 2
    assert len(result.output.splitlines()) == 1
    assert str(tmp_path / name) in result.output


def test_a_bar_leaves_standard_output_as_it_is(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    flip(files(path, ".log")[0], 80)
    command = [sys.executable, "-m", "kafkapy", "check", str(path.parent)]
    terminal, other_end = os.openpty()
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=other_end, text=True, timeout=60, check=False
        )
    finally:
        os.close(other_end)
        os.close(terminal)
    finding, _ = done.stdout.splitlines()
    assert finding.startswith("damaged: ")


def test_the_command_hangs_in_the_command_line_and_serve_starts_without_it(tmp_path: Path) -> None:
    stopped(tmp_path)
    command = [sys.executable, "-m", "kafkapy", "check", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    program = "import sys, kafkapy.cli; print([name for name in sys.modules if 'check_dir' in name])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
