"""A start with very many committed offsets.

It measures how long it takes until all can be fetched, and how much memory they need.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from scripts.benchmarks.coordinators.commits import commit, commit_request, wait_for_coordinator
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.servers import new_server
from scripts.benchmarks.wire import ask, decoded, encoded

_PARTITIONS = 100
"""The offsets of each group."""
_VERSION = 8
_PATIENCE = 600.0


def loading_offsets(offsets: int) -> Callable[[str, Path], Figures]:
    """Load: commit so many offsets of groups of a hundred, stop the server, start it."""

    def run(name: str, folder: Path) -> Figures:
        groups = [f"group {number}" for number in range(offsets // _PARTITIONS)]
        server = new_server(name, folder)
        with server:
            target = Target(server)
            topic = target.new_topic(_PARTITIONS)
            with socket.create_connection(server.address, timeout=60) as connection:
                _load_all(connection, groups[:1], topic)
            server.stop(timeout=120)
        began = time.perf_counter()
        with server:
            with socket.create_connection(server.address, timeout=60) as connection:
                _wait_until_loaded(connection, groups[:1])
            empty = time.perf_counter() - began
            meter = Target(server).meter
            few, few_cpu = meter.resident_mb(), meter.cpu_seconds()
            with socket.create_connection(server.address, timeout=60) as connection:
                _load_all(connection, groups, topic)
            server.stop(timeout=120)
        began = time.perf_counter()
        with server:
            meter = Target(server).meter
            with socket.create_connection(server.address, timeout=60) as connection:
                # Partitions of the offsets topic are loaded one by one; the groups are spread over them.
                _wait_until_loaded(connection, groups[:: max(len(groups) // 500, 1)])
            seconds = time.perf_counter() - began
            return {
                "until all are loaded, s": seconds,
                "the same with one group, s": empty,
                "CPU seconds for them": meter.cpu_seconds() - few_cpu,
                "memory for them, MB": meter.resident_mb() - few,
                "memory at most, MB": meter.peak_resident_mb(),
            }

    return run


def _load_all(connection: socket.socket, groups: Sequence[str], topic: str) -> None:
    wait_for_coordinator(connection, groups[0])
    for group in groups:
        commit(connection, commit_request(group, topic, range(_PARTITIONS)))


def _wait_until_loaded(connection: socket.socket, groups: Sequence[str]) -> None:
    deadline = time.monotonic() + _PATIENCE
    missing = list(groups)
    while missing:
        with contextlib.suppress(IndexError):
            while _is_loaded(connection, missing[-1]):
                missing.pop()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(missing)} of {len(groups)} groups are not loaded")
        if missing:
            time.sleep(0.01)


def _is_loaded(connection: socket.socket, group: str) -> bool:
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    (answer,) = decoded(ask(connection, encoded(asked, _VERSION)), asked.KEY, _VERSION).groups
    if answer.error_code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
        return False
    found = sum(len(topic.partitions) for topic in answer.topics)
    if answer.error_code or found != _PARTITIONS:
        raise RuntimeError(f"{group}: error {answer.error_code}, {found} offsets")
    return True
