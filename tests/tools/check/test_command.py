"""`kafkapy check`: one line a finding, an exit status, JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkapy.cli import main
from kafkapy.tools.check.check import Check
from kafkapy.tools.check.command import check
from kafkapy.tools.check.finding import Finding
from tests.tools.check.directories import files, flip, killed, stopped


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


def test_what_the_tried_start_logs_is_not_shown(tmp_path: Path) -> None:
    path = killed(tmp_path, flushed=False)
    flip(files(path, ".log")[1], 80)
    result = subprocess.run(
        [sys.executable, "-m", "kafkapy", "check", str(path)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stdout.startswith("repaired: ")
    assert result.stderr == ""


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
    program = (
        "import sys, kafkapy.cli; print([name for name in sys.modules if name.startswith('kafkapy.tools')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_a_directory_that_is_named_twice_is_checked_once(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    (tmp_path / "link").symlink_to(path.parent)
    for named in (
        [path.parent, path.parent],
        [path.parent, tmp_path / "link"],
        [path, path.parent],
        [path] * 2,
    ):
        result = CliRunner().invoke(check, [str(each) for each in named])
        assert result.exit_code == 0, result.output
        assert result.output.startswith("1 partition, ")


def test_output_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    for command, status in (("check", 2), ("dump-log", 1)):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "kafkapy", command, str(path)],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
                check=False,
            )
        assert done.stderr == "kafkapy: standard output: No space left on device.\n"
        assert done.returncode == status


def test_a_check_that_is_interrupted_says_so_and_exits_with_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stopped(tmp_path)

    def interrupted(*_: object) -> Iterator[Finding]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(Check, "run", interrupted)
    with pytest.raises(SystemExit) as exited:
        main.main(["check", str(path)], prog_name="kafkapy")
    assert exited.value.code == 130
    assert capsys.readouterr().err.strip() == "kafkapy: interrupted."
