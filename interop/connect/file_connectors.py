"""A file that grows, and the file source and sink that pass its lines through a topic."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

PARTITIONS: Final = 3


class GrowingFile:
    """A thread appends numbered lines to the file until the `with` block ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._grow, name="growing file")

    def _grow(self) -> None:
        with self.path.open("a") as file:
            while not self._ended.wait(0.05):
                new = [f"line {len(self.lines) + number:06}" for number in range(20)]
                file.write("".join(f"{line}\n" for line in new))
                file.flush()
                self.lines += new

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()


def file_source(path: Path, topic: str) -> dict[str, Any]:
    """A connector whose topic Connect creates."""
    return {
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": str(path),
        "topic": topic,
        # More than there are: lines that it has read beyond a full batch wait until the file grows again.
        "batch.size": "100000",
        "exactly.once.support": "required",
        # What a killed task leaves open delays its successor, which reads the offsets to their end first.
        "producer.override.transaction.timeout.ms": "10000",
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.default.partitions": str(PARTITIONS),
        "topic.creation.default.retention.ms": "-1",
        "topic.creation.default.cleanup.policy": "delete",
        # The partitioner goes to another partition after so many bytes: one file then reaches all of them. (A
        # RoundRobinPartitioner would also spread the offsets of the file, whose order is then lost.)
        "producer.override.batch.size": "100",
    }


def file_sink(path: Path, topic: str, *, session_timeout_ms: int = 6_000) -> dict[str, Any]:
    """A connector that writes lines again if its session ends before a commit."""
    return {
        "connector.class": "FileStreamSink",
        "tasks.max": "1",
        "file": str(path),
        "topics": topic,
        "consumer.override.session.timeout.ms": str(session_timeout_ms),
        "consumer.override.auto.offset.reset": "earliest",
    }


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
