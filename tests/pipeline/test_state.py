"""The state folder: whole at every moment, one driver at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import Incarnation, Progress, State
from kafkapy.pipeline.stores.shared_store import SharedStore
from tests.pipeline.test_lease import Files

PROGRESS = Progress(
    incarnation="1f",
    batch=3,
    finished="2025-01-31T12:00:00+00:00",
    rows=10,
    seconds=2.0,
    total_rows=40,
    dead_letters=1,
)


def test_looking_makes_nothing(tmp_path: Path) -> None:
    state = State(tmp_path / "orders")
    assert (state.definition, state.progress, state.schema, state.incarnation) == (None, None, None, None)
    assert state.running is None
    assert state.checkpoint_entries("offsets") == []
    assert not (tmp_path / "orders").exists()


def test_what_is_written_is_read_by_another(tmp_path: Path) -> None:
    definition = PipelineDefinition.from_mapping(
        {"topic": "orders", "table": "delta:orders", "key": "id"}, folder=tmp_path
    )
    state = State(tmp_path / "orders")
    state.definition, state.progress, state.schema = definition, PROGRESS, {"type": "struct"}
    other = State(f"file:{tmp_path}/orders/")
    assert (other.definition, other.progress, other.schema) == (definition, PROGRESS, {"type": "struct"})
    assert PROGRESS.rows_per_second == 5


def test_a_second_run_goes_on_in_the_first_ones_checkpoint(tmp_path: Path) -> None:
    first, second = State(tmp_path), State(tmp_path)
    assert first.checkpoint == second.checkpoint
    assert first.checkpoint.startswith(f"{tmp_path}/_kafkapy/checkpoint/")
    assert first.app_id("orders") == second.app_id("orders")


def test_beginning_anew_changes_checkpoint_and_writer_in_one_write(tmp_path: Path) -> None:
    state = State(tmp_path)
    before = (state.checkpoint, state.app_id("orders"))
    Path(state.checkpoint).mkdir(parents=True)
    fresh = state.begin_anew({0: 12, 1: 0}, trim=True)
    assert (
        State(tmp_path).incarnation
        == fresh
        == Incarnation(id=fresh.id, starting_offsets={0: 12, 1: 0}, trim=True, table_id=fresh.table_id)
    )
    assert state.checkpoint != before[0]
    assert state.app_id("orders") != before[1]
    assert state.trimmed() == replace(fresh, trim=False)
    Path(state.checkpoint).mkdir(parents=True)
    state.forget_old_checkpoints()
    assert [path.name for path in (tmp_path / "_kafkapy/checkpoint").iterdir()] == [fresh.id]


def test_a_checkpoint_may_be_elsewhere(tmp_path: Path) -> None:
    definition = PipelineDefinition.from_mapping(
        {"topic": "orders", "table": "delta:orders", "checkpoint": "checkpoints/"}, folder=tmp_path
    )
    state = State.of(definition)
    first = state.begin()
    assert state.checkpoint == f"file://{tmp_path}/checkpoints/{first.id}/{first.id}"
    offsets = tmp_path / "checkpoints" / first.id / first.id / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1")
    by_table = State(tmp_path / "orders")
    assert [entry.name for entry in by_table.checkpoint_entries("offsets")] == ["0"]
    assert by_table.read_checkpoint("offsets/0") == (b"v1", None)
    assert by_table.checkpoint == state.checkpoint
    (tmp_path / "checkpoints" / "of another table").mkdir()
    second = state.begin_anew({0: 12}, trim=False)
    Path(state.checkpoint.removeprefix("file://")).mkdir(parents=True)
    state.forget_old_checkpoints()
    assert [path.name for path in (tmp_path / "checkpoints" / first.id).iterdir()] == [second.id]
    assert (tmp_path / "checkpoints" / "of another table").exists()


def test_an_incarnation_keeps_the_id_of_its_topic(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert state.begin_with(None).topic_id is None
    assert state.begin_with("first") == State(tmp_path).incarnation
    assert state.begin_with("second").topic_id == "first"
    assert state.begin_anew({0: 12}, trim=True, topic_id="second").topic_id == "second"
    assert state.trimmed().topic_id == "second"
    written = state.read_json("incarnation.json")
    del written["topic_id"]  # as versions wrote it that did not know it
    state.write_json("incarnation.json", written)
    assert state.begin_with("third").topic_id == "third"


def test_the_id_of_the_table_outlives_resets(tmp_path: Path) -> None:
    state = State(tmp_path)
    table_id = state.begin().table_id
    assert table_id is not None
    assert state.begin_anew({0: 12}, trim=False).table_id == table_id
    written = state.read_json("incarnation.json")
    del written["table_id"]  # as versions wrote it that did not know it
    state.write_json("incarnation.json", written)
    assert state.begin_with(None).table_id == state.begin_anew({0: 2}, trim=False).table_id == written["id"]


def test_where_dead_letters_were_written_is_kept_once_each(tmp_path: Path) -> None:
    state = State(tmp_path)
    for _ in range(2):
        state.note_dead_letters("orders.dlq", "orders")
        state.note_dead_letters("orders.dlq", "renamed")
    assert State(tmp_path).dead_letter_places == [("orders.dlq", "orders"), ("orders.dlq", "renamed")]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "_kafkapy").mkdir()
    (tmp_path / "_kafkapy/schema.json").write_bytes(b'{"batch": \xff')
    with pytest.raises(PipelineError, match=r"schema.json: damaged, not JSON; restore it, or write to "):
        _ = State(tmp_path).schema


@pytest.mark.parametrize("content", [b"", b'{"batch": ', b"\xff"])
def test_damaged_counts_and_a_damaged_incarnation_are_as_if_absent(tmp_path: Path, content: bytes) -> None:
    state = State(tmp_path)
    state.begin()
    state.progress = PROGRESS
    for name in ("progress.json", "incarnation.json"):
        (tmp_path / "_kafkapy" / name).write_bytes(content)
    assert state.progress is None
    assert state.incarnation is None


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "orders").write_text("a file")
    with pytest.raises(PipelineError, match=r"_kafkapy/progress.json: cannot be written"):
        State(tmp_path / "orders").progress = PROGRESS
    with (
        pytest.raises(PipelineError, match=r"orders: cannot be written: .*; name another folder"),
        State(tmp_path / "orders").lock(),
    ):
        pass


_WRITE_FOR_EVER = """\
import itertools, sys
from kafkapy.pipeline.state import State
state = State(sys.argv[1])
for number in itertools.count():
    state.write_json("progress.json", {"numbers": [number] * 20_000})
    print(number, flush=True)
"""


def test_a_kill_at_any_moment_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    for _ in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITE_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout
        for _ in range(20):
            written = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        last = [int(line) for line in writer.communicate()[0].split()]
        found = State(tmp_path).read_json("progress.json")["numbers"]
        assert len(found) == 20_000
        assert len(set(found)) == 1
        assert found[0] >= max([written, *last])


class _KilledError(BaseException):
    pass


class _DyingFiles(Files):
    """A store whose rename does not replace, as HDFS's.

    It dies within or after the write number `last`.
    """

    def __init__(self, content: dict[str, bytes], last: int) -> None:
        super().__init__()
        self.content, self._left = content, last

    def _change(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _KilledError

    def write(self, path: str, content: bytes) -> None:
        self._change()
        if self._left == 0:
            self.content[path] = b'{"torn'
            raise _KilledError
        super().write(path, content)

    def delete(self, path: str) -> None:
        self._change()
        super().delete(path)

    def rename(self, path: str, other: str) -> None:
        self._change()
        assert other not in self.content
        self.content[other] = self.content.pop(path)

    def entries(self, path: str) -> list[tuple[str, bool]]:
        return [(name, False) for name in self.names(path)]

    def is_file(self, path: str) -> bool:
        return path in self.content


@pytest.mark.parametrize("last", range(6))
def test_a_store_that_cannot_replace_has_the_old_or_the_new(last: int) -> None:
    state, content = State("s3a://lake/orders"), dict[str, bytes]()
    state.store = SharedStore(_DyingFiles(content, 100))
    state.write_json("progress.json", {"version": 1})
    state.store = SharedStore(_DyingFiles(content, last))
    try:
        state.write_json("progress.json", {"version": 2})
        written = True
    except _KilledError:
        written = False
    state.store = SharedStore(_DyingFiles(content, 100))
    found = state.read_json("progress.json")["version"]
    assert found == 2 if written else found in (1, 2)
    state.write_json("progress.json", {"version": 3})
    assert state.read_json("progress.json") == {"version": 3}


def test_a_reader_finds_a_file_that_is_moved_while_it_looks() -> None:
    files = _DyingFiles({"_kafkapy/progress.json.next": b"{}"}, 100)

    def read(path: str) -> bytes:
        try:
            return Files.read(files, path)
        finally:
            if not path.endswith(".next") and path not in files.content:
                files.rename(f"{path}.next", path)

    files.read = read  # type: ignore[method-assign]
    state = State("s3a://lake/orders")
    state.store = SharedStore(files)
    assert state.read_json("progress.json") == {}


def test_one_driver_at_a_time_in_a_shared_store() -> None:
    content: dict[str, bytes] = {}
    first, second = State("s3a://lake/orders"), State("s3a://lake/orders")
    first.store, second.store = (SharedStore(_DyingFiles(content, 1000)) for _ in range(2))
    with first.lock():
        first.check_lock()
        assert second.running == os.getpid()
    assert second.running is None
    with second.lock():
        second.check_lock()


def test_a_second_driver_is_told_the_process_of_the_first(tmp_path: Path) -> None:
    state = State(tmp_path / "orders")
    with state.lock():
        assert State(tmp_path / "orders").running == os.getpid()
        with pytest.raises(PipelineError, match=rf"running already \(process {os.getpid()}\); stop that"):
            State(tmp_path / "orders").lock().__enter__()
    assert state.running is None
    with State(tmp_path / "orders").lock():
        pass


def test_a_killed_drivers_lock_is_free(tmp_path: Path) -> None:
    program = (
        "import sys; from kafkapy.pipeline.state import State\n"
        "with State(sys.argv[1]).lock(): print('held', flush=True); sys.stdin.read()"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert driver.stdout
    assert driver.stdout.readline() == "held\n"
    assert State(tmp_path).running == driver.pid
    driver.kill()
    driver.communicate()
    assert State(tmp_path).running is None
    with State(tmp_path).lock():
        assert State(tmp_path).running == os.getpid()
    assert json.loads(Path(tmp_path, "_kafkapy/lock").read_text()) == os.getpid()
