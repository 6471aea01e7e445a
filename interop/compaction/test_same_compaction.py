"""What stays of a log is what stays after Apache Kafka's own cleaner."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from interop.dump_log.judge import dump, read_log
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars, program_command
from kafkapy.protocol.records import decode_records, iter_headers
from kafkapy.storage.log.partition_log import PartitionLog
from tests.loop.turned_clock import TurnedClock
from tests.storage.cleaning.harness import compact
from tests.storage.cleaning.test_model import CONFIG, Life
from tests.storage.log_harness import Logs

pytestmark = pytest.mark.jvm

NOW_MS = time.time_ns() // 1_000_000
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "index.interval.bytes": str(CONFIG.index_interval_bytes),
    "segment.index.bytes": str(CONFIG.segment_index_bytes),
    "delete.retention.ms": str(CONFIG.delete_retention_ms),
}
ROUNDS_MS = (0, CONFIG.delete_retention_ms + 1, 2 * CONFIG.delete_retention_ms + 2)


@pytest.fixture(scope="module", autouse=True)
def _jars() -> None:
    with skipped_without_jars():
        kafka_jars()


class Batch(NamedTuple):
    """What both sides must agree on.

    Of a batch that was rewritten, the base timestamp may differ.
    """

    first_offset: int
    last_offset: int
    attributes: int
    delete_horizon: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: tuple[str, ...]


def kafka_cleaner(folder: Path, command: str, map_bytes: int, *times: int) -> list[list[Batch]]:
    """The batches that Kafka leaves after each pass; or those that it finds."""
    settings = ";".join(f"{name}={value}" for name, value in SETTINGS.items())
    run = subprocess.run(
        [
            *program_command(Path(__file__).with_name("CleanerJudge.java"), "-Xmx512m"),
            command,
            str(folder),
            str(map_bytes),
            settings,
            *map(str, times),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    passes: list[list[Batch]] = []
    for line in run.stdout.splitlines():
        if line == "pass":
            passes.append([])
        elif passes:
            *numbers, records = line.split(" ")
            passes[-1].append(Batch(*map(int, numbers), tuple(filter(None, records.split(",")))))  # type: ignore[call-arg, arg-type]
    return passes


def batches_of(log: PartitionLog) -> list[Batch]:
    """The same of our log."""
    batches = []
    for segment in log.segments:
        data = Path(segment.path).read_bytes()[: segment.size]
        for position, header in iter_headers(data):
            records = decode_records(data, position, header)
            batches.append(
                Batch(
                    header.base_offset,
                    header.last_offset,
                    header.attributes & 0x3F,
                    header.base_timestamp if header.has_delete_horizon else -1,
                    header.max_timestamp,
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    tuple(
                        f"{each.offset}:{each.timestamp}:{_size(each.key)}:{_size(each.value)}"
                        for each in records
                    ),
                )
            )
    return batches


def _size(field: bytes | None) -> int:
    return -1 if field is None else len(field)


def dirty_log(root: Path, seed: int) -> Logs:
    """A log with all that compaction meets, closed in order: nothing of it was compacted."""
    life = Life(root, random.Random(seed))
    life.clock.show_ms(NOW_MS - 600_000)
    for _ in range(150):
        life.chance.choices((life.append, life.transact, life.roll), (6, 4, 1))[0]()
        life.clock.turn_ms(life.chance.randrange(1000))
    life.end_all()
    life.log.roll()
    life.log.flush()
    life.logs.stop()
    return life.logs


@pytest.mark.parametrize("seed", [1, 2])
def test_each_pass_leaves_what_apache_kafkas_leaves(tmp_path: Path, seed: int) -> None:
    logs = dirty_log(tmp_path / "ours", seed)
    theirs = tmp_path / "theirs" / logs.path.name
    shutil.copytree(logs.path, theirs)
    times = [NOW_MS + each for each in ROUNDS_MS]
    expected = kafka_cleaner(theirs, "clean", 1 << 20, *times)
    log = logs.restart()
    log.advance_high_watermark(log.log_end_offset)
    for now_ms, kafkas in zip(times, expected, strict=True):
        logs.clock.show_ms(now_ms)
        log.cleaned_offset = None
        assert compact(logs.manager, log) is not None
        ends = {segment.base_offset for segment in log.segments}
        ours = batches_of(log)
        # One thing is different on purpose: an empty batch at the end of a segment.
        kept = [each for each in ours if each in kafkas or each.records or each.last_offset + 1 not in ends]
        assert kept == kafkas
    logs.crash()


def test_a_map_without_room_leaves_the_same_records_in_the_end(tmp_path: Path) -> None:
    logs = dirty_log(tmp_path / "ours", 3)
    theirs = tmp_path / "theirs" / logs.path.name
    shutil.copytree(logs.path, theirs)
    [expected] = kafka_cleaner(theirs, "clean", 24 * 12, NOW_MS)
    log = logs.restart()
    log.advance_high_watermark(log.log_end_offset)
    logs.clock.show_ms(NOW_MS)
    rounds = 0
    while compact(logs.manager, log, map_bytes=24 * 12) is not None:
        rounds += 1
    assert rounds > 2
    assert [r for each in batches_of(log) for r in each.records] == [
        r for each in expected for r in each.records
    ]
    logs.crash()


def test_apache_kafka_reads_what_is_compacted_here(tmp_path: Path) -> None:
    logs = dirty_log(tmp_path / "ours", 4)
    log = logs.restart()
    log.advance_high_watermark(log.log_end_offset)
    logs.clock.show_ms(NOW_MS)
    compact(logs.manager, log)
    ours, end = batches_of(log), log.log_end_offset
    files = [Path(segment.path) for segment in log.segments if segment.size]
    logs.stop()
    dumped = dump(*files, options=["--deep-iteration"])
    assert dumped.count("| offset: ") == sum(len(each.records) for each in ours)
    indexes = [
        path for path in sorted(logs.path.iterdir()) if path.suffix in (".index", ".timeindex", ".txnindex")
    ]
    assert "mismatch" not in dump(*indexes, options=["--index-sanity-check"]).lower()
    assert kafka_cleaner(logs.path, "read", 1 << 20) == [ours]
    for clean in (True, False):
        found = read_log(logs.path, clean=clean)
        assert found["end"] == end
        assert found["records"] == sum(len(each.records) for each in ours)


def test_what_apache_kafka_compacted_opens_here_after_a_crash(tmp_path: Path) -> None:
    logs = dirty_log(tmp_path / "ours", 5)
    renamed = tmp_path / "log" / logs.path.name
    shutil.copytree(logs.path, renamed)
    [expected] = kafka_cleaner(renamed, "clean", 1 << 20, NOW_MS)
    shutil.rmtree(logs.path)
    shutil.copytree(renamed, logs.path)
    opened = Logs(tmp_path / "ours", config=CONFIG, clock=TurnedClock(NOW_MS))
    log = opened.restart(clean=False)
    assert batches_of(log) == expected
    assert log.log_end_offset == expected[-1].last_offset + 1
    log.check()
    opened.crash()
