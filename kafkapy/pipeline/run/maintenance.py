"""Maintains a table while its pipeline runs, between two batches.

It is done in the thread of the batches, so it never conflicts with a commit of the run. Small files are
merged after the batch that makes them many (`tables/small_files.py`), and files of old versions are deleted
now and then. Both are commits of the table format: if the driver is killed meanwhile, the last version
counts, and what was not committed is deleted later as any file that no version has. The batch has been
committed before in any case; Spark may run it again, which changes nothing.

Maintenance that fails is told, and does not end the run: the next batch shows whether the table can be
written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.state import State
from kafkapy.pipeline.stream_failures import explain
from kafkapy.pipeline.tables.small_files import MANY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkapy.pipeline.tables import Table

_OFTEN: Final = timedelta(minutes=10)
_SELDOM: Final = timedelta(days=1)


@dataclass(frozen=True)
class Maintained:
    """What was done after a batch, and how long the next one waited for it."""

    done: tuple[str, ...] = ()
    seconds: float = 0.0

    def __str__(self) -> str:
        return ", ".join(self.done) + f", in {self.seconds:.1f} s" if self.done else ""


class Maintenance:
    """The maintenance of one run."""

    def __init__(
        self, definition: PipelineDefinition, state: State, table: Table, note: Callable[[str], None]
    ) -> None:
        self._definition, self._retain = definition, definition.retained
        self._state, self._table, self._note = state, table, note
        self._batches_left = 1  # a run of one batch looks too: many such runs make small files as well
        self._expires = min(max(self._retain / 4, _OFTEN), _SELDOM)

    def after_batch(self, session: SparkSession) -> Maintained:
        """Does what is due, in the session of the batch."""
        if not self._definition.maintain:
            return Maintained()
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        started, done = time.monotonic(), []
        try:
            done += self._merge(session)
            done += self._expire(session)
        except (PySparkException, Py4JError, OSError) as error:
            told = explain(error, self._definition).error
            self._note(f"{told}; the table was not maintained, which is tried again later")
            self._batches_left = MANY
        return Maintained(tuple(done), time.monotonic() - started)

    def _merge(self, session: SparkSession) -> list[str]:
        self._batches_left -= 1
        if self._batches_left > 0:
            return []
        merged = self._table.merge_small_files(session)
        self._batches_left = merged.look_after
        return [f"merged {merged.files} small files"] if merged.files else []

    def _expire(self, session: SparkSession) -> list[str]:
        now, last = datetime.now(UTC), self._state.expired
        if last is None:
            self._state.expired = now  # a young table has no old versions
        if last is None or now - last < self._expires:
            return []
        done = self._table.expire(session, self._retain)
        self._state.expired = now
        return done
