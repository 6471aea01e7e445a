"""A log manager that may open no more files, at any moment, loses nothing and continues.

No directory goes offline, and what failed succeeds when it is tried again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from kafkapy.storage.directories.log_loading import Retries
from kafkapy.storage.disk.errors import ExhaustedError
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.virtual.disk_trace import Op, TracingFiles
from tests.crash.storage_workload import Model, Workload, check_recovered, promised_at
from tests.storage.descriptors import open_files_limit

LIVES = int(os.environ.get("KAFKAPY_STARVED_LIVES", "4"))
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
STEPS = 200


class RealFiles(FileSystem):
    """The real file system, where each call takes the descriptors that it takes.

    Nothing is traced.
    """

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.trace: list[Op] = []

    def total_bytes(self, path: str) -> int:
        return 4 * 1024 * 1024


class StarvedWorkload(Workload):
    """A workload of which half of the operations lack descriptors, and are retried."""

    retries = Retries(attempts=1)

    def __init__(self, files: RealFiles, chance: random.Random) -> None:
        super().__init__(cast("TracingFiles", files), chance)
        self.failed = 0

    def run(self, steps: int) -> None:
        self._promise()
        self._reopen()
        for action in [self._create, *self._actions(steps)]:
            self._do(action)
        self._do(self._restart)
        self._logs.close(clean=False)

    def _do(self, action: Callable[[], None]) -> None:
        if self._chance.random() < 0.5:
            state = self._chance.getstate()
            try:
                with open_files_limit(0):
                    action()
                return
            except ExhaustedError:
                self.failed += 1
                assert self._logs.offline_dirs == []
            self._chance.setstate(state)
        action()

    def _reopen(self) -> None:
        super()._reopen()
        self._files.open_files.serve_this_thread()

    def _flush_log(self, log: PartitionLog, model: Model) -> None:
        """As the group commit does: a flush that found no descriptor is tried again as it is."""
        ticket = log.prepare_flush()
        if ticket is not None:
            try:
                ticket.run()
            except ExhaustedError:
                self.failed += 1
                with open_files_limit(20_000):
                    ticket.run()
            log.complete_flush(ticket)
        log.advance_high_watermark(log.flushed_offset)
        self._settle(model, log.flushed_offset)
        self._promise()


@pytest.mark.parametrize("life", range(LIVES))
def test_a_log_manager_outlives_a_lack_of_descriptors(tmp_path: Path, life: int) -> None:
    files = RealFiles(tmp_path)
    workload = StarvedWorkload(files, random.Random(f"{SEED} {life}"))
    try:
        workload.run(STEPS)
        assert workload.failed > STEPS // 20
        promises = promised_at(workload.promises, len(files.trace))
        check_recovered(TracingFiles(tmp_path), promises, workload.contents)
    except Exception as error:
        raise AssertionError(f"KAFKAPY_SEED={SEED}, life {life}: {error!r}") from error
