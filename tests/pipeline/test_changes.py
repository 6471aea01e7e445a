"""Change streams: what a definition may say of them, and the columns of their envelopes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.format_definition import CHANGE_KINDS
from kafkapy.pipeline.formats import open_format
from kafkapy.pipeline.formats.changes.envelope import ENVELOPES
from kafkapy.pipeline.formats.spark_types import struct
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State

JSON: dict[str, Any] = {"kind": "json", "schema": "id BIGINT NOT NULL, name STRING", "changes": "debezium"}


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path / "table")


def defined(kind: dict[str, Any] = JSON, table: str = "delta:lake/orders", **more: Any) -> PipelineDefinition:
    return PipelineDefinition.from_mapping({"topic": "orders", "table": table, "format": kind, **more})


def test_a_definition_names_the_envelopes_that_there_are() -> None:
    assert set(CHANGE_KINDS) == {*ENVELOPES, "canal"}
    for name in CHANGE_KINDS:
        definition = defined({**JSON, "changes": name}, key="id")
        assert PipelineDefinition.from_mapping(definition.to_mapping()) == definition


CANAL: dict[str, Any] = {**JSON, "changes": "canal"}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"kind": CANAL}, "key: records of canal need not have the key of the row; name columns of the row"),
        ({"kind": {**JSON, "changes": "goldengate"}}, "key: records of goldengate need not have the key"),
        (
            {"kind": {"kind": "json", "changes": "goldengate"}, "key": "id"},
            "format.schema: an update of goldengate may lack some of the columns",
        ),
        (
            {"kind": {"kind": "avro", "schema": '"string"', "changes": "goldengate"}, "key": "id"},
            "format.changes: messages of goldengate are JSON; write kind: json",
        ),
        (
            {"kind": {"kind": "json", "changes": "canal"}, "key": "id"},
            "format.schema: canal writes all values as texts, so the columns need a schema",
        ),
        (
            {"kind": {"kind": "avro", "schema": '"string"', "changes": "canal"}, "key": "id"},
            "format.changes: messages of canal are JSON; write kind: json",
        ),
        ({"kind": CANAL, "key": "id", "where": "id > 1"}, "where: a record of canal may have several rows"),
        ({"kind": CANAL, "key": "id", "select": "id"}, "select: a record of canal may have several rows"),
        (
            {"kind": CANAL, "key": "id", "partition_by": "name"},
            "partition_by: a record of canal may have several rows",
        ),
        ({"kind": {**JSON, "changes": "debezum"}}, "unknown kind 'debezum' (did you mean 'debezium'?)"),
        ({"kind": {"kind": "raw", "changes": "debezium"}}, "format.changes: raw takes no changes"),
        ({"kind": {**JSON, "rescued": "_r"}}, "format.rescued: what surrounds the row of a change"),
        (
            {"kind": {"kind": "json", "changes": "debezium"}, "key": "id", "widen_types": True},
            "widen_types: of inferred changes",
        ),
        ({"mode": "append"}, "mode: changes of rows are upserted"),
        ({"table": "parquet:lake/orders"}, "Parquet files cannot be upserted into"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(PipelineError) as caught:
        defined(**more)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_changes_are_upserted_by_the_record_key_of_a_compacted_topic() -> None:
    assert defined().mode_for(["delete"]) == "upsert"
    assert defined().mode_for(["compact"]) == "upsert"
    with pytest.raises(PipelineError, match="key: the topic orders is compacted"):
        defined(key="id").mode_for(["compact"])


def test_the_columns_are_those_of_the_rows(state: State) -> None:
    assert open_format(defined(), state).columns == struct({"id": "long", "name": "string"}) | {
        "fields": [
            {"name": "id", "type": "long", "nullable": False, "metadata": {}},
            {"name": "name", "type": "string", "nullable": True, "metadata": {}},
        ]
    }
    taken = {**JSON, "schema": "id BIGINT, _offset BIGINT"}
    with pytest.raises(PipelineError, match="the column _offset is the table's own"):
        open_format(defined(taken), state).check()


def test_the_columns_of_canal_are_those_that_a_text_may_have(state: State) -> None:
    reader = open_format(defined(CANAL, key="ID"), state)
    reader.check()
    assert reader.columns == open_format(defined(), state).columns
    for schema, problem in {
        "id BIGINT, tags ARRAY<STRING>": "format.schema: tags is ARRAY<STRING>, which canal writes as a text",
        "id BIGINT, photo BINARY": "format.schema: photo is BINARY, which canal writes as a text; use STRING",
        "number BIGINT": "key: the data has no column id; it has number",
        "id BIGINT, _offset BIGINT": "the column _offset is the table's own",
    }.items():
        with pytest.raises(PipelineError) as caught:
            open_format(defined({**CANAL, "schema": schema}, key="id"), state).check()
        assert problem in str(caught.value)


def test_an_envelope_takes_the_rows_of_the_form_that_values_have() -> None:
    envelope = ENVELOPES["debezium"].without_former()
    row = struct({"id": "long", "name": "string"})
    bare = struct({"op": "string", "before": row, "after": struct({"id": "long"}), "ts_ms": "long"})
    nothing = struct({})
    assert envelope.narrowed(bare, nothing) == struct({"op": "string", "after": row})
    wrapped = struct({"schema": struct({"type": "string"}), "payload": bare})
    known = envelope.narrowed(wrapped, nothing)
    assert known == struct({"payload": struct({"op": "string", "after": row})})
    assert envelope.narrowed(bare, known) == nothing
    deletes = struct({"op": "string", "before": struct({"id": "long"})})
    assert envelope.narrowed(deletes, nothing) == struct({"op": "string", "after": struct({"id": "long"})})
    both = ENVELOPES["debezium"].narrowed(bare, nothing)
    assert ENVELOPES["debezium"].row_of(both) == row


def test_a_change_that_is_not_followed_has_a_reason_of_its_own_in_metrics() -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")
    from kafkapy.pipeline.formats.changes.canal_format import REFUSED
    from kafkapy.pipeline.run.reasons import REASONS

    for told in (*ENVELOPES["debezium"].refused.values(), *REFUSED.values()):
        assert next(one for one in REASONS if told.startswith(one)) == told
    for told in (
        "is no change: it has no op",
        "is a change without a row: after is missing",
        "changes the key column id, which is not followed",
        "does not have the column name, which its source did not log",
    ):
        assert any(told.startswith(one) for one in REASONS)
