"""Wrong input is answered with one line, and nothing is made.

The line names the mistake and the remedy.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkapy.inprocess import Broker
from kafkapy.storage.disk.files import FileSystem
from kafkapy.tools.migrate import zookeeper
from tests.tools.migrate.harness import files_of, refusal, run, run_any, write_directory

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    write_directory(path)
    return path


def test_a_directory_that_is_not_there(tmp_path: Path, capsys: Capture) -> None:
    for command in (["export", "--to", "kraft"], ["import"]):
        told = refusal(capsys, *command, tmp_path / "nowhere", tmp_path / "target")
        assert told == f"There is no directory {tmp_path}/nowhere: name the data directory of a broker."


def test_a_directory_of_something_else(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "other").mkdir()
    for command in (["export", "--to", "kraft"], ["import"]):
        told = refusal(capsys, *command, tmp_path / "other", tmp_path / "target")
        assert "has no meta.properties" in told
    assert [path.name for path in tmp_path.rglob("*")] == ["other"]


def test_a_target_that_is_there(home: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "precious").touch()
    told = refusal(capsys, "export", home, tmp_path / "target", "--to", "kraft")
    assert told == f"{tmp_path}/target exists: name a directory that does not exist yet."


def test_a_target_that_another_run_is_writing(home: Path, tmp_path: Path, capsys: Capture) -> None:
    partial = tmp_path / "target.partial"
    partial.mkdir()
    lock = FileSystem().lock(str(partial / ".lock"))
    told = refusal(capsys, "export", home, tmp_path / "target", "--to", "kraft")
    lock.release()
    assert told == f"Another run is writing {partial}: wait until it ends."
    assert partial.exists()


def test_a_target_that_is_a_file(home: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "target").touch()
    assert "exists" in refusal(capsys, "export", home, tmp_path / "target", "--to", "kraft")


def test_an_empty_target_is_taken(home: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "target").mkdir()
    run(capsys, "export", home, tmp_path / "target", "--to", "kraft")
    assert (tmp_path / "target" / "meta.properties").exists()


def test_a_broker_that_runs(tmp_path: Path, capsys: Capture) -> None:
    with Broker(data_dir=tmp_path / "home"):
        told = refusal(capsys, "export", tmp_path / "home", tmp_path / "target", "--to", "kraft")
    assert told.endswith("(its .lock is locked): stop the broker first.")


def test_the_wrong_direction(home: Path, tmp_path: Path, capsys: Capture) -> None:
    told = refusal(capsys, "import", home, tmp_path / "target")
    assert told == f"{home} is already a data directory of kafkapy: start kafkapy serve --data {home}"


@pytest.mark.parametrize("arguments", [["export", "--to", "foo"], ["export", "--to", "kraft"], ["import"]])
def test_wrong_usage_exits_with_2(home: Path, tmp_path: Path, capsys: Capture, arguments: list[str]) -> None:
    targets = [tmp_path / "target"] if "foo" in arguments else []
    code, out, err = run_any(capsys, *arguments, home, *targets)
    assert (code, out) == (2, "")
    assert err.endswith(f" See kafkapy {arguments[0]} --help.\n")


def test_a_target_within_the_source_or_another_target(tmp_path: Path, capsys: Capture) -> None:
    homes = [tmp_path / "one", tmp_path / "two"]
    write_directory(*homes)
    files, named = files_of(*homes), ",".join(map(str, homes))
    (tmp_path / "link").symlink_to(homes[1])
    out = tmp_path / "out"
    for targets in ((homes[0] / "out", out), (out, tmp_path / "link" / "out"), (out, out), (out, out / "in")):
        told = refusal(capsys, "export", named, ",".join(map(str, targets)), "--to", "kraft")
        assert "name a directory outside it." in told
    assert files_of(*homes) == files
    assert not out.exists()


def test_a_target_within_the_data_directory_of_another_broker(
    home: Path, tmp_path: Path, capsys: Capture
) -> None:
    write_directory(tmp_path / "other")
    told = refusal(capsys, "export", home, tmp_path / "other" / "out", "--to", "kraft")
    assert f"is in the data directory {tmp_path}/other" in told
    assert not (tmp_path / "other" / "out").exists()


def test_a_target_that_cannot_be_made(home: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / ("t" * 300)
    told = refusal(capsys, "export", home, target, "--to", "kraft")
    assert told == f"{target} cannot be made: File name too long."


def test_somebody_elses_folder_of_the_name_that_is_written(
    home: Path, tmp_path: Path, capsys: Capture
) -> None:
    partial = tmp_path / "target.partial"
    partial.mkdir()
    (partial / "thesis").write_text("mine")
    told = refusal(capsys, "export", home, tmp_path / "target", "--to", "kraft")
    assert told == f"{partial} is in the way, and no earlier run wrote it: move it away."
    assert (partial / "thesis").read_text() == "mine"
    (partial / "thesis").rename(partial / ".lock")
    assert "is in the way" in refusal(capsys, "export", home, tmp_path / "target", "--to", "kraft")
    (partial / ".lock").write_text("")
    run(capsys, "export", home, tmp_path / "target", "--to", "kraft")
    assert not (tmp_path / "target" / ".lock").read_bytes()


def test_no_target_or_two_ways(home: Path, tmp_path: Path, capsys: Capture) -> None:
    assert "--in-place" in refusal(capsys, "import", home)
    assert "give either" in refusal(capsys, "import", home, tmp_path / "target", "--in-place")
    assert "2 targets" in refusal(capsys, "import", f"{home},{tmp_path}", tmp_path / "target")


@pytest.mark.parametrize("kind", ["kafka", "zookeeper", "zookeeper:", "kraft:3.9"])
def test_an_unknown_destination(home: Path, tmp_path: Path, capsys: Capture, kind: str) -> None:
    told = refusal(capsys, "export", home, tmp_path / "target", "--to", kind)
    assert told == f"--to {kind}: give kraft or zookeeper:HOST:PORT. See kafkapy export --help."


def test_an_address_that_is_none(home: Path, tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("kazoo")
    told = refusal(capsys, "export", home, tmp_path / "target", "--to", "zookeeper:localhost:port")
    assert told == "localhost:port is not the address of a ZooKeeper: give HOST:PORT or HOST:PORT/PATH."


def test_a_zookeeper_that_does_not_answer(
    home: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kazoo")
    monkeypatch.setattr(zookeeper, "_SECONDS", 0.3)
    files = files_of(home)
    told = refusal(capsys, "export", home, tmp_path / "target", "--to", "zookeeper:127.0.0.1:1/kafka")
    assert told == "ZooKeeper does not answer at 127.0.0.1:1: start it, or correct the address."
    assert not list(tmp_path.iterdir())
    assert files_of(home) == files


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        (None, "cannot read {file}: No such file or directory"),
        ("zookeeper.set.acl=true", "zookeeper.set.acl=true: nodes cannot belong to a broker without a name"),
        ("zookeeper.sasl.jaas.config=x.DigestLoginModule required;", "zookeeper.sasl.jaas.config: "),
        ("config.providers=env", "config.providers=env: this broker loads no Java classes"),
    ],
)
def test_a_file_that_does_not_say_how_to_come_in_at_zookeeper(
    home: Path, tmp_path: Path, capsys: Capture, properties: str | None, reason: str
) -> None:
    file = tmp_path / "server.properties"
    if properties is not None:
        file.write_text(f"broker.id=1\n{properties}\n")
    option = ("--zookeeper-config", file)
    for command in (["export", "--to", "zookeeper:localhost:1"], ["import", "--zookeeper", "localhost:1"]):
        told = refusal(capsys, *command, home, tmp_path / "target", *option)
        assert told.startswith(f"--zookeeper-config: {reason.format(file=file)}")
    told = refusal(capsys, "import", home, tmp_path / "target", *option)
    assert told.startswith("--zookeeper-config: no ZooKeeper is named.")
    assert not (tmp_path / "target").exists()


def test_a_damaged_metadata_file(tmp_path: Path, capsys: Capture) -> None:
    home = tmp_path / "home"
    write_directory(home)
    (home / "metadata.db").write_bytes(b"not SQLite" * 500)
    told = refusal(capsys, "export", home, tmp_path / "target", "--to", "kraft")
    assert "is damaged" in told
    assert not (tmp_path / "target").exists()


def test_damaged_meta_properties(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "meta.properties").write_text("version=7\n")
    told = refusal(capsys, "import", tmp_path / "home", tmp_path / "target")
    assert told.startswith("The owner of this directory is unknown:")


def test_no_metadata_where_they_are_said_to_be(tmp_path: Path, capsys: Capture) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "meta.properties").write_text("version=1\ncluster.id=a\nnode.id=1\n")
    told = refusal(capsys, "import", home, tmp_path / "target", "--metadata", tmp_path)
    assert told == f"There is no {tmp_path}/__cluster_metadata-0: name Kafka's metadata.log.dir."


def test_one_of_two_log_directories(tmp_path: Path, capsys: Capture) -> None:
    homes = [tmp_path / "one", tmp_path / "two"]
    write_directory(*homes)
    for command in (["export", "--to", "kraft"], ["import"]):
        for named, missing in (homes, homes[::-1]):
            told = refusal(capsys, *command, named, tmp_path / "target")
            assert told.startswith(f"{missing} is missing, but was a log directory of this broker")
    assert not (tmp_path / "target").exists()


def test_one_of_two_log_directories_that_do_not_know_each_other(tmp_path: Path, capsys: Capture) -> None:
    homes = [tmp_path / "one", tmp_path / "two"]
    write_directory(*homes)
    for home in homes:
        lines = (home / "meta.properties").read_text().splitlines(keepends=True)
        (home / "meta.properties").write_text(
            "".join(line for line in lines if not line.startswith("log.directory."))
        )
    told = refusal(capsys, "export", homes[0], tmp_path / "target", "--to", "kraft")
    absent = {path.name for path in homes[1].iterdir() if path.is_dir()}
    assert {name.strip() for name in told.partition(":")[0].partition(" and ")[0].split(",")} <= absent
    assert "Name all of the broker's log.dirs" in told
    told = refusal(capsys, "export", homes[1], tmp_path / "target", "--to", "kraft")
    assert "is either one of several log.dirs of kafkapy" in told


def test_a_partition_whose_directory_is_gone(tmp_path: Path, capsys: Capture) -> None:
    home = tmp_path / "home"
    write_directory(home)
    shutil.rmtree(home / "orders-1")
    for way in ([tmp_path / "target"], ["--in-place"]):
        told = refusal(capsys, "export", home, *way, "--to", "kraft")
        assert told.startswith("orders-1: the partition's directory is missing.")
    assert (home / "metadata.db").exists()


def test_a_directory_that_is_apache_kafkas_already(tmp_path: Path, capsys: Capture) -> None:
    home = tmp_path / "home"
    write_directory(home)
    run(capsys, "export", home, tmp_path / "there", "--to", "kraft")
    told = refusal(capsys, "export", tmp_path / "there", tmp_path / "target", "--to", "kraft")
    assert told.endswith("it is already a data directory of Apache Kafka.")
