"""Compaction of the same files by every server: time, CPU, and latency of its producers.

The files are written once. A topic gets them with cleanup.policy=delete, while the server is stopped, and the
policy becomes compact while the server runs. It has finished when its cleaner-offset-checkpoint says so.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from interop.support.waiting import wait_until
from kafkapy.loop.clock import Clock
from kafkapy.protocol.records import Record, build_batch
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.validate import AppendOrigin
from scripts.benchmarks.latency import LoneRecords
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.meter import percentiles

PROPERTIES: Final = {"log.cleaner.backoff.ms": "100"}

_BYTES: Final = 1_000_000_000
_KEYS: Final = 100_000
_RECORD_BYTES: Final = 1024
_BATCH_RECORDS: Final = 16
"""As many as Java's default batch.size holds."""
_SEGMENT_BYTES: Final = 128 << 20
_IDLE_SECONDS: Final = 10


class DirtyLog:
    """A partition's directory: closed segments to compact, and one record after them."""

    def __init__(self, scale: float) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        chance = random.Random(5)
        config = LogConfig(segment_bytes=_SEGMENT_BYTES, cleanup_policy=frozenset({"compact"}))
        manager = LogManager([Path(self._folder.name)], defaults=config, clock=Clock(), durability="os")
        manager.open()
        manager.load("bench", 1)
        log = manager.create(TopicPartition("dirty", 0), bytes(range(16)), config, new=True)
        values = [chance.randbytes(_RECORD_BYTES) for _ in range(257)]
        now_ms = Clock().now_ms()

        def append(records: int) -> None:
            batch = build_batch(
                Record(
                    -1,
                    now_ms,
                    b"key-%09d" % chance.randrange(max(int(_KEYS * scale), 1)),
                    values[chance.randrange(257)],
                )
                for _ in range(records)
            )
            log.append(memoryview(batch), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=now_ms)

        while log.size < _BYTES * scale:
            append(_BATCH_RECORDS)
        log.roll()
        self._path, self.nbytes, self._end_offset = Path(log.path), log.size, log.log_end_offset
        append(1)
        log.advance_high_watermark(log.log_end_offset)
        manager.close()

    def give_to(self, target: Target) -> str:
        """The name of a new topic with these files; the server is started again."""
        topic = target.new_topic(
            1,
            {
                "cleanup.policy": "delete",
                "segment.bytes": str(_SEGMENT_BYTES),
                "min.cleanable.dirty.ratio": "0.01",
                "retention.ms": "-1",
            },
        )
        target.server.stop()
        partition = target.server.data / f"{topic}-0"
        for path in partition.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for path in self._path.iterdir():
            if path.name != "partition.metadata":
                shutil.copyfile(path, partition / path.name)
        os.sync()
        target.server.start()
        return topic

    def wait_until_compacted(self, target: Target, topic: str) -> None:
        """Let the server compact the topic."""
        checkpoint = target.server.data / "cleaner-offset-checkpoint"

        def is_compacted() -> bool:
            lines = [line.split() for line in checkpoint.read_text().splitlines()[2:]]
            return any(name == topic and int(offset) >= self._end_offset for name, _, offset in lines)

        entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        target.admin.incremental_alter_configs([resource])[resource].result(30)
        wait_until(is_compacted, timeout=600, pause=0.01, ignoring=FileNotFoundError)


_dirty_log = cache(DirtyLog)


def compacting(target: Target, scale: float) -> Figures:
    """Load: compact with nothing else to do."""
    dirty = _dirty_log(scale)
    topic = dirty.give_to(target)
    target = Target(target.server)  # whose client has not seen the server stop
    target.admin.list_topics(timeout=30)
    watch = target.stopwatch()
    dirty.wait_until_compacted(target, topic)
    cost = watch.cost()
    left = sum(path.stat().st_size for path in (target.server.data / f"{topic}-0").glob("*.log"))
    target.delete_topic(topic)
    return {
        "MB/s": dirty.nbytes / 1e6 / cost.seconds,
        "seconds": cost.seconds,
        "CPU seconds": cost.cpu_seconds,
        "MB left": left / 1e6,
    }


def producing(target: Target, scale: float) -> Figures:
    """Load: produce single records to another topic, first without compaction, then during it."""
    dirty = _dirty_log(scale)
    topic = dirty.give_to(target)
    target = Target(target.server)
    records = LoneRecords(target.bootstrap_servers, target.new_topic(1))
    records.produce_for(2 * scale)  # warms up
    idle = records.produce_for(_IDLE_SECONDS * scale)
    with ThreadPoolExecutor(1) as thread:
        compacted = thread.submit(dirty.wait_until_compacted, target, topic)
        busy = records.produce_until(compacted.done)
        compacted.result()
    target.delete_topic(topic)
    return {
        **percentiles(idle, ", idle"),
        **percentiles(busy, ", compacting"),
        "produces while compacting": len(busy),
    }
