"""A directory to compact, and what a server needs to compact it.

That is time, CPU, and latency of its producers. The directory is written once; every server gets the same
files. A server starts with cleanup.policy=delete, and the policy becomes compact while it runs. It has
finished when its cleaner-offset-checkpoint says so.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Message
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from interop.support.waiting import wait_until
from kafkapy.loop.clock import Clock
from kafkapy.protocol.records import Compression, Record, build_batch
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.validate import AppendOrigin
from scripts.benchmarks.latency import patient_producer, produce_one
from scripts.benchmarks.load import Figures
from scripts.benchmarks.meter import Meter, Stopwatch, percentile
from tests.servers.server_process import ServerProcess

TOPIC = "compacted"
PROBE = "probe"
BATCH_BYTES = 16 * 1024
"""Java's default batch.size."""
SEGMENT_BYTES = 128 << 20
PROPERTIES = {"log.cleaner.backoff.ms": "100"}
_CHECKPOINT = "cleaner-offset-checkpoint"


class Dirty(NamedTuple):
    """What is to be compacted."""

    path: Path
    nbytes: int
    end_offset: int


def write_directory(root: Path, nbytes: int, keys: int, record_bytes: int, codec: Compression) -> Dirty:
    """A partition's directory with so many bytes in closed segments.

    One record follows them.
    """
    chance = random.Random(5)
    config = LogConfig(segment_bytes=SEGMENT_BYTES, cleanup_policy=frozenset({"compact"}))
    manager = LogManager([root], defaults=config, clock=Clock(), durability="os")
    manager.open()
    manager.load("bench", 1)
    log = manager.create(TopicPartition(TOPIC, 0), bytes(range(16)), config, new=True)
    values = [chance.randbytes(record_bytes) for _ in range(257)]
    now_ms = Clock().now_ms()
    count = max(BATCH_BYTES // record_bytes, 1)

    def append(records: int) -> None:
        batch = build_batch(
            [
                Record(-1, now_ms, b"key-%09d" % chance.randrange(keys), values[chance.randrange(257)])
                for _ in range(records)
            ],
            compression=codec,
        )
        log.append(memoryview(batch), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=now_ms)

    while log.size < nbytes:
        append(count)
    log.roll()
    dirty = Dirty(Path(log.path), log.size, log.log_end_offset)
    append(1)
    log.advance_high_watermark(log.log_end_offset)
    manager.close()
    return dirty


class Subject:
    """A server with a copy of the directory."""

    def __init__(self, server: ServerProcess, dirty: Dirty) -> None:
        self._server = server
        self._dirty = dirty
        self._data = server.data / f"{TOPIC}-0"

    def prepare(self) -> None:
        """Give the stopped or new server the files, and start it."""
        server = self._server
        if not self._data.exists():
            with server:
                admin = self._admin()
                settings = {
                    "cleanup.policy": "delete",
                    "segment.bytes": str(SEGMENT_BYTES),
                    "min.cleanable.dirty.ratio": "0.01",
                    "retention.ms": "-1",
                }
                topics = [NewTopic(TOPIC, 1, 1, config=settings), NewTopic(PROBE, 1, 1)]
                for created in admin.create_topics(topics).values():
                    created.result(30)
                wait_until(lambda: {TOPIC, PROBE} <= admin.list_topics(timeout=30).topics.keys())
        for path in self._data.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for path in self._dirty.path.iterdir():
            if path.name != "partition.metadata":
                shutil.copyfile(path, self._data / path.name)
        (self._data.parent / _CHECKPOINT).unlink(missing_ok=True)
        os.sync()
        server.start()

    def stop(self) -> None:
        """Stop the server; it does not compact when it is started again."""
        self._set_policy("delete")
        self._server.stop()

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._server.bootstrap_servers, "log_level": 0})

    def _set_policy(self, policy: str) -> None:
        entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
        admin = self._admin()
        admin.incremental_alter_configs([resource])[resource].result(30)

    def compact(self) -> Figures:
        """Compact with nothing else to do."""
        watch = Stopwatch(Meter(self._server.pid))
        self._set_policy("compact")
        wait_until(self._is_done, timeout=600, pause=0.01)
        cost = watch.cost()
        left = sum(path.stat().st_size for path in self._data.glob("*.log"))
        return {
            "MB/s": self._dirty.nbytes / 1e6 / cost.seconds,
            "seconds": cost.seconds,
            "CPU seconds": cost.cpu_seconds,
            "MB left": left / 1e6,
        }

    def probe(self, idle_seconds: float) -> Figures:
        """Produce one record after the other to another topic.

        First without compaction, then during it.
        """
        prober = _Prober(self._server.bootstrap_servers)
        prober.run_until(lambda: prober.seconds > min(2.0, idle_seconds))  # warm up
        idle = prober.run_until(lambda: prober.seconds > idle_seconds)
        compacting = threading.Event()

        def compact() -> None:
            try:
                self._set_policy("compact")
                wait_until(self._is_done, timeout=600, pause=0.01)
            finally:
                compacting.set()

        thread = threading.Thread(target=compact)
        thread.start()
        busy = prober.run_until(compacting.is_set)
        thread.join()
        p99_idle, p99_busy = percentile(idle, 0.99) * 1000, percentile(busy, 0.99) * 1000
        return {
            "produce p50 idle ms": percentile(idle, 0.5) * 1000,
            "produce p50 compacting ms": percentile(busy, 0.5) * 1000,
            "produce p99 idle ms": p99_idle,
            "produce p99 compacting ms": p99_busy,
            "p99 compacting / idle": p99_busy / p99_idle,
            "produces while compacting": len(busy),
        }

    def _is_done(self) -> bool:
        try:
            lines = (self._data.parent / _CHECKPOINT).read_text().splitlines()
        except FileNotFoundError:
            return False
        return any(
            line.startswith(f"{TOPIC} 0 ") and int(line.split()[2]) >= self._dirty.end_offset
            for line in lines[2:]
        )


class _Prober:
    """Produces synchronously."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = patient_producer(bootstrap_servers)
        self._acknowledged: list[Message] = []
        self._started = 0.0

    @property
    def seconds(self) -> float:
        """Of the current run."""
        return time.perf_counter() - self._started

    def run_until(self, done: Callable[[], bool]) -> list[float]:
        """Produce until it is done; how long each took."""
        times: list[float] = []
        self._started = time.perf_counter()
        while not done():
            start = time.perf_counter()
            produce_one(self._producer, PROBE, self._acknowledged)
            times.append(time.perf_counter() - start)
        return times
