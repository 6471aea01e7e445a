"""Types that most values of a sample have, and how sure they are."""

from __future__ import annotations

import json

import pytest

from kafkapy.pipeline.formats.ddl import parse_ddl
from kafkapy.pipeline.formats.json_sample import Sample
from kafkapy.pipeline.formats.spark_types import sql_name, struct


def found(*values: str, known: str = "") -> str:
    columns = Sample(values).found(parse_ddl(known) if known else struct({}))
    return sql_name(columns).removeprefix("STRUCT<")[:-1]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-9007199254740993"], "BIGINT"),
        (["9223372036854775807", "-9223372036854775808"], "BIGINT"),
        (["1", "9223372036854775808"], "DECIMAL(38,0)"),
        (["9" * 38], "DECIMAL(38,0)"),
        (["9" * 39], "STRING"),
        (["9" * 5_000], "STRING"),
        (["1", "1.0"], "DOUBLE"),
        (["1e1"], "DOUBLE"),
        (["9007199254740993", "1.5"], "STRING"),
        (["9007199254740992", "1.5"], "DOUBLE"),
        (["true", "null"], "BOOLEAN"),
        (["true", "1"], "STRING"),
        (['"a"', "1"], "STRING"),
        (['""'], "STRING"),
        (["[1, null]", "[]", "[2]"], "ARRAY<BIGINT>"),
        (["[1]", '["a"]'], "ARRAY<STRING>"),
        (["[[1.5]]"], "ARRAY<ARRAY<DOUBLE>>"),
        (["[1]", "1"], "STRING"),
        (['{"a": 1}', '{"b": "x", "a": null, "": 1}'], "STRUCT<a: BIGINT, b: STRING>"),
        (['{"a": 1}', "[1]"], "STRING"),
        (["null"], ""),
        (["[]", "[null]", "[[]]"], ""),
        (["{}", '{"a": null}'], ""),
    ],
)
def test_the_values_of_a_field_make_its_type(values: list[str], kind: str) -> None:
    assert found(*(f'{{"x": {value}}}' for value in values)) == (f"x: {kind}" if kind else "")


@pytest.mark.parametrize("poison", ['"n/a"', "1.5", "9" * 39, "9" * 20, "1.0e1", '{"a": 1}', "[1]", "true"])
def test_one_value_in_a_hundred_decides_nothing(poison: str) -> None:
    values = [f'{{"x": {number}}}' for number in range(99)]
    assert found(*values, f'{{"x": {poison}}}') == "x: BIGINT"
    assert found(*values[1:], f'{{"x": {poison}}}') != "x: BIGINT"


def test_what_a_minority_holds_is_no_column_within_another_one() -> None:
    assert found(*['{"x": 1}'] * 200, '{"x": {"a": 1}}') == "x: BIGINT"
    assert found(*['{"x": [1]}'] * 200, '{"x": ["n/a", 1.5]}') == "x: ARRAY<BIGINT>"


def test_fields_are_found_in_known_objects_whatever_most_records_have() -> None:
    known = "n STRUCT<x: BIGINT>, l ARRAY<STRUCT<p: BIGINT>>, t STRING"
    values = ['{"n": 5, "l": {}, "t": {"a": 1}}', '{"n": {"y": "z"}, "l": [5, {"q": true}]}']
    assert found(*values, known=known) == "l: ARRAY<STRUCT<q: BOOLEAN>>, n: STRUCT<y: STRING>, t: STRING"


def test_of_names_that_differ_by_case_alone_the_most_frequent_one_comes_first() -> None:
    values = ['{"B": 1, "ID": 1, "Id": null}', '{"id": 1}', '{"id": 1, "a": [{"X": 1}, {"x": 1}, {"x": 1}]}']
    assert found(*values) == "B: BIGINT, id: BIGINT, ID: BIGINT, a: ARRAY<STRUCT<x: BIGINT, X: BIGINT>>"


def test_what_is_no_json_object_is_left_out() -> None:
    values = ["", "x", "[1]", "5", '{"a": NaN}', '{"a": 1} {', "[" * 100_000, '{"a": 1}']
    assert len(Sample(values)) == 1


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize("levels", [33, 400, 900])
def test_an_object_of_too_many_levels_is_left_out(levels: int) -> None:
    """Python recurses some times for each level, and Spark's own types have as many."""
    lists = f'{{"a": {"[" * levels}1{"]" * levels}}}'
    many_fields = json.dumps({f"f{number}": [{}] for number in range(levels)})
    sample = Sample([nested(levels), lists, many_fields, '{"x": 1}'])
    assert len(sample) == 2
    assert "a" not in {one["name"] for one in sample.found(struct({}))["fields"]}


def test_an_object_of_32_levels_has_columns() -> None:
    sample = Sample([nested(32)])
    columns = sample.found(struct({}))
    assert sql_name(columns).count("STRUCT<a: ") == 32
    assert sample.fitting(columns) == 1


def test_it_is_told_how_many_records_fit() -> None:
    columns = parse_ddl(
        "i BIGINT, d DOUBLE, b DECIMAL(38,0), t STRING, f BOOLEAN, s STRUCT<x: BIGINT>, a ARRAY<BIGINT>"
    )
    fitting = [
        {}, {"new": 1}, {"i": 2**63 - 1, "d": 1, "b": 2**100}, {"t": {"x": 1}, "f": True},
        {"s": {"x": 1, "y": 2}, "a": [1, None]}, {"I": None},
    ]  # fmt: skip
    wrong = [
        {"i": 1.5}, {"i": 2**63}, {"d": 2**53 + 1}, {"b": 10**38}, {"f": 1}, {"s": []}, {"s": {"x": "n/a"}},
        {"a": ["n/a"]}, {"a": {}}, {"I": 1},
    ]  # fmt: skip
    assert Sample(map(json.dumps, [*fitting, *wrong])).fitting(columns) == len(fitting)


def test_fractions_fit_a_column_that_became_a_decimal() -> None:
    values = ["1.25", "7", "-9223372036854775808", "1e1", "1.255", str(2**63), f"{'9' * 21}.5", '"a"']
    sample = Sample(f'{{"x": {value}}}' for value in values)
    assert sample.fitting(parse_ddl("x DECIMAL(22,2)")) == 4


@pytest.mark.parametrize(
    ("known", "values", "wider"),
    [
        ("x BIGINT", ['{"x":1.5}'] * 99 + ['{"x":1}'], "x: DECIMAL(21,1)"),
        ("x BIGINT", ['{"x":1.25}', '{"x":10.1}', '{"x":1e1}', '{"x":7}'], "x: DECIMAL(22,2)"),
        ("x BIGINT", ['{"x":1.500}', '{"x":0.0}'], "x: DECIMAL(21,1)"),
        ("x BIGINT", ['{"x":15e-3}'], "x: DECIMAL(23,3)"),
        ("x BIGINT", ['{"x":1.5e2}'], "x: DECIMAL(20,0)"),
        ("x BIGINT", [f'{{"x":0.00{number}}}' for number in range(1, 10)], "x: DECIMAL(23,3)"),
        ("x BIGINT", ['{"x":1.5}'] * 99 + ['{"x":0.123456789}'], "x: DECIMAL(21,1)"),
        ("x BIGINT", ['{"x":1.5}'] * 98 + ['{"x":0.12}'] * 2, "x: DECIMAL(22,2)"),
        ("x BIGINT", ['{"x":1}'] * 99 + ['{"x":1.5}'], "x: BIGINT"),  # one in a hundred decides nothing
        ("x BIGINT", ['{"x":0.1234567890123456789}'], "x: BIGINT"),
        ("x BIGINT", ['{"x":1e300}', '{"x":1e99999}', f'{{"x":{"9" * 21}.5}}'], "x: BIGINT"),
        ("x BIGINT", ['{"x":1.5}', '{"x":"n/a"}', "{}"], "x: DECIMAL(21,1)"),
        ("x BIGINT", [f'{{"x":{2**64}}}'], "x: DECIMAL(38,0)"),
        ("x BIGINT", [f'{{"x":{2**64}}}', '{"x":1.5}'], "x: BIGINT"),
        ("x DECIMAL(21,1)", ['{"x":1.25}'], "x: DECIMAL(22,2)"),
        ("x DECIMAL(22,2)", ['{"x":1.5}', '{"x":3}'], "x: DECIMAL(22,2)"),
        ("x DECIMAL(38,0)", ['{"x":1.5}'], "x: DECIMAL(38,0)"),
        ("x DOUBLE, t STRING", [f'{{"x":{2**63},"t":1}}'], "x: DOUBLE, t: STRING"),
        (
            "s STRUCT<x: BIGINT>, a ARRAY<BIGINT>, b ARRAY<STRUCT<y: BIGINT>>, c BIGINT",
            ['{"s":{"x":1.5},"a":[1,2.25],"b":[{"y":0.5}],"X":1.5}'],
            "s: STRUCT<x: DECIMAL(21,1)>, a: ARRAY<DECIMAL(22,2)>, "
            "b: ARRAY<STRUCT<y: DECIMAL(21,1)>>, c: BIGINT",
        ),
    ],
)
def test_a_whole_number_becomes_a_decimal_that_holds_it_and_the_fractions(
    known: str, values: list[str], wider: str
) -> None:
    columns = Sample(values).widened(parse_ddl(known))
    assert sql_name(columns).removeprefix("STRUCT<")[:-1] == wider
    assert Sample(values).widened(columns) == columns
