"""Columns that inferring JSON adds, batch by batch."""

from __future__ import annotations

import pytest

from kafkapy.pipeline.formats.ddl import parse_ddl
from kafkapy.pipeline.formats.json_columns import (
    by_frequency,
    hides_fields,
    json_path,
    merged_columns,
    spellings,
)
from kafkapy.pipeline.formats.spark_types import Struct, sql_name, struct


def merged(known: str, found: str) -> tuple[str, list[str]]:
    columns, refused = merged_columns(parse_ddl(known) if known else struct({}), parse_ddl(found))
    return sql_name(columns).removeprefix("STRUCT<")[:-1], [f"{one.name} {one.reason}" for one in refused]


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
        ("", "a DECIMAL(20,0), b ARRAY<DECIMAL(25,0)>", "a: DECIMAL(38,0), b: ARRAY<DECIMAL(38,0)>"),
        ("", "a BIGINT, a BIGINT", "a: BIGINT"),
        ("", "a BIGINT, a BOOLEAN", "a: STRING"),
    ],
)
def test_columns_are_added_and_keep_their_type(known: str, found: str, columns: str) -> None:
    assert merged(known, found) == (columns, [])


@pytest.mark.parametrize(
    ("known", "found", "columns", "refused"),
    [
        ("id BIGINT", "ID STRING", "id: BIGINT", "ID differs from the column id by case only"),
        ("", "s STRUCT<a: INT, A: INT>", "s: STRUCT<a: INT>", "s.A differs from the column a by case only"),
        ("", "a ARRAY<STRUCT<x: INT, X: INT>>", "a: ARRAY<STRUCT<x: INT>>",
         "a[].X differs from the column x by case only"),
        ("", "_OFFSET INT, n INT", "n: INT", "_OFFSET has the name of one of the table's own columns"),
    ],
)  # fmt: skip
def test_fields_that_no_column_can_take_are_told(known: str, found: str, columns: str, refused: str) -> None:
    assert merged(known, found) == (columns, [refused])


def test_a_batch_that_is_run_again_finds_the_same_columns() -> None:
    first: Struct = parse_ddl("a BIGINT, s STRUCT<x: BIGINT>")
    batch = parse_ddl("a STRING, A INT, s STRUCT<y: DECIMAL(20,0), X: INT>, l ARRAY<STRUCT<b: INT>>")
    once, refused = merged_columns(first, batch)
    assert merged_columns(once, batch) == (once, refused)


def test_refused_fields_are_found_in_the_text_by_their_path() -> None:
    _, refused = merged_columns(struct({}), parse_ddl("a ARRAY<STRUCT<`x y`: INT, `X Y`: INT>>"))
    assert [json_path(one.path) for one in refused] == ["$['a'][*]['X Y']"]


def test_names_that_the_table_does_not_take_are_no_columns() -> None:
    columns, refused = merged_columns(
        struct({}), parse_ddl("`a b` INT, s STRUCT<`x;`: INT, y: INT>, e STRUCT<`;`: INT>"), forbidden=" ;"
    )
    assert sql_name(columns) == "STRUCT<s: STRUCT<y: INT>>"
    assert [one.path for one in refused] == [("a b",), ("s", "x;"), ("e", ";")]


def test_names_that_the_table_has_for_itself_are_no_columns() -> None:
    columns, refused = merged_columns(
        struct({}), parse_ddl("Batch INT, n STRUCT<batch: INT>"), taken={"batch"}
    )
    assert sql_name(columns) == "STRUCT<n: STRUCT<batch: INT>>"
    assert [one.path for one in refused] == [("Batch",)]


def test_of_names_that_differ_by_case_alone_the_one_that_most_records_have_comes_first() -> None:
    found = parse_ddl("B INT, ID INT, Id INT, a ARRAY<STRUCT<X: INT, x: INT, y: INT>>, id INT")
    paths = [("ID",), ("Id",), ("id",), ("a", "*", "X"), ("a", "*", "x")]
    assert list(spellings(found)) == paths
    ordered = by_frequency(found, dict(zip(paths, (1, 0, 9, 2, 3), strict=True)))
    assert sql_name(ordered) == (
        "STRUCT<B: INT, id: INT, ID: INT, Id: INT, a: ARRAY<STRUCT<x: INT, X: INT, y: INT>>>"
    )


@pytest.mark.parametrize(
    ("known", "found", "hides"),
    [
        ("n STRUCT<x: BIGINT>", "n STRING", True),
        ("n STRUCT<x: BIGINT>", "n ARRAY<BIGINT>", True),
        ("l ARRAY<STRUCT<x: BIGINT>>", "l STRING", True),
        ("l ARRAY<STRUCT<x: BIGINT>>", "l STRUCT<x: BIGINT>", True),
        ("l ARRAY<STRUCT<x: BIGINT>>", "l ARRAY<STRING>", True),
        ("n STRUCT<i: STRUCT<x: BIGINT>>", "n STRUCT<i: STRING>", True),
        ("n STRUCT<x: BIGINT>", "n STRUCT<x: STRING, y: STRING>", False),
        ("l ARRAY<BIGINT>", "l STRING", False),
        ("id BIGINT, t STRING", "id STRING, t STRUCT<x: BIGINT>", False),
        ("n STRUCT<x: BIGINT>", "m STRING", False),
    ],
)
def test_a_mixture_in_the_place_of_an_object_hides_the_objects_fields(
    known: str, found: str, hides: bool
) -> None:
    assert hides_fields(parse_ddl(known), parse_ddl(found)) is hides
