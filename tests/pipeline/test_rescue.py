"""What of a JSON object is for the columns, and what is for the column of rescued data."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.formats import open_format
from kafkapy.pipeline.formats.ddl import parse_ddl
from kafkapy.pipeline.formats.rescue import Rescue, restored
from kafkapy.pipeline.formats.spark_types import struct_fields
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State

COLUMNS = parse_ddl(
    "id BIGINT, name STRING, s STRUCT<x: BIGINT, t: STRUCT<y: DATE>>, a ARRAY<STRUCT<x: BIGINT>>, "
    "m MAP<STRING, STRUCT<x: BIGINT>>, n ARRAY<STRING>"
)
PATHS = [".".join(path) for path, _ in struct_fields(COLUMNS)]


def divided(text: str, *bad: str, wrong: bool = True) -> tuple[str, str] | None:
    return Rescue(COLUMNS, keys=["ID"])(text, [PATHS.index(one) for one in bad] if wrong else None)


@pytest.mark.parametrize(
    ("text", "bad", "kept", "rescued"),
    [
        ('{"id":1,"new":2}', [], '{"id":1}', '{"new":2}'),
        ('{"id": 1, "ID": "x"}', [], '{"id":1}', '{"ID":"x"}'),
        ('{"new":[],"n":null,"old":null}', [], '{"n":null}', '{"new":[]}'),
        ('{"name":"größe","new":"größe\\n"}', [], '{"name":"größe"}', '{"new":"größe\\n"}'),
        ('{"new":1.0e1, "b": 1e400}', [], "{}", '{"new":1.0e1,"b":1e400}'),
        ('{"new":%s.10}' % ("9" * 39), [], "{}", '{"new":%s.10}' % ("9" * 39)),
        ('{"s":{"x":"n/a","new":1}}', ["s.x"], '{"s":{}}', '{"s":{"x":"n/a","new":1}}'),
        ('{"s":{"x":1,"t":{"y":7}}}', ["s.t.y"], '{"s":{"x":1,"t":{}}}', '{"s":{"t":{"y":7}}}'),
        ('{"s":[1]}', ["s", "s.x", "s.t", "s.t.y"], "{}", '{"s":[1]}'),
        ('{"s":{"x":"a"}}', ["s", "s.x", "s.t", "s.t.y"], '{"s":{}}', '{"s":{"x":"a"}}'),
        ('{"a":[{"x":1},{"x":2,"y":true}]}', [], '{"a":[{"x":1},{"x":2}]}', '{"a":[null,{"y":true}]}'),
        ('{"a":[{"x":1},{"x":"b"}]}', ["a"], "{}", '{"a":[{"x":1},{"x":"b"}]}'),
        ('{"m":{"k":{"x":1},"l":{"y":1}}}', [], '{"m":{"k":{"x":1},"l":{}}}', '{"m":{"l":{"y":1}}}'),
        ('{"name":"\\ud800","n":["\\udc00"]}', [], "{}", '{"name":"\\ud800","n":["\\udc00"]}'),
        ('{"\\ud800":1}', [], "{}", '{"\\ud800":1}'),
        ('{"id":1,"name":0.12345678901234567890}', [], '{"id":1}', '{"name":0.12345678901234567890}'),
        ('{"name":1.10,"n":["x",{"y":[1e400]}]}', [], '{"name":1.10}', '{"n":["x",{"y":[1e400]}]}'),
        ('{"name":-1e-99999999999999999999}', [], "{}", '{"name":-1e-99999999999999999999}'),
    ],
)
def test_what_no_column_holds_is_kept_as_it_was_sent(
    text: str, bad: list[str], kept: str, rescued: str
) -> None:
    assert divided(text, *bad) == (kept, rescued)


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ('{"id":1,"name":"\\ud83d\\ude00"}', []),
        ('{"id":1,"new":null}', []),
        ('{"id":"n/a","name":"x"}', ["id"]),  # a key is exact, or the record is a dead letter
        ('{"name":1,"name":2,"new":1}', []),  # which of the two was meant?
        ("{", []),
        ('{"new":NaN}', []),
        ('{"new":' + "[" * 100_000 + "]" * 100_000 + "}", []),
    ],
)
def test_nothing_is_rescued(text: str, bad: list[str]) -> None:
    assert divided(text, *bad) is None


def test_of_a_name_that_is_there_twice_the_last_counts_in_a_record_without_an_error() -> None:
    assert divided('{"name":"1","new":1,"name":"2"}', wrong=False) == ('{"name":"2"}', '{"new":1}')


@pytest.mark.parametrize(
    ("columns", "rescued", "sent"),
    [
        ('{"id":1}', None, '{"id":1}'),
        ('{"id":1}', '{"new":1.0e1}', '{"id":1,"new":1.0e1}'),
        ('{"s":{"x":1}}', '{"s":{"new":"ö"},"t":1}', '{"s":{"x":1,"new":"ö"},"t":1}'),
        ('{"a":[{"x":1},{}]}', '{"a":[null,{"y":1}]}', '{"a":[{"x":1},{"y":1}]}'),
        ("{}", '{"s":[1]}', '{"s":[1]}'),
    ],
)
def test_a_row_becomes_what_was_sent(columns: str, rescued: str | None, sent: str) -> None:
    assert restored(columns, rescued) == sent


@pytest.mark.parametrize(
    ("schema", "rescued", "message"),
    [
        ("id INT", "_Offset", "format.rescued: _Offset is a column of the table's own; name another"),
        (None, "batch", "format.rescued: batch is a column of the table's own; name another"),
        ("id INT, _rescued INT", "_Rescued", "the field _Rescued differs from _rescued by case only"),
    ],
)
def test_a_name_that_is_taken_is_refused(
    schema: str | None, rescued: str, message: str, tmp_path: Path
) -> None:
    kind = {"kind": "json", "rescued": rescued, **({"schema": schema} if schema else {})}
    mapping = {"topic": "orders", "table": f"parquet:{tmp_path / 'table'}", "format": kind}
    definition = PipelineDefinition.from_mapping(mapping)
    with pytest.raises(PipelineError) as refused:
        open_format(definition, State(definition.table.location)).check()
    assert message in str(refused.value)
