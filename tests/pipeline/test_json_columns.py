"""Columns that inferring JSON adds, batch by batch."""

from __future__ import annotations

import pytest

from kafkapy.pipeline.formats.ddl import parse_ddl
from kafkapy.pipeline.formats.json_columns import merged_columns
from kafkapy.pipeline.formats.spark_types import Struct, sql_name, struct


def merged(known: str, found: str) -> tuple[str, list[str]]:
    columns, refused = merged_columns(parse_ddl(known) if known else struct({}), parse_ddl(found))
    return sql_name(columns).removeprefix("STRUCT<")[:-1], refused


@pytest.mark.parametrize(
    ("known", "found", "columns"),
    [
        ("", "b BIGINT, a STRING", "b: BIGINT, a: STRING"),
        ("a BIGINT", "b STRING", "a: BIGINT, b: STRING"),
        ("a BIGINT", "a DOUBLE", "a: BIGINT"),
        ("a DOUBLE", "a BIGINT", "a: DOUBLE"),
        ("a STRING", "a STRUCT<x: BIGINT>", "a: STRING"),
        ("s STRUCT<x: BIGINT>", "s STRUCT<x: STRING, y: STRING>", "s: STRUCT<x: BIGINT, y: STRING>"),
        (
            "a ARRAY<STRUCT<x: BIGINT>>",
            "a ARRAY<STRUCT<y: DOUBLE>>",
            "a: ARRAY<STRUCT<x: BIGINT, y: DOUBLE>>",
        ),
    ],
)
def test_columns_are_added_and_keep_their_type(known: str, found: str, columns: str) -> None:
    assert merged(known, found) == (columns, [])


@pytest.mark.parametrize(
    ("known", "found", "columns", "refused"),
    [
        ("id BIGINT", "ID STRING", "id: BIGINT", "ID"),
        ("", "s STRUCT<a: INT, A: INT>", "s: STRUCT<a: INT>", "s.A"),
        ("", "a ARRAY<STRUCT<x: INT, X: INT>>", "a: ARRAY<STRUCT<x: INT>>", "a[].X"),
        ("", "_OFFSET INT, n INT", "n: INT", "_OFFSET"),
    ],
)  # fmt: skip
def test_fields_that_no_column_can_take_are_told(known: str, found: str, columns: str, refused: str) -> None:
    assert merged(known, found) == (columns, [refused])


def test_a_batch_that_is_run_again_finds_the_same_columns() -> None:
    first: Struct = parse_ddl("a BIGINT, s STRUCT<x: BIGINT>")
    batch = parse_ddl("a STRING, A INT, s STRUCT<y: DECIMAL(20,0), X: INT>, l ARRAY<STRUCT<b: INT>>")
    once, refused = merged_columns(first, batch)
    assert merged_columns(once, batch) == (once, refused)


def test_names_that_the_table_does_not_take_are_no_columns() -> None:
    columns, refused = merged_columns(
        struct({}), parse_ddl("`a b` INT, s STRUCT<`x;`: INT, y: INT>, e STRUCT<`;`: INT>"), forbidden=" ;"
    )
    assert sql_name(columns) == "STRUCT<s: STRUCT<y: INT>>"
    assert refused == ["a b", "s.x;", "e.;"]


def test_names_that_the_table_has_for_itself_are_no_columns() -> None:
    columns, refused = merged_columns(
        struct({}), parse_ddl("Batch INT, n STRUCT<batch: INT>"), taken={"batch"}
    )
    assert sql_name(columns) == "STRUCT<n: STRUCT<batch: INT>>"
    assert refused == ["Batch"]
