"""Dead letters listed, shown and replayed, as written by a pipeline."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkapy.pipeline.commands.cli import pipeline
from kafkapy.pipeline.dead_letters import replay
from kafkapy.pipeline.dead_letters.dead_letters import make_topic as make_dead_letter_topic
from kafkapy.pipeline.dead_letters.replay import replay_dead_letters
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State
from kafkapy.pipeline.table_target import TableTarget
from kafkapy.pipeline.topics import Topics
from tests.pipeline.conftest import MakeTopic


@pytest.fixture
def definition(bootstrap: str, topics: Topics, make_topic: MakeTopic, tmp_path: Path) -> PipelineDefinition:
    """Of a topic with two partitions, whose dead-letter topic is there."""
    topic = make_topic(2)
    made = PipelineDefinition(
        topic=topic,
        bootstrap=bootstrap,
        table=TableTarget(format="delta", location=str(tmp_path / "table")),
        dead_letter=f"{topic}.dlq",
    )
    make_dead_letter_topic(topics, made)
    (tmp_path / "orders.yaml").write_text(made.to_yaml())
    return made


WriteLetter = Callable[..., None]


@pytest.fixture
def write_letter(definition: PipelineDefinition, topics: Topics) -> WriteLetter:
    """Writes a dead letter of the record at that offset of partition 0."""

    def write(
        offset: int,
        error: str = "is not valid JSON",
        *,
        value: bytes | None = b"{",
        partition: int = 0,
        **further: Any,
    ) -> None:
        headers = [
            ("trace", b"\xff\x00"),
            ("empty", None),
            ("kafkapy.error", error.encode()),
            ("kafkapy.source", f"{definition.topic}-{partition}-{offset}".encode()),
            ("kafkapy.timestamp", b"1760000000123"),
            ("kafkapy.pipeline", further.pop("pipeline", definition.name).encode()),
            *((f"kafkapy.{name.replace('_', '-')}", text.encode()) for name, text in further.items()),
        ]
        producer = topics.producer()
        producer.produce(definition.dead_letter, key=f"key {offset}", value=value, headers=headers)
        assert producer.flush(10) == 0

    return write


def run(definition: PipelineDefinition, *arguments: str) -> Result:
    folder = Path(definition.table.location).parent
    command, *further = arguments
    return CliRunner().invoke(pipeline, ["dlq", command, str(folder / "orders.yaml"), *further])


def content(topics: Topics, topic: str) -> list[tuple[int, bytes, bytes | None, Any, int]]:
    return [
        (one.partition(), one.key(), one.value(), one.headers(), one.timestamp()[1])
        for one in topics.consume(topic)
    ]


def test_the_topic_keeps_dead_letters_for_ever_and_takes_larger_records_than_the_source(
    definition: PipelineDefinition, topics: Topics
) -> None:
    topic = definition.dead_letter
    assert topic is not None
    assert topics.partitions(topic) == [0]
    assert topics.setting(topic, "retention.ms") == "-1"
    source, letters = (int(topics.setting(one, "max.message.bytes")) for one in (definition.topic, topic))
    assert letters > source


def test_the_list_counts_by_error_and_partition_and_repeats_once(
    definition: PipelineDefinition, write_letter: WriteLetter
) -> None:
    for offset, value in enumerate(["x", "y", "z but no"]):
        write_letter(offset, f"does not match the schema: id is not BIGINT but {value}")
    write_letter(7, partition=1)
    write_letter(7, partition=1)
    write_letter(8, pipeline="another")
    told = json.loads(run(definition, "list", "--json").output)
    assert told["letters"] == 4
    assert told["repeats"] == 1
    counts = [(one["error"], one["partition"], one["letters"]) for one in told["errors"]]
    assert counts == [("does not match the schema: id is not BIGINT", 0, 3), ("is not valid JSON", 1, 1)]
    assert told["errors"][0]["first"] <= told["errors"][0]["last"]
    shown = run(definition, "list").output
    assert "4 dead letters" in shown
    assert shown.splitlines()[1].split() == ["letters", "replayed", "partition", "first", "last", "error"]
    assert shown.splitlines()[2].startswith("      3         0          0  ")
    assert shown.splitlines()[2].endswith("  the record does not match the schema: id is not BIGINT")


def test_without_dead_letters_the_list_is_empty(
    definition: PipelineDefinition, bootstrap: str, tmp_path: Path
) -> None:
    assert "0 dead letters" in run(definition, "list").output
    never_written = PipelineDefinition(
        topic=definition.topic, bootstrap=bootstrap, table=definition.table, dead_letter="never.written"
    )
    (tmp_path / "orders.yaml").write_text(never_written.to_yaml())
    assert "0 dead letters in never.written" in run(definition, "list").output


def test_a_pipeline_without_a_topic_for_them_says_so(
    definition: PipelineDefinition, bootstrap: str, tmp_path: Path
) -> None:
    without = PipelineDefinition(topic=definition.topic, bootstrap=bootstrap, table=definition.table)
    (tmp_path / "orders.yaml").write_text(without.to_yaml())
    failure = run(definition, "list").exception
    assert isinstance(failure, PipelineError)
    assert f"name one in dead_letter: {definition.topic}.dlq" in str(failure)


def test_what_is_text_is_shown_as_text_and_the_rest_in_hex(
    definition: PipelineDefinition, write_letter: WriteLetter
) -> None:
    write_letter(3, value="größe\nzwei".encode(), schema_id="7")
    write_letter(4, value=b"\xff\xfe\x01")
    write_letter(5, value=None)
    write_letter(6, value=b"x" * 3_000)
    shown = run(definition, "show").output
    assert f"{definition.topic}-0-3: the record is not valid JSON" in shown
    assert "  value         größe\n                zwei" in shown
    assert "  value         hex ff fe 01" in shown
    assert "  value         null" in shown
    assert "... and 1,000 characters more" in shown
    assert "  schema id     7" in shown
    assert "  header        trace: hex ff 00" in shown
    assert "  timestamp     2025-10-09T08:53:20.123Z" in shown


def test_one_record_or_the_last_ones_can_be_shown(
    definition: PipelineDefinition, write_letter: WriteLetter
) -> None:
    for offset in range(5):
        write_letter(offset)
    last = run(definition, "show", "--limit", "2").output
    assert [line for line in last.splitlines() if not line.startswith(" ") and line] == [
        f"{definition.topic}-0-{offset}: the record is not valid JSON" for offset in (3, 4)
    ]
    assert "-0-1: " in run(definition, "show", "--source", f"{definition.topic}-0-1").output
    assert "has no dead letter of" in run(definition, "show", "--source", f"{definition.topic}-0-99").output
    failure = run(definition, "show", "--source", "12").exception
    assert str(failure) == "--source: expected TOPIC-PARTITION-OFFSET, not '12'"


def test_a_replayed_record_is_as_it_was_but_for_where_it_failed(
    definition: PipelineDefinition, topics: Topics, write_letter: WriteLetter
) -> None:
    write_letter(4, partition=1, value=b"\xffbytes")
    write_letter(5, value=None)
    assert "2 dead letters replayed" in run(definition, "replay").output
    topic = definition.topic
    plain = [("trace", b"\xff\x00"), ("empty", None)]
    assert sorted(content(topics, topic)) == [
        (0, b"key 5", None, [*plain, ("kafkapy.source", f"{topic}-0-5".encode())], 1_760_000_000_123),
        (1, b"key 4", b"\xffbytes", [*plain, ("kafkapy.source", f"{topic}-1-4".encode())], 1_760_000_000_123),
    ]


def test_a_second_replay_sends_only_what_is_new(
    definition: PipelineDefinition, topics: Topics, write_letter: WriteLetter
) -> None:
    for offset in (1, 2, 2, 4):
        write_letter(offset)
    assert "3 dead letters replayed" in run(definition, "replay").output
    write_letter(4)  # a batch was run again
    write_letter(3)
    answer = run(definition, "replay").output
    assert "1 dead letters replayed" in answer
    assert "3 had been replayed before" in answer
    assert sorted(one[1] for one in content(topics, definition.topic)) == [
        b"key 1", b"key 2", b"key 3", b"key 4",
    ]  # fmt: skip
    kept = State(definition.table.location).read_json("dlq.json")
    assert kept[definition.topic]["done"] == {f"{definition.topic}-0": [[1, 4]]}
    assert json.loads(run(definition, "list", "--json").output)["replayed"] == 4
    assert "  replayed      yes" in run(definition, "show").output


def test_only_the_errors_that_are_asked_for_are_replayed(
    definition: PipelineDefinition, topics: Topics, make_topic: MakeTopic, write_letter: WriteLetter
) -> None:
    write_letter(1, "has no key")
    write_letter(2)
    other = make_topic(1)
    assert "1 dead letters" in run(definition, "replay", "--to", other, "--where-error", "valid json").output
    assert [one[1] for one in content(topics, other)] == [b"key 2"]
    # What went elsewhere has not gone back.
    assert "2 dead letters" in run(definition, "replay").output


def test_a_replay_that_was_killed_is_finished_without_sending_twice(
    definition: PipelineDefinition, topics: Topics, write_letter: WriteLetter
) -> None:
    for offset in range(4):
        write_letter(offset)
    topic = definition.topic
    state = State(definition.table.location)
    before = topics.end_offsets(topic)
    replay_dead_letters(definition, where_error="valid")
    # As if it had been killed when all were sent and none was written down.
    state.write_json("dlq.json", {topic: {"done": {}, "since": before}})
    write_letter(9)
    result = replay_dead_letters(definition)
    assert (result.replayed, result.before) == (1, 4)
    assert sorted(one[1] for one in content(topics, topic)) == [
        b"key 0", b"key 1", b"key 2", b"key 3", b"key 9",
    ]  # fmt: skip


def test_what_a_topic_refuses_is_one_line_and_can_be_replayed_later(
    definition: PipelineDefinition, topics: Topics, make_topic: MakeTopic, write_letter: WriteLetter
) -> None:
    write_letter(1, value=b"small")
    write_letter(2, value=random.Random(1).randbytes(2_000))
    narrow = make_topic(1, max_message_bytes="1000")
    with pytest.raises(
        PipelineError, match=rf"replaying {definition.topic}-0-2 failed: .*; repeat the command"
    ):
        replay_dead_letters(definition, to=narrow)
    with pytest.raises(PipelineError, match="-0-2 failed"):
        replay_dead_letters(definition, to=narrow)
    assert [one[2] for one in content(topics, narrow)] == [b"small"]


def shown_sources(definition: PipelineDefinition, *arguments: str) -> list[str]:
    lines = run(definition, "show", *arguments).output.splitlines()
    return [line.partition(":")[0] for line in lines if line.startswith(definition.topic)]


def test_those_of_a_topic_that_was_created_anew_are_told_apart(
    definition: PipelineDefinition, topics: Topics, write_letter: WriteLetter
) -> None:
    state = State(definition.table.location)
    table_id = state.begin_with("the former id").table_id
    assert table_id is not None
    write_letter(1, value=b"former", topic_id="the former id", table_id=table_id)
    write_letter(2, value=b"never replayed", topic_id="the former id", table_id=table_id)
    assert replay_dead_letters(definition, where_error="JSON").replayed == 2
    state.begin_anew({0: 0, 1: 0}, trim=False, topic_id="the present id")
    write_letter(1, value=b"present", topic_id="the present id", table_id=table_id)
    write_letter(3, value=b"of before there were ids")
    told = json.loads(run(definition, "list", "--json").output)
    assert (told["letters"], told["replayed"], told["repeats"], told["of_former_topic"]) == (2, 0, 0, 2)
    assert f"2 are of a former topic {definition.topic}: --former" in run(definition, "list").output
    assert "2 dead letters of a former topic" in run(definition, "list", "--former").output
    assert "value         present" in run(definition, "show").output
    assert shown_sources(definition, "--former") == [f"{definition.topic}-0-1", f"{definition.topic}-0-2"]
    assert replay_dead_letters(definition).replayed == 2
    last = [(value, dict(headers)) for _, _, value, headers, _ in content(topics, definition.topic)][-2:]
    assert [value for value, _ in last] == [b"present", b"of before there were ids"]
    assert last[0][1]["kafkapy.topic-id"] == b"the present id"
    result = replay_dead_letters(definition, to=definition.topic, former=True)
    assert (result.replayed, result.before) == (0, 2)


def test_those_of_a_topic_that_was_copied_with_its_offsets_are_the_present_ones(
    definition: PipelineDefinition, write_letter: WriteLetter
) -> None:
    state = State(definition.table.location)
    table_id = state.begin_with("the original's id").table_id
    assert table_id is not None
    write_letter(1, topic_id="the original's id", table_id=table_id)
    state.begin_anew({0: 4}, trim=False, topic_id="the copy's id", copied_from=("the original's id",))
    assert shown_sources(definition) == [f"{definition.topic}-0-1"]


def test_those_of_another_table_are_not_shown_though_the_pipelines_have_one_name(
    definition: PipelineDefinition, write_letter: WriteLetter
) -> None:
    table_id = State(definition.table.location).begin().table_id
    assert table_id is not None
    write_letter(1, table_id=table_id, pipeline="a former name")
    write_letter(2, table_id="another table")
    write_letter(3)
    assert shown_sources(definition) == [f"{definition.topic}-0-1", f"{definition.topic}-0-3"]


def test_a_killed_replay_tells_records_of_two_topics_of_one_name_apart(
    definition: PipelineDefinition, topics: Topics, write_letter: WriteLetter
) -> None:
    state = State(definition.table.location)
    table_id = state.begin_with("the present id").table_id
    assert table_id is not None
    producer = topics.producer()
    headers = [("kafkapy.source", f"{definition.topic}-0-1".encode()), ("kafkapy.topic-id", b"another")]
    producer.produce(definition.topic, value=b"of another", headers=headers)
    assert producer.flush(10) == 0
    state.write_json("dlq.json", {definition.topic: {"done": {}, "since": {"0": 0, "1": 0}}})
    write_letter(1, topic_id="the present id", table_id=table_id)
    assert replay_dead_letters(definition).replayed == 1


def test_the_list_of_what_was_replayed_is_written_a_few_times_only(
    definition: PipelineDefinition, write_letter: WriteLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def write(state: State, target: str, replayed: replay.Replayed) -> None:
        written.append(len(replayed.done))
        writing(state, target, replayed)

    writing = replay._write
    monkeypatch.setattr(replay, "_write", write)
    monkeypatch.setattr(replay, "_LEAST", 1)
    for offset in range(0, 80, 2):
        write_letter(offset)
    assert replay_dead_letters(definition).replayed == 40
    assert written == [0, 1, 2, 4, 8, 16, 32, 40]


def test_the_entries_of_other_topics_stay_as_they_are(
    definition: PipelineDefinition, make_topic: MakeTopic, write_letter: WriteLetter
) -> None:
    state = State(definition.table.location)
    others = {'an "odd" name': {"done": {"a-0@id": [[1, 2], [9, 9]]}, "since": {"0": 7}}}
    state.write_json("dlq.json", others)
    write_letter(1)
    write_letter(7)
    assert replay_dead_letters(definition).replayed == 2
    place = f"{definition.topic}-0"
    own = {definition.topic: {"done": {place: [[1, 1], [7, 7]]}, "since": None}}
    assert state.read_json("dlq.json") == {**others, **own}


def test_replaying_at_the_same_time_is_refused(
    definition: PipelineDefinition, write_letter: WriteLetter
) -> None:
    write_letter(1)
    with (
        State(definition.table.location).lock("dlq.lock"),
        pytest.raises(PipelineError, match=r"its dead letters are being replayed \(process \d+\)"),
    ):
        replay_dead_letters(definition)


def test_replaying_into_the_dead_letters_or_nowhere_is_refused(definition: PipelineDefinition) -> None:
    with pytest.raises(PipelineError, match="this is the dead-letter topic"):
        replay_dead_letters(definition, to=definition.dead_letter)
    with pytest.raises(PipelineError, match="there is no topic 'nowhere'"):
        replay_dead_letters(definition, to="nowhere")
