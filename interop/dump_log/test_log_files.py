"""Logs written here are, byte for byte, those that Apache Kafka writes.

Each opens the other's.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from interop.dump_log.judge import dump, read_log, write_log
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.records import Compression, Record, build_batch
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.validate import AppendOrigin
from tests.loop.turned_clock import START_MS, TurnedClock
from tests.storage.log_harness import TP, Logs, append, fill, names

pytestmark = pytest.mark.jvm

# Segments of a few dozen batches, closed by time or by a full index.
SETTINGS = {"segment.ms": "30000", "index.interval.bytes": "4096", "segment.index.bytes": "256"}
CONFIG = LogConfig.from_mapping(SETTINGS)
NOW_MS = time.time_ns() // 1_000_000
"""Kafka's log has no clock by hand: producers of long ago are forgotten."""

Append = tuple[int, bool, bytes]


@pytest.fixture(scope="module", autouse=True)
def _jars() -> None:
    with skipped_without_jars():
        kafka_jars()


def appends(seed: int, count: int = 400) -> list[Append]:
    """Batches of every kind.

    They have all codecs, times that jump, epochs that rise, and idempotent and transactional producers.
    """
    chance = random.Random(seed)
    made: list[Append] = []
    sequences: dict[int, int] = {}
    epoch, clock = 0, NOW_MS - 200_000
    open_txns: set[int] = set()
    for _ in range(count):
        if chance.random() < 0.02:
            epoch += chance.randrange(1, 4)
        clock += chance.randrange(0, 500)
        if open_txns and chance.random() < 0.1:
            producer = chance.choice(sorted(open_txns))
            open_txns.discard(producer)
            kind = chance.choice([ControlType.ABORT, ControlType.COMMIT])
            marker = Record(timestamp=clock, key=control_record_key(kind), value=end_txn_marker_value(1))
            batch = build_batch(
                [marker], producer_id=producer, producer_epoch=0, transactional=True, control=True
            )
            made.append((epoch, True, bytes(batch)))
            continue
        records = [
            Record(
                timestamp=clock - chance.randrange(0, 2000) + index,
                key=None if chance.random() < 0.5 else chance.randbytes(chance.randrange(20)),
                value=b"%d" % index * chance.randrange(1, 300),
                headers=[("h", b"v")] if chance.random() < 0.3 else [],
            )
            for index in range(chance.randrange(1, 20))
        ]
        producer = chance.choice([-1, -1, 5, 6, 7, 8])
        sequence = -1
        if producer >= 0:
            sequence = sequences.get(producer, 0)
            sequences[producer] = sequence + len(records)
        if producer >= 7:
            open_txns.add(producer)
        batch = build_batch(
            records,
            compression=chance.choice(list(Compression)),
            producer_id=producer,
            producer_epoch=min(producer, 0),
            base_sequence=sequence,
            transactional=producer >= 7,
        )
        made.append((epoch, False, bytes(batch)))
    return made


def write_here(logs: Logs, made: list[Append]) -> None:
    log = logs.log
    for epoch, coordinator, batch in made:
        origin = AppendOrigin.COORDINATOR if coordinator else AppendOrigin.CLIENT
        append(log, bytearray(batch), leader_epoch=epoch, origin=origin, now_ms=NOW_MS)
    log.check()


def new_logs(root: Path, folder: str = "data") -> Logs:
    return Logs(root, config=CONFIG, clock=TurnedClock(NOW_MS), dirs=(folder,))


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_batches_make_the_same_files(tmp_path: Path, seed: int) -> None:
    made = appends(seed)
    logs = new_logs(tmp_path)
    write_here(logs, made)
    logs.stop()
    theirs = tmp_path / "kafka" / str(TP)
    theirs.parent.mkdir()
    write_log(theirs, made, SETTINGS)
    assert len(names(logs.path, ".log")) > 2
    assert names(logs.path, ".txnindex")
    assert names(logs.path) == names(theirs)
    for name in names(theirs):
        # Snapshots keep all five batches of a producer here, the last one there.
        if not name.endswith(".snapshot"):
            assert (logs.path / name).read_bytes() == (theirs / name).read_bytes(), name


@pytest.mark.parametrize("clean", [True, False])
def test_kafka_opens_our_log(tmp_path: Path, clean: bool) -> None:
    logs = new_logs(tmp_path)
    write_here(logs, appends(3))
    log = logs.log
    expected = {
        "start": 0,
        "end": log.log_end_offset,
        "segments": len(log.segments),
        "batches": 400,
        "records": log.log_end_offset,
        "epochs": [list(entry) for entry in log.leader_epochs.entries],
        "topic_id": "AAECAwQFBgcICQoLDA0ODw",
        "producers": "{"
        + ", ".join(f"{id_}={entry.last_sequence}" for id_, entry in sorted(log.producers))
        + "}",
    }
    if clean:
        logs.stop()
    else:
        log.flush()
        logs.crash()
    assert read_log(logs.path, clean=clean) == expected


@pytest.mark.parametrize("clean", [True, False])
def test_we_open_kafkas_log(tmp_path: Path, clean: bool) -> None:
    made = appends(4)
    logs = new_logs(tmp_path)
    write_here(logs, made)
    ours = logs.log
    logs.stop()
    other = tmp_path / "kafka"
    other.mkdir()
    write_log(other / str(TP), made, SETTINGS)
    if clean:
        (other / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
        offsets = f"0\n1\n{TP.topic} {TP.partition} {ours.log_end_offset}\n"
        (other / "recovery-point-offset-checkpoint").write_text(offsets)
    theirs = new_logs(tmp_path, "kafka").log
    theirs.check()
    assert theirs.log_end_offset == ours.log_end_offset
    assert theirs.leader_epochs.entries == ours.leader_epochs.entries
    assert theirs.topic_id == ours.topic_id
    assert theirs.aborted_transactions(0, ours.log_end_offset) == ours.aborted_transactions(
        0, ours.log_end_offset
    )
    assert {id_: entry.last_sequence for id_, entry in theirs.producers} == {
        id_: entry.last_sequence for id_, entry in ours.producers
    }


def test_kafka_dump_log_finds_our_indexes_sane(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=200_000))
    fill(logs.log, 2000, step=7)
    logs.stop()
    logs_of = [logs.path / name for name in names(logs.path, ".log")]
    indexes = [path.with_suffix(suffix) for path in logs_of for suffix in (".index", ".timeindex")]
    sane = dump(*indexes, options=["--index-sanity-check"])
    assert sane.count("passed sanity check") == len(indexes)
    verified = dump(*indexes, options=["--verify-index-only"])
    assert "Mismatches" not in verified
    assert "Found timestamp mismatch" not in verified
    shown = dump(*logs_of, options=["--deep-iteration", "--print-data-log"])
    lines = [line for line in shown.splitlines() if line.startswith("| offset:")]
    assert len(lines) == 2000
    assert f"| offset: 1999 CreateTime: {START_MS + 7 * 1999} " in lines[-1]
    assert "isvalid: false" not in shown
