"""Data directories that Apache Kafka wrote: stopped cleanly, killed, and in use."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from interop.dump_log.topics import create_topics, fill
from interop.support.kafka_process import KafkaProcess
from interop.support.waiting import wait_until
from kafkapy.tools.check.check import Check, Summary
from kafkapy.tools.check.finding import Finding

_SECONDS = 60
_PROPERTIES = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.dedupe.buffer.size": "20000000",
    "log.initial.task.delay.ms": "300",
    "metadata.log.max.snapshot.interval.ms": "500",
}


@dataclass(frozen=True)
class KafkaDirectories:
    """Copies of a data directory at three moments, and the check of it while it was in use."""

    stopped: Path
    killed: Path
    running: tuple[list[Finding], Summary]


def make_kafka_directories(root: Path, release: str) -> KafkaDirectories:
    """Run a broker twice: all kinds of records, a compaction, a snapshot of the metadata."""
    kafka = KafkaProcess(root / "broker", release=release, heap="512m", properties=_PROPERTIES)
    stopped, killed = root / "stopped", root / "killed"
    try:
        kafka.start()
        create_topics(kafka.bootstrap_servers)
        fill(kafka.bootstrap_servers)
        wait_until(lambda: "tables" in _read(kafka.data / "cleaner-offset-checkpoint"), timeout=_SECONDS)
        wait_until(lambda: bool(list(kafka.data.glob("__cluster_metadata-0/*.checkpoint"))), timeout=_SECONDS)
        check = Check([str(kafka.data)], deep=True)
        running = list(check.run(lambda _: None)), check.summary
        kafka.stop()
        shutil.copytree(kafka.data, stopped)
        kafka.start()
        fill(kafka.bootstrap_servers)
        kafka.kill()
        shutil.copytree(kafka.data, killed)
    finally:
        kafka.kill()
    return KafkaDirectories(stopped, killed, running)


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
