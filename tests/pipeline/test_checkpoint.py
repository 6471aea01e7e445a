"""Where a pipeline stands, by Spark's checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.pipeline import checkpoint
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State
from tests.pipeline import spark_checkpoint as spark


def test_before_the_first_run_nothing_is_known(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert checkpoint.initial_offsets(state) is None
    assert checkpoint.committed_batch(state) is None
    assert checkpoint.committed_offsets(state) is None
    assert checkpoint.planned_offsets(state) is None
    assert checkpoint.position(state) is None


def test_a_batch_counts_when_it_is_committed(tmp_path: Path) -> None:
    state = State(tmp_path)
    spark.begin(state, "orders", {0: 5, 1: 0})
    assert checkpoint.initial_offsets(state) == {0: 5, 1: 0}
    assert checkpoint.position(state) == {0: 5, 1: 0}
    spark.plan(state, "orders", 0, {0: 9, 1: 3})
    assert checkpoint.planned_offsets(state) == {0: 9, 1: 3}
    assert checkpoint.committed_offsets(state) is None
    assert checkpoint.position(state) == {0: 5, 1: 0}
    spark.commit(state, "orders", 0, {0: 9, 1: 3})
    assert checkpoint.position(state) == {0: 9, 1: 3}
    spark.plan(state, "orders", 1, {0: 12, 1: 3})
    assert (checkpoint.committed_batch(state), checkpoint.planned_batch(state)) == (0, 1)
    assert checkpoint.committed_offsets(state) == {0: 9, 1: 3}


def test_a_batch_is_of_the_offsets_between_two_plans(tmp_path: Path) -> None:
    state = State(tmp_path)
    spark.begin(state, "orders", {0: 5, 1: 0})
    spark.commit(state, "orders", 0, {0: 9, 1: 0})
    assert checkpoint.batch_offsets(state, 0) == {0: (5, 9)}
    spark.plan(state, "orders", 1, {0: 12, 1: 3, 2: 4})
    assert checkpoint.batch_offsets(state, 1) == {0: (9, 12), 1: (0, 3), 2: (0, 4)}


def test_a_batch_whose_plan_is_gone_is_named(tmp_path: Path) -> None:
    state = State(tmp_path)
    with pytest.raises(PipelineError, match="the checkpoint is damaged: offsets/0 is gone"):
        checkpoint.batch_offsets(state, 0)
    spark.plan(state, "orders", 7, {0: 12})
    with pytest.raises(PipelineError, match="the checkpoint is damaged: offsets/6 is gone"):
        checkpoint.batch_offsets(state, 7)


def test_batches_are_numbers_not_words(tmp_path: Path) -> None:
    state = State(tmp_path)
    for batch in (9, 10):
        spark.commit(state, "orders", batch, {0: batch})
    temporary = Path(state.checkpoint, "commits/.11.5f0c.tmp")
    temporary.write_text("v1")
    assert checkpoint.committed_batch(state) == 10
    assert checkpoint.committed_offsets(state) == {0: 10}


def test_after_a_reset_the_starting_offsets_are_the_position(tmp_path: Path) -> None:
    state = State(tmp_path)
    spark.commit(state, "orders", 0, {0: 9})
    state.begin_anew({0: 4}, trim=False)
    assert checkpoint.committed_offsets(state) is None
    assert checkpoint.position(state) == {0: 4}


@pytest.mark.parametrize("text", ["", "v1\n{}\n", "v2\n{}\n{}", "v1\n{}\n{", 'v1\n{}\n{"a":{"0":1},"b":{}}'])
def test_a_damaged_checkpoint_names_the_remedy(tmp_path: Path, text: str) -> None:
    """The position is the last one that can be read."""
    state = State(tmp_path / "the table")
    for batch in range(3):
        spark.commit(state, "orders", batch, {0: 9 * (batch + 1)})
    assert checkpoint.damage(state) is None
    Path(state.checkpoint, "offsets/2").write_text(text)
    Path(state.checkpoint, "offsets/.2.crc").unlink()
    with pytest.raises(PipelineError, match="the checkpoint is damaged: offsets/2 has not the offsets"):
        checkpoint.committed_offsets(state)
    assert checkpoint.position(state) == {0: 18}
    told = str(checkpoint.damage(state))
    assert told.endswith(f"can be read: kafkapy pipeline reset '{tmp_path}/the table' --to available")


def test_a_file_that_is_not_what_was_written_does_not_count(tmp_path: Path) -> None:
    state = State(tmp_path)
    spark.begin(state, "orders", {0: 5})
    spark.commit(state, "orders", 0, {0: 9})
    Path(state.checkpoint, "offsets/0").write_text('v1\n{}\n{"orders":{"0":8}}')
    assert "offsets/0 is not what was written: its checksum differs" in str(checkpoint.damage(state))
    assert checkpoint.position(state) == {0: 5}


@pytest.mark.parametrize(("sums", "how"), [(True, "not what was written"), (False, "empty or damaged")])
def test_a_batch_whose_commit_is_damaged_is_read_again(tmp_path: Path, sums: bool, how: str) -> None:
    state = State(tmp_path)
    for batch in range(3):
        spark.commit(state, "orders", batch, {0: 9 * (batch + 1)})
    Path(state.checkpoint, "commits/2").write_text("")
    if not sums:
        Path(state.checkpoint, "commits/.2.crc").unlink()
    assert f"the checkpoint is damaged: commits/2 is {how}" in str(checkpoint.damage(state))
    assert checkpoint.position(state) == {0: 18}
    spark.plan(state, "orders", 3, {0: 36})  # Spark plans a batch only after the one before is done
    assert checkpoint.position(state) == {0: 27}


def test_a_checkpoint_is_not_begun_twice_because_its_folder_has_another_name(tmp_path: Path) -> None:
    spark.commit(State(tmp_path), "orders", 0, {0: 9})
    elsewhere = State(tmp_path, checkpoints="/checkpoints")
    said = str(checkpoint.damage(elsewhere))
    assert said.startswith(
        f"{tmp_path}: checkpoint: the pipeline's checkpoint is beside the table, not in /checkpoints; correct"
    )
    assert said.endswith("kafkapy pipeline reset FILE --to available")
    assert checkpoint.position(elsewhere) == {0: 9}
    elsewhere.begin_anew({0: 9}, trim=False)
    assert checkpoint.damage(elsewhere) is None
    assert checkpoint.damage(State(tmp_path)) is None
    assert "is in /checkpoints, not in /other" in str(
        checkpoint.damage(State(tmp_path, checkpoints="/other"))
    )


def test_without_a_position_the_remedy_is_to_read_again(tmp_path: Path) -> None:
    state = State(tmp_path)
    spark.commit(state, "orders", 0, {0: 9})
    for name in ("offsets/0", "sources/0/0"):
        Path(state.checkpoint, name).unlink()
    assert checkpoint.position(state) is None
    assert str(checkpoint.damage(state)).endswith(f"kafkapy pipeline reset {tmp_path} --to earliest")


def test_a_batch_is_done_when_the_next_one_is_planned(tmp_path: Path) -> None:
    state = State(tmp_path)
    spark.plan(state, "orders", 0, {0: 9})
    spark.plan(state, "orders", 1, {0: 12})
    assert checkpoint.damage(state) is None
    assert checkpoint.position(state) == {0: 9}
