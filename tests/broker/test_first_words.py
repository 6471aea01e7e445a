"""What an operator reads when a broker starts, or does not start."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.piped import address_of, piped, serve_options


def without(module: str) -> str:
    """The program kafkapy, where a module cannot be imported."""
    return f"import sys; sys.modules[{module!r}] = None\nfrom kafkapy.cli import main; main()"


def serve(*options: str, lacking: str = "") -> subprocess.CompletedProcess[str]:
    """Run `kafkapy serve` to its end, without the module `lacking`."""
    program = ("-c", without(lacking)) if lacking else ("-m", "kafkapy")
    command = [sys.executable, *program, "serve", "--listen", "127.0.0.1:0", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_data_directory_that_cannot_be_one_is_no_lost_disk(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    ended = serve("--data", str(file))
    assert ended.returncode == 1
    assert "CRITICAL" not in ended.stderr
    assert f"kafkapy: {file} cannot be used: opening it:" in ended.stderr


def test_one_of_two_directories_that_cannot_be_opened_is_offline(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    both = Path(f"{first},{second}")
    with KafkapyProcess(tmp_path, data=both) as broker:
        assert broker.stop() == 0
    shutil.rmtree(second)
    second.touch()
    with KafkapyProcess(tmp_path, data=both) as broker:
        assert f"CRITICAL kafkapy.storage.disk.log_directory: The log directory {second} is offline" in (
            broker.log_path.read_text()
        )


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--set", "log.segment.bytes=none"), 2),
        (("--set", "nonsense"), 2),
        (("--data", "/dev/null"), 1),
    ],
    ids=["a setting", "an option", "a directory"],
)
def test_the_reason_why_a_start_fails_is_json_where_the_log_is(options: tuple[str, ...], code: int) -> None:
    ended = serve("--log-format", "json", *options)
    assert ended.returncode == code
    last = [json.loads(line) for line in ended.stderr.splitlines()][-1]
    assert last["level"] == "error"
    assert options[1].partition("=")[0] in last["message"]


def test_lines_of_text_have_a_time_zone(tmp_path: Path) -> None:
    with piped("-m", "kafkapy", *serve_options(tmp_path)) as process:
        assert address_of(process)
        process.terminate()
        _, said = process.communicate(timeout=20)
    assert said
    for line in said.splitlines():
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d{4} [A-Z]+ ", line)


def test_a_file_of_zookeeper_mode_is_told_both_ways_out(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=0\nzookeeper.connect=127.0.0.1:1\nzookeeper.connection.timeout.ms=1\n")
    ended = serve("--config", str(file), "--data", str(tmp_path / "data"), lacking="kazoo")
    assert ended.returncode == 1
    assert "pip install '.[zookeeper]' in a checkout" in ended.stderr
    assert "add --set zookeeper.connect=" in ended.stderr


def test_a_file_of_zookeeper_mode_serves_a_broker_alone_if_told_so(tmp_path: Path) -> None:
    with KafkapyProcess(
        tmp_path, properties={"zookeeper.connect": ""}, file={"zookeeper.connect": "127.0.0.1:1"}
    ) as broker:
        assert broker.stop() == 0


@pytest.mark.parametrize(
    "module", ["protocol._walker", "storage.disk._sync_queue", "storage.cleaning._compactor"]
)
def test_a_compiled_part_that_is_missing_is_named_once(tmp_path: Path, module: str) -> None:
    with KafkapyProcess(tmp_path, program=("-c", without(f"kafkapy.{module}"))) as broker:
        assert broker.log_path.read_text().count(f"The compiled parts are missing (kafkapy.{module})") == 1


@pytest.mark.parametrize("listener", ["0.0.0.0", "[::]"])
def test_a_listener_that_others_reach_is_a_danger(tmp_path: Path, listener: str) -> None:
    with KafkapyProcess(tmp_path, address=listener) as broker:
        assert "there is no access control" in broker.log_path.read_text()


@pytest.mark.parametrize("listener", ["127.0.0.1", "localhost", "[::1]"])
def test_a_listener_of_this_machine_is_none(tmp_path: Path, listener: str) -> None:
    with KafkapyProcess(tmp_path, address=listener) as broker:
        said = broker.log_path.read_text()
        assert "there is no access control" not in said
        assert "WARNING" not in said
