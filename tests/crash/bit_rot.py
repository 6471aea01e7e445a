"""A log directory with every kind of file, its contents, and ways to damage it.

`Original.make` writes the directory: logs with several segments, all codecs, transactions, idempotent
producers, deleted records. `spoil` damages one file as a disk may: a bit, a field, bytes twice, cut short,
emptied. `examine` loads what is left and reads every offset of every log as consumers do.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import Compression, Record, build_batch, decode_records, iter_headers
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.disk.log_directory import LogDirectoryError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.txn_index import AbortedTxn
from tests.loop.turned_clock import START_MS, TurnedClock
from tests.storage.log_harness import search

CLUSTER = "bHVzdGVyLW9mLWJpdC1yb3"
CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=400, segment_index_bytes=2000)
PLAIN, TRANSACTIONAL = TopicPartition("plain", 0), TopicPartition("transactional", 0)
TOPIC_IDS = {PLAIN: bytes(range(1, 17)), TRANSACTIONAL: bytes(range(101, 117))}
BATCHES = 60
RECORDS_IN_A_BATCH = 3
DELETED_BELOW = 4

BATCH_FIELDS = {
    "base offset": (0, 8), "length": (8, 12), "leader epoch": (12, 16), "magic": (16, 17), "crc": (17, 21),
    "attributes": (21, 23), "last offset delta": (23, 27), "timestamps": (27, 43), "producer": (43, 57),
    "count": (57, 61), "records": (61, 100),
}  # fmt: skip
ENTRY_SIZES = {".index": 8, ".timeindex": 12, ".txnindex": 34, ".snapshot": 46}

Served = dict[int, tuple[bytes, int]]
"""What consumers get, by offset: a record with all that a client sees of it, and its leader epoch."""


@dataclass(slots=True)
class Original:
    """A directory as it was written, and what it holds."""

    path: Path
    records: dict[TopicPartition, Served] = field(default_factory=dict)
    aborted: dict[TopicPartition, list[AbortedTxn]] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    times: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    """The first offset at or after a time."""
    indexes: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def make(cls, path: Path, *, clean: bool) -> Original:
        """Write the directory; if not `clean`, the broker is killed after a flush."""
        manager = _manager(path)
        for tp in (PLAIN, TRANSACTIONAL):
            log = manager.create(tp, TOPIC_IDS[tp], CONFIG, new=True)
            _fill(log, random.Random(tp.topic), transactional=tp is TRANSACTIONAL)
            log.flush()
            log.advance_high_watermark(log.log_end_offset)
        manager.logs[PLAIN].advance_log_start_offset(DELETED_BELOW)
        for write in (
            manager.checkpoint_recovery_points(),
            manager.checkpoint_log_start_offsets(),
            manager.checkpoint_high_watermarks(),
        ):
            write()
        made = cls(path)
        for tp, log in manager.logs.items():
            made.records[tp], refused = _served(log)
            assert not refused
            made.aborted[tp] = log.aborted_transactions(0, log.log_end_offset)
            made.ends[tp] = log.log_end_offset
            made.times[tp] = {}
            for number in range(0, BATCHES, 3):
                found = search(log, START_MS + number * 10 + 1)
                assert found is not None
                made.times[tp][START_MS + number * 10 + 1] = found.offset
        manager.close(clean=clean)
        if clean:
            made.indexes = {
                str(file.relative_to(path)): file.read_bytes()
                for file in path.glob("*/*")
                if file.suffix in (".index", ".timeindex")
            }
        return made

    def files(self) -> list[Path]:
        """Every file that may rot, relative to the directory."""
        return sorted(
            file.relative_to(self.path)
            for file in self.path.rglob("*")
            if file.is_file() and file.name not in (".lock", ".kafkapy_reserve")
        )


def _manager(path: Path) -> LogManager:
    path.mkdir(exist_ok=True)
    manager = LogManager([path], defaults=CONFIG, clock=TurnedClock())
    manager.open()
    manager.load(CLUSTER, 1)
    return manager


def _fill(log: PartitionLog, chance: random.Random, *, transactional: bool) -> None:
    """Append as a follower does, which gets transactions from its leader without a coordinator."""
    sequence = 0
    for number in range(BATCHES):
        values = [
            b"%d " % number + chance.randbytes(chance.randrange(20, 120)) for _ in range(RECORDS_IN_A_BATCH)
        ]
        batch = build_batch(
            [Record(-1, START_MS + number * 10 + index, b"key", value) for index, value in enumerate(values)],
            compression=Compression(number % 5),
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=transactional,
            base_offset=log.log_end_offset,
            leader_epoch=number // 20,
        )
        log.append_as_follower(memoryview(batch), now_ms=START_MS)
        sequence += len(values)
        if transactional and number % 6 == 5:
            kind = ControlType.ABORT if number % 12 == 5 else ControlType.COMMIT
            marker = build_batch(
                [Record(-1, START_MS + number * 10, control_record_key(kind), end_txn_marker_value(0))],
                producer_id=7,
                producer_epoch=0,
                transactional=True,
                control=True,
                base_offset=log.log_end_offset,
                leader_epoch=number // 20,
            )
            log.append_as_follower(memoryview(marker), now_ms=START_MS)


def _served(log: PartitionLog) -> tuple[Served, set[int]]:
    """Return the records that a consumer gets if it skips refused offsets, and those offsets."""
    served: Served = {}
    refused: set[int] = set()
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            read = log.read(offset, 2000, upper_bound=log.log_end_offset)
        except KafkaError as error:
            if error.code not in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR):
                raise
            refused.add(offset)
            offset += 1
            continue
        assert read is not None, f"nothing at offset {offset} of {log}"
        data = read.slice.read()
        read.slice.release()
        last = offset
        for position, header in iter_headers(data):
            for record in decode_records(data, position, header):
                facts = repr((record, header.producer_id, header.attributes)).encode()
                if record.offset >= offset:
                    served[record.offset] = facts, header.partition_leader_epoch
            last = header.last_offset
        assert last >= offset, f"a read at {offset} gives nothing new: {log}"
        offset = last + 1
    return served, refused


# --- damage -------------------------------------------------------------------------------------------------


def spoil(path: Path, chance: random.Random) -> str:
    """Damage a file, and return how."""
    data = bytearray(path.read_bytes())
    ways: list[Callable[[Path, bytearray, random.Random], str]] = [_flip, _flip, _flip, _zero, _double, _cut]
    if not data:
        return "was empty"
    what = chance.choice([*ways, _empty])(path, data, chance)
    path.write_bytes(data)
    return f"{path.name}: {what}"


def _flip(path: Path, data: bytearray, chance: random.Random) -> str:
    start, end, name = _field(path, data, chance)
    position = chance.randrange(start, end)
    bit = chance.randrange(8)
    data[position] ^= 1 << bit
    return f"bit {bit} of byte {position} flipped ({name})"


def _zero(path: Path, data: bytearray, chance: random.Random) -> str:
    start, end, name = _field(path, data, chance)
    data[start:end] = bytes(end - start)
    return f"bytes {start} to {end} zeroed ({name})"


def _double(_: Path, data: bytearray, chance: random.Random) -> str:
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.randrange(1, 64))
    data[start:start] = data[start:end]
    return f"bytes {start} to {end} are there twice"


def _cut(_: Path, data: bytearray, chance: random.Random) -> str:
    size = chance.randrange(len(data))
    del data[size:]
    return f"cut short at {size}"


def _empty(_: Path, data: bytearray, __: random.Random) -> str:
    data.clear()
    return "emptied"


def _field(path: Path, data: bytearray, chance: random.Random) -> tuple[int, int, str]:
    """Start, end and name of a field in the file."""
    if path.suffix == ".log":
        position, header = chance.choice(list(iter_headers(bytes(data))))
        name, (start, end) = chance.choice(list(BATCH_FIELDS.items()))
        return position + start, min(position + end, position + header.size), name
    size = ENTRY_SIZES.get(path.suffix)
    if size and len(data) >= size:
        start = chance.randrange(0, len(data) // size) * size
        at = chance.randrange(0, size, 2)
        return start + at, start + min(at + chance.choice((2, 4, 8)), size), f"byte {at} of an entry"
    start = chance.randrange(len(data))
    return start, min(start + chance.choice((1, 2, 8)), len(data)), "text"


# --- judging ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Verdict:
    """The result of loading a damaged directory."""

    wrong: list[str] = field(default_factory=list)
    """Records that are served and are not those that were written."""
    silent: list[str] = field(default_factory=list)
    """Records that are lost without an error."""
    refused: int = 0
    offline: int = 0
    other_beginnings: int = 0
    """Of aborted transactions, at another batch of their producer, of logs, and of leader epochs, at the next
    batch: no checksum covers them."""


def examine(spoiled: Path, original: Original) -> Verdict:
    """Load the directory and read all of it.

    Raises where a broker would not start.

    It may refuse to, in one line, where meta.properties names another broker: a changed digit makes one.
    """
    verdict = Verdict()
    try:
        manager = _manager(spoiled)
    except LogDirectoryError as error:
        if "belongs to broker" not in str(error):
            raise
        verdict.offline += len(original.records)
        return verdict
    try:
        assert not manager.offline_dirs, manager.offline_dirs
        for tp, records in original.records.items():
            try:
                log = manager.create(tp, TOPIC_IDS[tp], CONFIG)
            except StorageError:
                verdict.offline += 1
                continue
            log.advance_high_watermark(log.log_end_offset)
            if DELETED_BELOW < log.log_start_offset <= log.log_end_offset and tp == PLAIN:
                # Kafka's file does not show that a digit of the log start offset is wrong.
                verdict.other_beginnings += 1
                continue
            served, refused = _served(log)
            verdict.refused += len(refused)
            for offset, record in served.items():
                if offset in records and _is_in_the_next_epoch(offset, record, records):
                    verdict.other_beginnings += 1
                elif records.get(offset) not in (None, record):
                    verdict.wrong.append(f"{tp}@{offset}: {record!r} for {records[offset]!r}")
                elif offset not in records and offset >= DELETED_BELOW:
                    verdict.wrong.append(f"{tp}@{offset}: {record!r} was never written")
            missing = set(records) - set(served) - refused
            if missing:
                verdict.silent.append(f"{tp}: {sorted(missing)[:10]}, start {log.log_start_offset}")
            _judge_aborted(log, tp, original, refused, verdict)
            _judge_times(log, tp, original, refused, verdict)
        manager.checkpoint_recovery_points()()
    finally:
        manager.close(clean=True)
    return verdict


def _is_in_the_next_epoch(offset: int, record: tuple[bytes, int], records: Served) -> bool:
    """Return whether only a record's leader epoch is wrong: it is that of a batch next to it."""
    facts, epoch = records[offset]
    around = range(offset - RECORDS_IN_A_BATCH, offset + RECORDS_IN_A_BATCH + 1)
    return (
        record[0] == facts
        and record[1] != epoch
        and any(record[1] == records[each][1] for each in around if each in records)
    )


def _judge_aborted(
    log: PartitionLog, tp: TopicPartition, original: Original, refused: set[int], verdict: Verdict
) -> None:
    found = {(each.producer_id, each.last_offset): each for each in log.aborted_transactions(0, 1 << 62)}
    for txn in original.aborted[tp]:
        its = found.pop((txn.producer_id, txn.last_offset), None)
        if its is not None and its.first_offset != txn.first_offset:
            verdict.other_beginnings += 1
        if its is None and not refused & set(range(txn.first_offset, txn.last_offset + 1)):
            verdict.wrong.append(f"{tp}: the records of {txn} are served as committed")
    for extra in found.values():
        verdict.wrong.append(f"{tp}: {extra} was not aborted")


def _judge_times(
    log: PartitionLog, tp: TopicPartition, original: Original, refused: set[int], verdict: Verdict
) -> None:
    for timestamp, offset in original.times[tp].items():
        try:
            found = search(log, timestamp)
        except KafkaError:
            assert refused, "a log without damage cannot be searched"
            continue
        if found is not None and found.offset < DELETED_BELOW:
            continue  # The log start offset is lost: deleted records are there again.
        if offset not in refused and (found is None or found.offset != offset):
            verdict.wrong.append(f"{tp}: {found} is the first at {timestamp}, not {offset}")


def newest_times(path: Path) -> dict[str, int]:
    """Return the highest timestamp of each segment, by file name, as retention reads it.

    An index that does not fit is rebuilt for that: a search by time does without it.
    """
    manager = _manager(path)
    try:
        logs = [manager.create(tp, TOPIC_IDS[tp], CONFIG) for tp in TOPIC_IDS]
        return {
            str(Path(segment.path).relative_to(path)): segment.largest_timestamp
            for log in logs
            for segment in log.segments
        }
    finally:
        manager.close(clean=True)


def copy(original: Original, target: Path) -> Path:
    shutil.copytree(original.path, target)
    return target
