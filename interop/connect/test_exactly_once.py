"""Lines pass from a file through a topic into a file.

The broker and the workers are killed meanwhile.

The source is exactly once. The sink commits offsets after it wrote the lines: if its worker is killed between
the two, its successor writes them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interop.connect.conftest import ConnectCluster
from interop.connect.file_connectors import (
    PARTITIONS,
    GrowingFile,
    file_sink,
    file_source,
    lines_of,
)
from interop.support.committed_records import committed_values
from interop.support.known_topics import wait_until_known
from interop.support.waiting import wait_until


@contextmanager
def pipeline(
    connect: ConnectCluster, topic: str, source: Path, sink: Path, *, session_timeout_ms: int = 6_000
) -> Iterator[GrowingFile]:
    """Both connectors at work, until the file has ceased to grow and its lines have come out."""
    with GrowingFile(source) as growing:
        connect.worker.put(f"connectors/source-{topic}/config", file_source(source, topic))
        # Connect creates the topic before the first record; a consumer's question would create it, too.
        wait_until_known(connect.server.bootstrap_servers, topic)
        settings = file_sink(sink, topic, session_timeout_ms=session_timeout_ms)
        connect.worker.put(f"connectors/sink-{topic}/config", settings)
        wait_for_more(connect, topic, sink)
        yield growing
    wait_for_lines(connect, topic, lambda: set(lines_of(sink)) >= set(growing.lines))


def wait_for_lines(connect: ConnectCluster, topic: str, condition: Callable[[], bool]) -> None:
    def holds() -> bool:
        for each in (f"source-{topic}", f"sink-{topic}"):
            connect.restart_failed(each)
        return condition()

    wait_until(holds, timeout=300, pause=0.2)


def wait_for_more(connect: ConnectCluster, topic: str, sink: Path, lines: int = 200) -> None:
    """Wait until lines that were written after now have come out."""
    before = len(lines_of(sink))
    wait_for_lines(connect, topic, lambda: len(lines_of(sink)) >= before + lines)


def ordered_values(connect: ConnectCluster, topic: str) -> list[str]:
    """All values of the topic, after a check that they are in order in each partition."""
    values = committed_values(connect.server.bootstrap_servers, topic, PARTITIONS)
    assert sorted(values) == list(range(PARTITIONS))
    assert all(found == sorted(found) for found in values.values())
    return sorted(value for found in values.values() for value in found)


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.capability("restart")
def test_no_line_is_lost_or_doubled_when_the_broker_is_killed(
    connect: ConnectCluster, tmp_path: Path, name: str
) -> None:
    sink = tmp_path / "sink"
    # No worker dies here, so no session ends, on a busy machine neither.
    with pipeline(connect, name, tmp_path / "source", sink, session_timeout_ms=45_000) as growing:
        connect.restart_server()
        wait_for_more(connect, name, sink)
        connect.restart_server()
        wait_for_more(connect, name, sink)
    assert ordered_values(connect, name) == growing.lines
    assert sorted(lines_of(sink)) == growing.lines


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.capability("transactions")
def test_no_line_is_lost_or_doubled_in_the_topic_when_workers_are_killed(
    connect: ConnectCluster, tmp_path: Path, name: str
) -> None:
    sink = tmp_path / "sink"
    with pipeline(connect, name, tmp_path / "source", sink) as growing:
        for worker in connect.workers:
            worker.kill()
            wait_for_more(connect, name, sink)
            worker.start()
    assert ordered_values(connect, name) == growing.lines
    assert sorted(set(lines_of(sink))) == growing.lines
