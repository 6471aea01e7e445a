"""A compacted log says of each key what a dictionary says.

That holds whatever was appended, compacted and restarted.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.records import (
    Compression,
    Record,
    TimestampType,
    build_batch,
    decode_records,
    iter_headers,
)
from kafkapy.storage.disk.files import Buffer, File
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.validate import AppendOrigin
from tests.loop.turned_clock import TurnedClock
from tests.storage.cleaning.harness import compact, compact_fully
from tests.storage.log_harness import FaultyFiles, Logs, read_bytes, verified
from tests.twins import without_compiled_parts

LIVES = int(os.environ.get("KAFKAPY_CLEANING_LIVES", "8"))
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
STEPS = 120

CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=6000,
    index_interval_bytes=200,
    segment_index_bytes=2000,
    delete_retention_ms=50_000,
    file_delete_delay_ms=0,
)


class UnsyncedFiles(FaultyFiles):
    """No power is cut here: nothing waits for the disk."""

    def sync_data(self, file: File) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        super().write_atomically(path, data, durable=False)


@dataclass
class Producer:
    producer_id: int
    transactional: bool
    sequence: int = 0
    open: list[Record] = field(default_factory=list)
    """Records of the transaction that is open."""
    in_transaction: bool = False


class Life:
    """A log, and what was done to it."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.chance = chance
        self.clock = TurnedClock()
        self.logs = Logs(root, config=CONFIG, clock=self.clock, files=UnsyncedFiles())
        self.log: PartitionLog = self.logs.log
        self.committed: dict[int, Record] = {}
        """By offset, what read_committed consumers were promised."""
        self.producers = [Producer(number, transactional=number >= 3) for number in range(1, 6)]

    def run(self) -> None:
        actions = [
            (self.append, 60),
            (self.transact, 25),
            (self.compact, 8),
            (self.pass_time, 6),
            (self.roll, 4),
            (self.restart, 2),
        ]
        kinds, weights = zip(*actions, strict=True)
        for action in self.chance.choices(kinds, weights, k=STEPS):
            action()
            self.clock.turn_ms(self.chance.randrange(1000))
        self.end_all()
        self.compact_all()

    # --- what happens ---------------------------------------------------------------------------------------

    def records(self) -> list[Record]:
        records = []
        for _ in range(self.chance.randrange(1, 7)):
            key = b"key-%d" % self.chance.randrange(25)
            value = None if self.chance.random() < 0.2 else self.chance.randbytes(self.chance.randrange(120))
            headers = [("h", b"x")] if self.chance.random() < 0.2 else []
            timestamp = self.clock.now_ms() - self.chance.randrange(5000)
            records.append(Record(-1, timestamp, key, value, headers))
        return records

    def write(self, producer: Producer | None, records: list[Record], *, transactional: bool = False) -> None:
        append_time = self.chance.random() < 0.2
        self.log.config = self.logs.config = _with_timestamps(append_time)
        batch = build_batch(
            records,
            compression=self.chance.choice([*Compression, *[Compression.NONE] * 4]),
            producer_id=-1 if producer is None else producer.producer_id,
            producer_epoch=-1 if producer is None else 0,
            base_sequence=-1 if producer is None else producer.sequence,
            transactional=transactional,
        )
        info = self.log.append(
            memoryview(batch),
            leader_epoch=0,
            origin=AppendOrigin.CLIENT,
            now_ms=self.clock.now_ms(),
            verification=verified(self.log, batch),
        )
        for offset, record in enumerate(records, info.first_offset):
            record.offset = offset
            if append_time:
                record.timestamp = self.clock.now_ms()
        if producer is not None:
            producer.sequence += len(records)
        if transactional:
            assert producer is not None
            producer.open += records
        else:
            self.committed.update({record.offset: record for record in records})
        self.log.advance_high_watermark(self.log.log_end_offset)

    def append(self) -> None:
        producer = self.chance.choice([None, *self.producers[:2]])
        self.write(producer, self.records())

    def transact(self) -> None:
        producer = self.chance.choice(self.producers[2:])
        if producer.in_transaction and self.chance.random() < 0.4:
            self.end(producer, aborted=self.chance.random() < 0.5)
            return
        producer.in_transaction = True
        self.write(producer, self.records(), transactional=True)

    def end(self, producer: Producer, *, aborted: bool) -> None:
        key = control_record_key(ControlType.ABORT if aborted else ControlType.COMMIT)
        marker = build_batch(
            [Record(-1, self.clock.now_ms(), key, end_txn_marker_value(0))],
            producer_id=producer.producer_id,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
        self.log.append(
            memoryview(marker), leader_epoch=0, origin=AppendOrigin.COORDINATOR, now_ms=self.clock.now_ms()
        )
        self.log.advance_high_watermark(self.log.log_end_offset)
        if not aborted:
            self.committed.update({record.offset: record for record in producer.open})
        producer.open, producer.in_transaction = [], False

    def end_all(self) -> None:
        for producer in self.producers[2:]:
            if producer.in_transaction:
                self.end(producer, aborted=self.chance.random() < 0.5)

    def compact(self) -> None:
        map_bytes = self.chance.choice((24 * 5, 24 * 12, 1 << 20))
        compact(self.logs.manager, self.log, map_bytes=map_bytes)
        self.check()

    def compact_all(self) -> None:
        compact_fully(self.logs.manager, self.log, map_bytes=self.chance.choice((24 * 7, 1 << 20)))
        self.check()
        assert self.log.cleaned_offset == self.log.log_end_offset
        seen = [record.key for record in self.visible()]
        assert len(seen) == len(set(seen)), "a key is there twice"
        self.clock.turn_ms(CONFIG.delete_retention_ms + 1)
        for _ in range(3):
            # One pass gives tombstones and markers their horizons, one removes them, one what they kept.
            self.write(None, [Record(-1, self.clock.now_ms(), b"last", b"one")])
            compact_fully(self.logs.manager, self.log)
            self.clock.turn_ms(CONFIG.delete_retention_ms + 1)
        self.check()
        assert not [record for record in self.visible() if record.value is None], "a tombstone stays for ever"
        self.restart_from_nothing()
        self.check()

    def pass_time(self) -> None:
        self.clock.turn_ms(self.chance.randrange(60_000))

    def roll(self) -> None:
        self.log.roll()

    def restart(self) -> None:
        known = _sequences(self.log)
        self.log.flush()
        self.log = self.logs.restart(clean=self.chance.random() < 0.5)
        self.log.advance_high_watermark(self.log.log_end_offset)
        assert _sequences(self.log) == known
        self.check()

    def restart_from_nothing(self) -> None:
        """The log without what lies beside it: no checkpoints, no snapshots of producers."""
        known, end = _sequences(self.log), self.log.log_end_offset
        self.log.flush()
        self.logs.crash()
        for path in [*self.logs.path.glob("*.snapshot"), *self.logs.path.parent.glob("*-checkpoint")]:
            path.unlink()
        self.logs.manager = self.logs.new_manager()
        self.log = self.logs.log
        self.log.advance_high_watermark(self.log.log_end_offset)
        assert self.log.log_end_offset == end
        assert _sequences(self.log) == known

    # --- what must hold -------------------------------------------------------------------------------------

    def visible(self) -> list[Record]:
        """What a read_committed consumer sees, which follows Kafka's Fetcher."""
        log = self.log
        end = log.last_stable_offset
        aborted = sorted(
            log.aborted_transactions(log.log_start_offset, end), key=lambda txn: txn.first_offset
        )
        skipped: set[int] = set()
        records: list[Record] = []
        data = read_bytes(log)
        for position, header in iter_headers(data):
            if header.base_offset >= end:
                break
            while aborted and aborted[0].first_offset <= header.last_offset:
                skipped.add(aborted.pop(0).producer_id)
            batch = decode_records(data, position, header)
            if header.is_control:
                if batch and batch[0].key == control_record_key(ControlType.ABORT):
                    skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                records += batch
        return records

    def check(self) -> None:
        self.log.check()
        end = self.log.last_stable_offset
        wanted: dict[bytes | None, Record] = {}
        for offset in sorted(self.committed):
            if offset < end:
                wanted[self.committed[offset].key] = self.committed[offset]
        found: dict[bytes | None, Record] = {}
        for record in self.visible():
            assert record == _plain(self.committed[record.offset]), "a record has changed"
            found[record.key] = record
        for key, record in wanted.items():
            if record.value is None:
                assert key not in found or found[key].value is None, f"{key!r} is back"
            else:
                assert found.get(key) == _plain(record), f"{key!r} is lost"


def _plain(record: Record) -> Record:
    return Record(record.offset, record.timestamp, record.key, record.value, list(record.headers))


def _sequences(log: PartitionLog) -> dict[int, int]:
    return {producer_id: entry.last_sequence for producer_id, entry in log.producers}


def _with_timestamps(append_time: bool) -> LogConfig:
    name = TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME
    return replace(CONFIG, message_timestamp_type="LogAppendTime" if name else "CreateTime")


@pytest.mark.parametrize("pure", [False, True], ids=["compiled", "pure"])
def test_the_log_says_of_each_key_what_a_dictionary_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pure: bool
) -> None:
    if pure:
        without_compiled_parts(monkeypatch)
    for number in range(LIVES):
        life = Life(tmp_path / str(number), random.Random(SEED * 1000 + number))
        try:
            life.run()
        except Exception as error:
            raise AssertionError(f"KAFKAPY_SEED={SEED}, life {number}: {error!r}") from error
        life.logs.crash()
