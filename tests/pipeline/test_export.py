"""`kafkapy pipeline export`: a topic from its files as Parquet, all of it or nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

import kafkapy
from kafkapy.cli import main
from kafkapy.log.arrow_columns import schema
from kafkapy.log.read_options import ReadOptions
from kafkapy.pipeline.export import Progress, export
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.offline.offline_error import LogSourceError
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from tests.log.reading import Transactions, contents
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import TOPIC_ID, Logs, append, batch, fill


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """Partition 0 with 50 records in several segments, partition 1 with three."""
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=1000))
    fill(logs.log, 50)
    other = logs.manager.create(TopicPartition("events", 1), TOPIC_ID, LogConfig(), new=True)
    append(other, batch(b"x", b"y", b"z"))
    return logs


def run(logs: Logs, *arguments: str, topic: str = "events", to: str | None = None) -> Result:
    target = to or f"parquet:{logs.root}/exported"
    command = ["pipeline", "export", topic, "--data-dir", str(logs.root / "data"), "--to", target]
    return CliRunner().invoke(main, [*command, *arguments])


def exported(folder: Path) -> list[tuple[int, int]]:
    """Partition and offset of each row, in order of the files' names."""
    found = []
    for path in sorted(folder.iterdir()):
        rows = pq.read_table(path)
        assert rows.schema == schema(headers=True)
        found += list(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
    return found


EVERYTHING = [*((0, offset) for offset in range(50)), (1, 0), (1, 1), (1, 2)]


def test_all_partitions_become_files_of_one_folder(logs: Logs, tmp_path: Path) -> None:
    result = run(logs)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"53 rows of events in {tmp_path}/exported (2 files, ")
    names = sorted(path.name for path in (tmp_path / "exported").iterdir())
    assert names == ["events-0-00000000000000000000.parquet", "events-1-00000000000000000000.parquet"]
    assert exported(tmp_path / "exported") == EVERYTHING
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "exported"]


def test_the_rows_are_those_of_the_source(logs: Logs, tmp_path: Path) -> None:
    assert run(logs, "--partitions", "0").exit_code == 0
    table = pq.read_table(tmp_path / "exported")
    shutil.rmtree(logs.root / "data" / "events-1")
    values = [(offset, value) for offset, _, _, value, _ in contents(logs)]
    assert list(zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True)) == values


@pytest.mark.parametrize(
    ("arguments", "offsets"),
    [
        (("--partitions", "1"), [(1, 0), (1, 1), (1, 2)]),
        (("--partitions", "0", "--start", '{"0": 48}'), [(0, 48), (0, 49)]),
        (("--partitions", "0", "--end", '{"0": 2}'), [(0, 0), (0, 1)]),
        (("--start", str(START_MS + 48)), [(0, 48), (0, 49)]),
        (("--end", "2023-11-14T22:13:20.001Z"), [(0, 0), (1, 0)]),
        (("--start", "latest"), []),
        (("--partitions", "0-1"), EVERYTHING),
    ],
)
def test_a_part_can_be_chosen(
    logs: Logs, tmp_path: Path, arguments: tuple[str, ...], offsets: list[tuple[int, int]]
) -> None:
    assert run(logs, *arguments).exit_code == 0
    assert exported(tmp_path / "exported") == offsets


def test_aborted_records_can_be_had_too(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    writer = Transactions(logs.log)
    writer.write(1, b"a")
    writer.end(1, abort=True)
    writer.plain(b"b")
    assert run(logs).exit_code == 0
    assert run(logs, "--isolation", "read_uncommitted", to=f"parquet:{tmp_path}/all").exit_code == 0
    assert exported(tmp_path / "exported") == [(0, 2)]
    assert exported(tmp_path / "all") == [(0, 0), (0, 2)]


def test_an_empty_folder_may_be_there_and_parents_are_made(logs: Logs, tmp_path: Path) -> None:
    (tmp_path / "exported").mkdir()
    assert run(logs).exit_code == 0
    assert run(logs, to=f"parquet:{tmp_path}/a/b/c").exit_code == 0
    assert exported(tmp_path / "exported") == exported(tmp_path / "a/b/c") == EVERYTHING


def test_a_running_broker_is_read_up_to_what_it_has_acknowledged(tmp_path: Path) -> None:
    with kafkapy.Broker(data_dir=tmp_path / "data") as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(100):
            producer.produce("running", b"%d" % number)
        assert producer.flush(30) == 0
        options = ReadOptions((str(tmp_path / "data"),), ("running",))
        assert export(options, tmp_path / "up").rows == 100
    assert export(options, tmp_path / "down").rows == 100


# --- what cannot be done ------------------------------------------------------------------------------------


WRONG = [
    ("--partitions", "0,5", "There is no partition 5 of events in {root}/data; there are 0, 1."),
    ("--partitions", "x", "--partitions x: expected numbers, such as 0,2,5-7"),
    (
        "--start",
        '{"0": 48}',
        "--start leaves out events-1: name every partition; -2 stands for earliest, -1 for latest.",
    ),
    (
        "--start",
        "soon",
        "--start: expected a time like 2025-01-31T12:00:00Z or epoch milliseconds, not 'soon'; or else "
        "earliest, latest, offsets such as '{\"0\": 12}'",
    ),
    ("--to", "delta:/x", "--to delta:/x: an export writes Parquet; write parquet:PATH"),
    ("--to", "parquet:{root}/data", "{root}/data is there already: remove it, or export to another place."),
    (
        "--to",
        "parquet:{root}/data/.lock/x",
        "{root}/data/.lock/x cannot be made: {root}/data/.lock is not a directory.",
    ),
    ("--data-dir", "{root}/dta", "There is no directory {root}/dta: name the data directory of a broker."),
    (
        "--data-dir",
        "{root}/data/.lock",
        "{root}/data/.lock is not a directory: name the data directory of a broker.",
    ),
    (
        "--data-dir",
        "{root}",
        "There is no topic events in {root}, nor any other: name the data directory of a broker.",
    ),
]


@pytest.mark.parametrize(("option", "value", "message"), WRONG)
def test_what_cannot_be_done_is_one_line(
    logs: Logs, tmp_path: Path, option: str, value: str, message: str
) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    result = run(logs, option, value.replace("{root}", str(tmp_path)))
    assert result.stderr == f"kafkapy: {message.replace('{root}', str(tmp_path))}\n"
    assert result.exit_code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_missing_topic_is_answered_with_near_names(logs: Logs) -> None:
    result = run(logs, topic="event")
    assert result.stderr == (f"kafkapy: There is no topic event in {logs.root}/data; did you mean events?\n")
    result = run(logs, topic="orders")
    assert result.stderr == f"kafkapy: There is no topic orders in {logs.root}/data; there are events.\n"


def test_a_directory_that_may_not_be_read_is_one_line(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: ReadOnlyFiles, path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(ReadOnlyFiles, "scan", refuse)
    result = run(logs)
    assert result.stderr == f"kafkapy: {logs.root}/data cannot be read: Permission denied.\n"


def test_damage_leaves_no_part_of_an_export(logs: Logs, tmp_path: Path) -> None:
    path = logs.path / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    options = ReadOptions((str(tmp_path / "data"),), ("events",))
    with pytest.raises(LogSourceError, match="is damaged at byte"):
        export(options, tmp_path / "exported")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_a_full_disk_leaves_no_part_of_an_export(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "ParquetWriter", refuse)
    options = ReadOptions((str(tmp_path / "data"),), ("events",))
    with pytest.raises(PipelineError, match=r"exported cannot be written: No space left on device\."):
        export(options, tmp_path / "exported")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_an_export_that_is_interrupted_leaves_nothing(logs: Logs, tmp_path: Path) -> None:
    class Interrupted(Progress):
        def planned(self, nbytes: int) -> None:
            assert nbytes == logs.log.size + (logs.root / "data/events-1" / f"{0:020d}.log").stat().st_size

        def read(self, nbytes: int, rows: int) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(ReadOptions((str(tmp_path / "data"),), ("events",)), tmp_path / "exported", Interrupted())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_progress_counts_the_bytes_and_rows_that_there_are(logs: Logs, tmp_path: Path) -> None:
    class Counting(Progress):
        total = nbytes = rows = 0

        def planned(self, nbytes: int) -> None:
            self.total = nbytes

        def read(self, nbytes: int, rows: int) -> None:
            self.nbytes += nbytes
            self.rows += rows

    progress = Counting()
    export(ReadOptions((str(tmp_path / "data"),), ("events",)), tmp_path / "exported", progress)
    assert (progress.nbytes, progress.rows) == (progress.total, 53)


def test_neither_spark_nor_a_kafka_client_is_imported(logs: Logs, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "for name in ('pyspark', 'confluent_kafka'): sys.modules[name] = None\n"
        "from kafkapy.cli import main\n"
        "try: main()\n"
        "finally: assert 'pandas' not in sys.modules\n"
    )
    arguments = ["pipeline", "export", "events", "--data-dir", str(tmp_path / "data")]
    command = [sys.executable, "-c", code, *arguments, "--to", f"parquet:{tmp_path}/exported"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert exported(tmp_path / "exported") == EVERYTHING
