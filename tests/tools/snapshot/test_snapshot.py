"""`kafkapy snapshot`: copies of data directories that brokers open, and archives."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kafkapy
from kafkapy.cli import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["snapshot", *map(str, arguments)])


def values(path: Path) -> list[bytes | None]:
    with kafkapy.Broker(snapshot=path) as broker:
        return [record.value for record in broker.records("orders")]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with kafkapy.Broker(data_dir=tmp_path / "data", config={"log.segment.bytes": 1 << 20}) as broker:
        for number in range(10):
            broker.produce("orders", value=str(number).ljust(400_000))
    return tmp_path / "data"


def test_a_directory_shares_closed_segments_and_copies_the_last(data: Path, tmp_path: Path) -> None:
    result = run(data, tmp_path / "new")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.endswith(f"kafkapy serve --data {tmp_path / 'new'}\n")
    logs = sorted((tmp_path / "new" / "orders-0").glob("*.log"))
    assert [each.stat().st_nlink for each in logs] == [2, 2, 2, 2, 1]
    assert len(values(tmp_path / "new")) == 10
    with kafkapy.Broker(data_dir=data) as broker:
        broker.produce("orders", value="later")
    assert len(values(tmp_path / "new")) == 10


@pytest.mark.parametrize("name", ["new.tar", "new.tar.gz", "new.tgz"])
def test_an_archive_is_one_that_tar_and_brokers_unpack(data: Path, tmp_path: Path, name: str) -> None:
    assert run(data, tmp_path / name).exit_code == 0
    assert len(values(tmp_path / name)) == 10
    (tmp_path / "unpacked").mkdir()
    subprocess.run(["tar", "xf", tmp_path / name, "-C", tmp_path / "unpacked"], check=True)
    assert len(values(tmp_path / "unpacked")) == 10
    assert run(tmp_path / name, tmp_path / "again").exit_code == 0
    assert len(values(tmp_path / "again")) == 10


def test_a_killed_broker_leaves_a_directory_that_can_be_copied(tmp_path: Path) -> None:
    broker = kafkapy.Broker(data_dir=tmp_path / "data")
    broker.start()
    for number in range(10):
        broker.produce("orders", value=str(number))
    broker.kill()
    for name in ("new", "new.tar.gz"):
        assert run(tmp_path / "data", tmp_path / name).exit_code == 0
        assert len(values(tmp_path / name)) == 10


def test_what_cannot_be_copied_is_one_line(data: Path, tmp_path: Path) -> None:
    with kafkapy.Broker(data_dir=data):
        assert "in use by a running broker: stop it" in run(data, tmp_path / "new").stderr
    assert "data exists: name a new one" in run(data, data).stderr
    assert "does not exist: make it first" in run(data, tmp_path / "no" / "new").stderr
    assert "has no metadata.db" in run(tmp_path, tmp_path / "new").stderr
    assert "expected a directory, or a name with .tar, .tar.gz, .tgz" in run(data, tmp_path / "n.zip").stderr
    assert not (tmp_path / "n.zip").exists()
    (tmp_path / "x.tar").write_bytes(b"no tar")
    assert "x.tar is damaged, or no archive: " in run(tmp_path / "x.tar", tmp_path / "new").stderr
    with tarfile.open(tmp_path / "y.tar", "w"):
        pass
    assert "y.tar is no snapshot: it has no metadata.db" in run(tmp_path / "y.tar", tmp_path / "new").stderr
    assert not (tmp_path / "new").exists()


def test_a_copy_within_a_data_directory_is_refused(data: Path, tmp_path: Path) -> None:
    for new in (data / "copy", data / "orders-0" / "copy.tar"):
        assert f"is in the data directory {data}" in run(data, new).stderr
        assert not new.exists()
    (tmp_path / "link").symlink_to(data)
    assert f"is in the data directory {data}" in run(data, tmp_path / "link" / "copy").stderr


def test_an_archive_with_wrong_bytes_is_one_line(data: Path, tmp_path: Path) -> None:
    archive = tmp_path / "x.tar.gz"
    assert run(data, archive).exit_code == 0
    content = bytearray(archive.read_bytes())
    content[100:200] = bytes(100)
    archive.write_bytes(content)
    failed = run(archive, tmp_path / "new")
    assert failed.exit_code == 1
    assert failed.stderr.startswith(f"kafkapy: {archive} ")
    assert failed.stderr.count("\n") == 1
