"""A start with very many committed offsets.

It measures how long it takes until all can be fetched, and how much memory they need.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from interop.support.waiting import wait_until
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from scripts.benchmarks.coordinators.offsets import commit, commit_request, wait_for_coordinator
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.servers import new_server
from scripts.benchmarks.wire import exchange

_PARTITIONS = 100
"""The offsets of each group."""
_VERSION = 8


def loading_offsets(offsets: int) -> Callable[[str, Path], Figures]:
    """Load: commit so many offsets of groups of a hundred, stop the server, start it."""

    def run(name: str, folder: Path) -> Figures:
        groups = [f"group {number}" for number in range(offsets // _PARTITIONS)]
        server = new_server(name, folder)
        target = Target(server)
        with server:
            topic = target.new_topic(_PARTITIONS)
            _commit_all(target, groups[:1], topic)
            server.stop(timeout=120)
        began = time.perf_counter()
        with server:
            _wait_until_loaded(target, groups[:1])
            empty = time.perf_counter() - began
            few, few_cpu = target.meter.resident_mb(), target.meter.cpu_seconds()
            _commit_all(target, groups, topic)
            server.stop(timeout=120)
        began = time.perf_counter()
        with server:
            # Partitions of the offsets topic are loaded one by one; the groups are spread over them.
            _wait_until_loaded(target, groups[:: max(len(groups) // 500, 1)])
            seconds = time.perf_counter() - began
            return {
                "until all are loaded, s": seconds,
                "the same with one group, s": empty,
                "CPU seconds for them": target.meter.cpu_seconds() - few_cpu,
                "memory for them, MB": target.meter.resident_mb() - few,
                "memory at most, MB": target.meter.peak_resident_mb(),
            }

    return run


def _commit_all(target: Target, groups: Sequence[str], topic: str) -> None:
    wait_for_coordinator(target, groups[0])
    with target.connect() as connection:
        for group in groups:
            commit(connection, commit_request(group, topic, range(_PARTITIONS)))


def _wait_until_loaded(target: Target, groups: Sequence[str]) -> None:
    with target.connect() as connection:

        def is_loaded(group: str) -> bool:
            asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
            (answer,) = exchange(connection, asked, _VERSION).groups
            if answer.error_code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
                return False
            found = sum(len(topic.partitions) for topic in answer.topics)
            if answer.error_code or found != _PARTITIONS:
                raise RuntimeError(f"{group}: error {answer.error_code}, {found} offsets")
            return True

        for group in groups:
            wait_until(partial(is_loaded, group), timeout=600, pause=0.01)
