"""The schema registry, and the schemas of writers that it knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy.pipeline.definition import FormatDefinition
from kafkapy.pipeline.formats.avro_format import AvroFormat
from kafkapy.pipeline.formats.registry import Registry
from kafkapy.pipeline.formats.spark_types import sql_name
from kafkapy.pipeline.formats.writer_schemas import WriterSchemas
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State
from tests.pipeline.schema_registry import SchemaRegistry, running_registry
from tests.pipeline.test_avro_schemas import record


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as running:
        yield running


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path / "table")


def columns(schemas: AvroFormat) -> str | None:
    return None if schemas.columns is None else sql_name(schemas.columns)


def test_a_schema_comes_with_what_it_refers_to(registry: SchemaRegistry) -> None:
    registry.register(
        7, record(("to", "Address")), references=[{"name": "Address", "subject": "a/b", "version": 3}]
    )
    registry.answers["/subjects/a%2Fb/versions/3"] = {
        "schema": "address", "references": [{"name": "Zip", "subject": "zip", "version": 1}],
    }  # fmt: skip
    registry.answers["/subjects/zip/versions/1"] = {"schema": "zip"}
    found = Registry(registry.url + "/").schema(7)
    assert found is not None
    assert (found.kind, found.references) == ("AVRO", ("zip", "address"))
    assert Registry(registry.url).schema(8) is None


def test_user_and_password_stand_in_the_url(registry: SchemaRegistry) -> None:
    user = registry.url.replace("//", "//me:s%40cret@")
    Registry(user).check()
    assert registry.logins == ["Basic bWU6c0BjcmV0"]
    registry.answers["/schemas/types"] = 401
    with pytest.raises(
        PipelineError, match=r"answered 401 Unauthorized; put USER:PASSWORD@ into format.registry"
    ):
        Registry(user).check()


def test_a_registry_that_is_down_is_no_answer(registry: SchemaRegistry) -> None:
    registry.answers["/schemas/ids/7"] = 503
    with pytest.raises(PipelineError, match=r"answered 503 Service Unavailable; start it"):
        Registry(registry.url).schema(7)
    assert registry.asked.count("/schemas/ids/7") == 3, "it may come back"
    with pytest.raises(PipelineError, match=r"cannot be reached: .*refused; start it"):
        Registry("http://127.0.0.1:1").check()


def test_writers_schemas_are_asked_for_once_and_kept(registry: SchemaRegistry, state: State) -> None:
    registry.register(1, record(("id", "int")))
    registry.register(2, record(("id", "long"), ("note", "string")))
    WriterSchemas({}, registry.url, state).learn([2, 1])
    asked = list(registry.asked)
    again = WriterSchemas({}, registry.url, state)
    again.learn([1, 2])
    assert list(again.known()) == [2, 1], "in the order in which they were met"
    assert registry.asked == asked
    assert columns(AvroFormat(FormatDefinition(kind="avro", registry=registry.url), state)) == (
        "STRUCT<id: BIGINT, note: STRING>"
    )


def test_ids_that_are_of_no_use_are_told_and_asked_for_again(registry: SchemaRegistry, state: State) -> None:
    registry.register(5, "syntax", kind="PROTOBUF")
    registry.register(6, record(("next", ["null", "Order"])))
    schemas = WriterSchemas({}, registry.url, state)
    schemas.learn([4, 5, 6])
    assert schemas.known() == {}
    assert schemas.problems[4] == f"which the registry {registry.url} does not know"
    assert schemas.problems[5] == "which is a schema of PROTOBUF, not Avro"
    assert "which cannot become columns: next is recursive" in schemas.problems[6]
    registry.register(4, record(("id", "int")))
    schemas.learn([4])
    assert list(schemas.known()) == [4]
    assert 4 not in schemas.problems


def test_schemas_of_files_need_no_registry(state: State, tmp_path: Path) -> None:
    (tmp_path / "v1.avsc").write_text(
        '{"type": "record", "name": "O", "fields": [{"name": "a", "type": "int"}]}'
    )
    (tmp_path / "v2.avsc").write_text(
        '{"type": "record", "name": "O", "fields": [{"name": "b", "type": "int"}]}'
    )
    files = {2: str(tmp_path / "v2.avsc"), 1: str(tmp_path / "v1.avsc")}
    schemas = AvroFormat(FormatDefinition(kind="avro", schemas=files), state)
    schemas.check()
    assert columns(schemas) == "STRUCT<a: BIGINT, b: BIGINT>"
    given = AvroFormat(FormatDefinition(kind="avro", schemas=files, schema=files[1]), state)
    assert columns(given) == "STRUCT<a: INT>"
    (tmp_path / "v2.avsc").write_text("{}")
    with pytest.raises(PipelineError, match=r"v2\.avsc: the schema: expected an Avro type"):
        AvroFormat(FormatDefinition(kind="avro", schemas=files), state).check()


def test_before_the_first_record_a_registry_tells_no_columns(registry: SchemaRegistry, state: State) -> None:
    schemas = AvroFormat(FormatDefinition(kind="avro", registry=registry.url), state)
    schemas.check()
    assert columns(schemas) is None
    registry.answers["/schemas/types"] = 500
    with pytest.raises(PipelineError, match="answered 500"):
        schemas.check()


def test_a_writers_schema_with_a_name_of_the_tables_own_is_a_problem_of_its_records_alone(
    registry: SchemaRegistry, state: State
) -> None:
    registry.register(1, record(("id", "int")))
    registry.register(2, record(("id", "int"), ("Batch", "string")))
    WriterSchemas({}, registry.url, state).learn([1, 2])  # as a table without this name stores it
    schemas = WriterSchemas({}, registry.url, state, {"batch"})
    assert list(schemas.known()) == [1]
    schemas.learn([1, 2])
    assert list(schemas.known()) == [1]
    told = "which cannot become columns: the column batch is the table's own; rename the field"
    assert schemas.problems == {2: told}


def test_a_readers_schema_leaves_out_what_has_a_name_of_the_tables_own(
    registry: SchemaRegistry, state: State, tmp_path: Path
) -> None:
    registry.register(1, record(("id", "int"), ("Batch", "string")))
    (tmp_path / "reader.avsc").write_text(json.dumps(record(("id", "int"))))
    definition = FormatDefinition(kind="avro", registry=registry.url, schema=str(tmp_path / "reader.avsc"))
    schemas = AvroFormat(definition, state, {"batch"})
    assert columns(schemas) == "STRUCT<id: INT>"
    assert schemas._writers is not None
    schemas._writers.learn([1])
    assert (list(schemas._writers.known()), schemas._writers.problems) == ([1], {})
