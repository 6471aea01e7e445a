"""Logs for tests, with a manual clock, a file system that fails on demand, and batches."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kafkapy.protocol.records import (
    BatchHeader,
    Compression,
    Record,
    build_batch,
    decode_records,
    iter_headers,
    read_header,
)
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.directories.log_loading import RETRIES, Retries
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.errors import SyncFailedError
from kafkapy.storage.disk.file_names import TEMPORARY_SUFFIX
from kafkapy.storage.disk.files import (
    Buffer,
    File,
    FileSystem,
    NotCachedError,
)
from kafkapy.storage.disk.log_directory import Durability
from kafkapy.storage.log.append import AppendInfo
from kafkapy.storage.log.index_repair import repair_of
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog, TimestampOffset
from kafkapy.storage.log.segment import IndexesNotReadyError
from kafkapy.storage.log.timestamp_search import LogChangedError
from kafkapy.storage.log.validate import AppendOrigin
from kafkapy.storage.log.verification import Verification
from tests.loop.turned_clock import START_MS, TurnedClock
from tests.storage.page_cache import replace_page_cache

TP = TopicPartition("events", 0)
TOPIC_ID = bytes(range(16))


@dataclass
class Fault:
    """An error for the calls of one operation whose path ends with a suffix."""

    operation: str
    error: int | None
    """Its number; None: there is no memory."""
    suffix: str = ""
    after: int = 0
    """Calls that still succeed."""
    times: int = 1_000_000
    partial: int = -1
    """How many bytes a failing write still writes."""


class FaultyFiles(FileSystem):
    """The real file system, with faults, and lists of what was opened and synced."""

    __slots__ = ("faults", "free", "opened", "paths", "synced", "synced_together")

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.opened: list[str] = []
        self.synced: list[str] = []
        self.synced_together: list[str] = []
        """Paths whose file systems were synced."""
        self.paths: dict[int, str] = {}
        self.free: int | None = None

    def _path(self, file: File) -> str:
        return os.readlink(f"/proc/self/fd/{file.fd}")

    def _check(self, operation: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.operation == operation and path.endswith(fault.suffix):
                if fault.after > 0:
                    fault.after -= 1
                elif fault.times > 0:
                    fault.times -= 1
                    return fault
        return None

    def _raise(self, operation: str, path: str) -> None:
        fault = self._check(operation, path)
        if fault is not None:
            raise _error_of(fault, path)

    def open(self, path: str, *, create: bool = False) -> File:
        self._raise("open", path)
        self.opened.append(path)
        return super().open(path, create=create)

    def create(self, path: str) -> None:
        self._raise("create", path)
        super().create(path)

    def read_at(self, file: File, nbytes: int, position: int) -> bytes:
        self._raise("read", self._path(file))
        return super().read_at(file, nbytes, position)

    def write_at(self, file: File, buffers: Sequence[Buffer], position: int) -> int:
        path = self._path(file)
        fault = self._check("write", path)
        if fault is not None:
            if fault.partial > 0:
                super().write_at(file, [b"".join(buffers)[: fault.partial]], position)
            raise _error_of(fault, path)
        return super().write_at(file, buffers, position)

    def truncate(self, file: File, size: int) -> None:
        self._raise("truncate", self._path(file))
        super().truncate(file, size)

    def allocate(self, file: File, size: int) -> None:
        self._raise("allocate", self._path(file))
        super().allocate(file, size)

    def sync_data(self, file: File) -> None:
        try:
            self._raise("sync", self._path(file))
        except OSError as error:
            raise SyncFailedError(error.errno, error.strerror) from error
        self.synced.append(self._path(file))
        super().sync_data(file)

    def sync_directory(self, path: str) -> None:
        self._raise("sync", path)
        self.synced.append(path)
        super().sync_directory(path)

    def sync_file_system(self, path: str) -> None:
        self._raise("sync_file_system", path)
        self.synced_together.append(path)
        super().sync_file_system(path)

    def rename(self, source: str, target: str) -> None:
        self._raise("rename", target)
        super().rename(source, target)

    def write_file(self, path: str, data: Buffer, *, durable: bool = False) -> None:
        self._raise("write", path.removesuffix(TEMPORARY_SUFFIX))
        super().write_file(path, data, durable=durable)

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        super().write_atomically(path, data, durable=durable)
        if durable:
            self.synced.append(path)

    def free_bytes(self, path: str) -> int:
        return super().free_bytes(path) if self.free is None else self.free


def _error_of(fault: Fault, path: str) -> OSError | MemoryError:
    if fault.error is None:
        return MemoryError()
    return OSError(fault.error, os.strerror(fault.error), path)


AT_THE_END: list[Callable[[], object]] = []
"""The functions that close what a test may leave open. They are called after it (tests/conftest.py)."""


@dataclass
class Logs:
    """A log manager that a test stops and starts as a broker is."""

    root: Path
    durability: Durability = "fsync"
    config: LogConfig = field(default_factory=LogConfig)
    files: FaultyFiles = field(default_factory=FaultyFiles)
    clock: TurnedClock = field(default_factory=TurnedClock)
    dirs: tuple[str, ...] = ("data",)
    retries: Retries = RETRIES

    def __post_init__(self) -> None:
        self.manager = self.new_manager()
        AT_THE_END.append(self.crash)

    def new_manager(self) -> LogManager:
        manager = self.manager = LogManager(
            [self.root / name for name in self.dirs],
            defaults=self.config,
            clock=self.clock,
            durability=self.durability,
            files=self.files,
            retries=self.retries,
        )
        manager.open()
        manager.load("a-cluster", 1)
        return manager

    @property
    def log(self) -> PartitionLog:
        """The log of TP, created on first use."""
        log = self.manager.get(TP) or self.manager.create(TP, TOPIC_ID, self.config, new=True)
        log.config = self.config
        return log

    @property
    def path(self) -> Path:
        """The directory of TP."""
        return self.root / self.dirs[0] / str(TP)

    def stop(self) -> None:
        """Stop cleanly."""
        self.manager.close()

    def crash(self) -> None:
        """Stop as SIGKILL does: nothing more is written."""
        self.manager.close(clean=False)

    def restart(self, *, clean: bool = True) -> PartitionLog:
        """Stop and start again, and return the log of TP."""
        if clean:
            self.stop()
        else:
            self.crash()
        self.manager = self.new_manager()
        return self.log

    def save_recovery_points(self) -> None:
        self.manager.checkpoint_recovery_points()()


class ColdPages:
    """A page cache that holds only what was loaded through it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._loaded: set[tuple[str, int, int]] = set()
        replace_page_cache(monkeypatch, self._has)

    def _has(self, file: File, position: int, nbytes: int) -> bool:
        return (os.readlink(f"/proc/self/fd/{file.fd}"), position, nbytes) in self._loaded

    def read(self, log: PartitionLog, offset: int) -> int | None:
        """Read a batch as a fetch does, and return the offset after it.

        Cold pages are loaded, and indexes repaired.
        """
        while True:
            try:
                with log.log_directory.files.cached_only():
                    found = log.read(offset, 1, upper_bound=log.log_end_offset)
            except IndexesNotReadyError as missing:
                repair = repair_of(missing)
                assert repair is not None
                repair.run()
                repair.settle()
            except NotCachedError as missing:
                cold = missing.slice
                path = os.readlink(f"/proc/self/fd/{cold.fileno}")
                self._loaded.add((path, cold.position, cold.nbytes))
                cold.release()
            else:
                if found is None:
                    return None
                found.slice.release()
                return found.end_offset


def batch(
    *values: bytes,
    timestamp: int = START_MS,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    """A batch with a record for each value, one millisecond apart."""
    records = [Record(timestamp=timestamp + index, value=value) for index, value in enumerate(values)]
    return build_batch(
        records,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def append(
    log: PartitionLog,
    data: bytearray,
    *,
    leader_epoch: int = 0,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    now_ms: int = START_MS,
) -> AppendInfo:
    """Append one batch as a client; one that begins a transaction is verified."""
    verification = verified(log, data)
    return log.append(
        memoryview(data), leader_epoch=leader_epoch, origin=origin, now_ms=now_ms, verification=verification
    )


def verified(log: PartitionLog, data: bytearray) -> Verification | None:
    """The verification that a batch needs."""
    header = read_header(data)
    if not header.is_transactional or header.is_control:
        return None
    return log.producers.begin_verification(
        header.producer_id, header.producer_epoch, header.base_sequence, now_ms=START_MS
    )


def fill(log: PartitionLog, count: int, *, size: int = 100, timestamp: int = START_MS, step: int = 1) -> None:
    """Append `count` batches of one record that readers see; its value begins with its offset."""
    for index in range(count):
        value = b"%d" % log.log_end_offset
        append(log, batch(value.ljust(size, b"."), timestamp=timestamp + index * step))
    log.advance_high_watermark(log.log_end_offset)


def read_bytes(log: PartitionLog, offset: int | None = None, *, max_bytes: int = 1 << 20) -> bytes:
    """Return the bytes that a consumer gets if it starts at `offset`."""
    at = log.log_start_offset if offset is None else offset
    data = b""
    while (found := log.read(at, max_bytes, upper_bound=log.log_end_offset)) is not None:
        assert found.end_offset > at
        data += found.slice.read()
        found.slice.release()
        at = found.end_offset
    return data


def search(log: PartitionLog, timestamp: int | None) -> TimestampOffset | None:
    """Return the first record at least as new; for None, the first with the highest timestamp."""
    while True:
        running = log.search(timestamp)
        running.run()
        with contextlib.suppress(LogChangedError):
            return running.result()


def records_in(data: bytes) -> list[Record]:
    """Every record in a run of whole batches."""
    records: list[Record] = []
    end = 0
    for position, header in iter_headers(data):
        records += decode_records(data, position, header)
        end = position + header.size
    assert end == len(data), "the bytes end inside a batch"
    return records


def headers_in(data: bytes) -> list[BatchHeader]:
    return [header for _, header in iter_headers(data)]


def offsets(log: PartitionLog, offset: int | None = None) -> list[int]:
    """The offsets a consumer sees."""
    return [record.offset for record in records_in(read_bytes(log, offset))]


def values(records: Iterable[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def names(path: Path, suffix: str = "") -> list[str]:
    """The files in a directory."""
    return sorted(entry.name for entry in path.iterdir() if entry.name.endswith(suffix))


NO_SPACE = errno.ENOSPC
IO_ERROR = errno.EIO
