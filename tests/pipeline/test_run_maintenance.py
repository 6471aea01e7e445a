"""What a run does for its table between two batches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.run.maintenance import Maintenance
from kafkapy.pipeline.state import State

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from kafkapy.pipeline.tables.table import Merged


class FakeTable:
    """Merges 16 files at every third look, and wants to be looked at after two batches."""

    def __init__(self) -> None:
        self.looks = 0
        self.expired: list[timedelta] = []
        self.error: Exception | None = None

    def merge_small_files(self, session: Any) -> Merged:
        if self.error is not None:
            raise self.error
        self.looks += 1
        return Merged(16 if self.looks % 3 == 0 else 0, 2)

    def expire(self, session: Any, retain: timedelta) -> list[str]:
        self.expired.append(retain)
        return ["deleted 3 files"]


@pytest.fixture
def table() -> FakeTable:
    return FakeTable()


def maintenance(table: FakeTable, folder: Path, notes: list[str] | None = None, **more: Any) -> Maintenance:
    definition = PipelineDefinition.from_mapping({"topic": "orders", "table": "delta:/lake/orders", **more})
    told = notes if notes is not None else []
    return Maintenance(definition, State(folder), cast("Any", table), told.append)


def after(maintained: Maintenance, batches: int) -> list[tuple[str, ...]]:
    return [maintained.after_batch(cast("Any", None)).done for _ in range(batches)]


def test_a_table_is_looked_at_as_often_as_it_wants(table: FakeTable, tmp_path: Path) -> None:
    done = after(maintenance(table, tmp_path), 7)
    assert table.looks == 4
    assert [number for number, each in enumerate(done) if each] == [4]
    assert done[4] == ("merged 16 small files",)


def test_a_definition_may_do_without(table: FakeTable, tmp_path: Path) -> None:
    after(maintenance(table, tmp_path, maintain=False), 5)
    assert (table.looks, table.expired) == (0, [])
    assert State(tmp_path).expired is None


def test_old_versions_expire_now_and_then_over_many_runs(table: FakeTable, tmp_path: Path) -> None:
    state = State(tmp_path)
    after(maintenance(table, tmp_path, retain="12h"), 3)
    assert table.expired == []
    for hours, runs in ((2, 0), (4, 1)):
        state.expired = datetime.now(UTC) - timedelta(hours=hours)
        after(maintenance(table, tmp_path, retain="12h"), 3)
        assert table.expired == [timedelta(hours=12)] * runs
    state.expired = datetime.now(UTC) - timedelta(hours=25)
    after(maintenance(table, tmp_path), 1)
    assert table.expired[1:] == [timedelta(days=7)]


def test_what_fails_is_told_and_tried_again_later(table: FakeTable, tmp_path: Path) -> None:
    notes: list[str] = []
    maintained = maintenance(table, tmp_path, notes)
    table.error = OSError("No space left on device\n\tat java.io")
    assert after(maintained, 10) == [()] * 10
    assert notes == [
        "orders: the disk is full (OSError: No space left on device); free some space and start again: it "
        "continues where it stopped; the table was not maintained, which is tried again later"
    ]
    table.error = None
    after(maintained, 10)
    assert table.looks == 2
