"""Values in JSON that a column would hold as another value are errors.

It does not matter where in a record they stand.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from interop.spark.test_formats import Parsed
from kafkapy.pipeline.format_definition import FormatDefinition
from kafkapy.pipeline.formats.inferred_json import InferredJsonFormat
from kafkapy.pipeline.formats.json_format import JsonFormat
from kafkapy.pipeline.state import State

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS = (
    "f FLOAT, d DOUBLE, t STRING, s STRUCT<f: FLOAT, t: STRING, p: DECIMAL(5,1)>, a ARRAY<FLOAT>, "
    "m MAP<STRING, STRUCT<n: INT, d: DOUBLE>>, p DECIMAL(10,2), n DECIMAL(38,0), `p(1)` DECIMAL(3,0), "
    "größe DECIMAL(4,2), at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, l ARRAY<DECIMAL(10,2)>, "
    "h MAP<STRING, TIMESTAMP>, days ARRAY<STRUCT<day: DATE>>, ds ARRAY<DOUBLE>, "
    "ts ARRAY<STRING>, tm MAP<STRING, STRUCT<t: STRING>>"
)
WRAPPED = (
    1789383306409008  # microseconds since 1970, which Spark takes for seconds: times a million, they overflow
)
WRONG = {
    '{"f": 1e300}': "f is FLOAT, which cannot hold 1.0E300",
    '{"f": -3.5e38, "t": "x"}': "f is FLOAT, which cannot hold -3.5E38",
    '{"f":1%s.0}' % ("0" * 39): "f is FLOAT, which cannot hold 1.0E39",
    '{"f" :\t1234.5E+36}': "f is FLOAT, which cannot hold 1.2345E39",
    '{"d": 1e400}': "d is DOUBLE, which cannot hold Infinity",
    '{"s": {"f": 1e39}, "f": 1}': "s.f is FLOAT, which cannot hold 1.0E39",
    '{"a": [1, null, 1e39]}': "a[] is FLOAT, which cannot hold 1.0E39",
    '{"m": {"x": null, "y": {"d": -1e400}}}': "m{}.d is DOUBLE, which cannot hold -Infinity",
    '{"d": 9007199254740993}': "d is DOUBLE, which cannot hold 9007199254740993",
    '{"d": -99999999999999999999}': "d is DOUBLE, which cannot hold -99999999999999999999",
    '{"f": 16777217}': "f is FLOAT, which cannot hold 16777217",
    '{"ds": [0.5, 9007199254740993]}': "ds[] is DOUBLE, which cannot hold 9007199254740993",
    '{"p": 1.239}': "p is DECIMAL(10,2), which cannot hold 1.239",
    '{"p": "1.239"}': "p is DECIMAL(10,2), which cannot hold 1.239",
    '{"p" : -0.001}': "p is DECIMAL(10,2), which cannot hold -0.001",
    '{"p": 1239e-3}': "p is DECIMAL(10,2), which cannot hold 1.239",
    '{"p": 1.00%s1}' % ("0" * 24): f"p is DECIMAL(10,2), which cannot hold 1.00{'0' * 24}1",
    '{"\\u0070": 1.239}': "p is DECIMAL(10,2), which cannot hold 1.239",
    '{"p(1)": 1.5}': "p(1) is DECIMAL(3,0), which cannot hold 1.5",
    '{"größe": 0.125}': "größe is DECIMAL(4,2), which cannot hold 0.125",
    '{"gr\\u00f6\\u00dfe": 0.125}': "größe is DECIMAL(4,2), which cannot hold 0.125",
    '{"s": {"p": 0.25}, "p": 0.25}': "s.p is DECIMAL(5,1), which cannot hold 0.25",
    '{"l": [1.23, 1.234]}': "l[] is DECIMAL(10,2), which cannot hold 1.234",
    '{"n": 1.5}': "n is DECIMAL(38,0), which cannot hold 1.5",
    '{"n": %s}' % ("9" * 39): f"n is not DECIMAL(38,0) but {'9' * 39}",
    '{"p": "1,5"}': "p is DECIMAL(10,2), which cannot hold 1,5",
    '{"s": {"p": ",1"}, "p": 1}': "s.p is DECIMAL(5,1), which cannot hold ,1",
    '{"n": "%s,0"}' % ("9" * 36): f"n is DECIMAL(38,0), which cannot hold {'9' * 36},0",
    '{"l": [1, "1,234.50"]}': "l[] is DECIMAL(10,2), which cannot hold 1,234.50",
    '{"t": 0.12345678901234567890}': "t is STRING, in which a number would become 0.12345678901234568",
    '{"t": 12345678901234567890.5}': "t is STRING, in which a number would become 1.2345678901234567E19",
    '{"t": 1e400}': 't is STRING, in which a number would become "Infinity"',
    '{"s": {"t": -1e400}}': 's.t is STRING, in which a number would become "-Infinity"',
    '{"t": 1e-400}': "t is STRING, in which a number would become 0.0",
    '{"t": {"x": [1, 1.12345678901234567890]}}':
        't is STRING, in which a number would become {"x":[1,1.1234567890123457]}',
    '{"t": {"x": 1e400}}': 't is STRING, in which a number would become {"x":"Infinity"}',
    '{"ts": ["a", 0.12345678901234567890]}':
        "ts[] is STRING, in which a number would become 0.12345678901234568",
    '{"tm": {"a": {"t": 0.12345678901234567890}}}':
        "tm{}.t is STRING, in which a number would become 0.12345678901234568",
    '{"t": "\\ud800"}': "a text has half a surrogate pair",
    '{"t": "a\\\\\\udc00b"}': "a text has half a surrogate pair",
    '{"t": "\\ud83dx\\ude00"}': "a text has half a surrogate pair",
    '{"at": "T10:00"}': "at is TIMESTAMP, which cannot hold T10:00",
    '{"at": "10:00:00"}': "at is TIMESTAMP, which cannot hold 10:00:00",
    '{"at": "\\u005410:00"}': "at is TIMESTAMP, which cannot hold T10:00",
    '{"at": "2020-01-01T10:00:00.1234567Z"}':
        "at is TIMESTAMP, which cannot hold 2020-01-01T10:00:00.1234567Z",
    '{"at": 1767225600000}': "at is beyond the year 9999 (numbers are seconds)",
    '{"at": 1767225600000000}': "at is before the year 1 (numbers are seconds)",
    '{"at": "-0044-03-15T12:00:00Z"}': "at is before the year 1 (numbers are seconds)",
    f'{{"at": {WRAPPED}}}': f"at is TIMESTAMP, which cannot hold {WRAPPED}",
    '{"h": {"x": 1767225600000}}': "h{} is TIMESTAMP, which cannot hold 1767225600000",
    '{"day": "20200229"}': "day is not DATE but 20200229",
    '{"day": "99"}': "day is not DATE but 99",
    '{"day": "12345-01-01"}': "day is beyond the year 9999",
    '{"day": "-0044-03-15"}': "day is before the year 1",
    '{"day": " 2020-02-29 10:00"}': "day is DATE, which cannot hold  2020-02-29 10:00",
    '{"h": {"x": "T10:00"}}': "h{} is TIMESTAMP, which cannot hold T10:00",
    '{"day": "2020-02-29T10:00:00"}': "day is DATE, which cannot hold 2020-02-29T10:00:00",
    '{"days": [{"day": "2020-02-29 10:00"}]}': "days[].day is DATE, which cannot hold 2020-02-29 10:00",
}  # fmt: skip
RIGHT = [
    '{"f": 3.4e38, "d": -1.7e308, "s": {}, "a": [null], "m": {"x": null, "Infinity": {"d": 1e9}}}',
    '{"t": "Infinity", "s": {"t": "Infinity"}, "f": 1e9}',
    '{"f": 1e-300, "a": null}',
    '{"d": 9007199254740994, "f": 33554432, "ds": [1152921504606846976, 0.1234567890123456, 1e22, 1.5e300]}',
    '{"d": -9007199254740992, "a": [16777216, 0.123456789], "m": {"x": {"n": 123456789, "d": 12345.5}}}',
    '{"p": 1.2300000, "n": 1.50e1, "l": [1.230, "4.5", 123e-2], "größe": 1, "s": {"p": 1.50}}',
    '{"n": %s, "unknown": 1.239, "p": "12345678.90"}' % ("9" * 38),
    '{"t": "1.239", "unknown": {"p": 1.239, "at": "T10:00"}}',
    '{"t": "\\\\ud800", "unknown": "\\ud800", "s": {"t": "\\ud83d\\ude00 \\u00e4"}}',
    '{"at": "2020-01-01T10:00:00.1234560Z", "h": {"T1": "2020-01-01 10:00", "x": 1577836800}, "t": "T10:00"}',
    '{"t": 0.30000000000000004, "ts": [1.10, 1e2, "1.12345678901234567890", 12345678901234567890123]}',
    '{"t": "[0.12345678901234567890, 1e400]", "ts": ["1e400", "{\\"x\\":0.12345678901234567890}", -2.50E-7]}',
    '{"t": {"x": [0.1, 1.5E+3], "y": "\\"Infinity\\""}, "d": 0.12345678901234567890, "ts": ["1,5"]}',
    '{"day": "2020-02-29", "days": [{"day": "2020-02-29"}, {}], "local": "2020-01-01T10:00:00.5"}',
]


def test_values_that_a_type_cannot_hold_are_errors(spark: SparkSession) -> None:
    parser = JsonFormat(FormatDefinition(kind="json", schema=COLUMNS))
    rows = Parsed(spark, parser, [text.encode() for text in [*WRONG, *RIGHT]]).rows
    errors = dict(zip(WRONG, rows, strict=False))
    assert errors == {text: f"does not match the schema: {told}" for text, told in WRONG.items()}
    assert [row for row in rows[len(WRONG) :] if not isinstance(row, dict)] == []


def test_inferred_numbers_are_never_rounded(spark: SparkSession, tmp_path: Path) -> None:
    parser = InferredJsonFormat(State(tmp_path / "table"), "delta")
    values = ['{"x": 1.5, "n": 1}'] * 200 + ['{"x": 1e400}', '{"x": 9007199254740993}', '{"n": 1.0e1}']
    rows: list[Any] = Parsed(spark, parser, [text.encode() for text in values]).rows
    assert rows[:200] == [{"x": 1.5, "n": 1}] * 200
    assert rows[200:] == [
        "does not match the schema: x is DOUBLE, which cannot hold Infinity",
        "does not match the schema: x is DOUBLE, which cannot hold 9007199254740993",
        "does not match the schema: n is not BIGINT but 10.0",
    ]


@pytest.mark.parametrize("levels", [33, 190, 900, 1100])
def test_a_record_of_too_many_levels_takes_no_other_record(
    spark: SparkSession, tmp_path: Path, levels: int
) -> None:
    """Spark's analyzer gives up at 100, Python's stack ends at some 300, Spark's below 900."""
    parser = InferredJsonFormat(State(tmp_path / "table"), "delta")
    objects, lists = '{"a": ' * levels + "1" + "}" * levels, "[" * levels + "1" + "]" * levels
    values = ['{"x": 1}', objects, f'{{"x": 2, "l": {lists}}}', lists, '{"x": 3}']
    rows: list[Any] = Parsed(spark, parser, [text.encode() for text in values]).rows
    assert (rows[0], rows[4]) == ({"x": 1}, {"x": 3})
    deep = "has an object with a name twice or more than 200 levels, and may have a field without a column"
    if levels < 200:
        unnamed = ["has a field a, which no column has", "has a field l, which no column has"]
        assert rows[1:4] == [*unnamed, "is not a JSON object"]
    elif levels < 1000:
        assert rows[1:4] == [deep, deep, "is not a JSON object"]
    else:  # of Spark's parser
        assert rows[1:4] == ["is not valid JSON"] * 3


def test_a_value_of_32_levels_is_a_column(spark: SparkSession, tmp_path: Path) -> None:
    parser = InferredJsonFormat(State(tmp_path / "table"), "delta")
    deep = '{"t": ' + "[" * 150 + "1" + "]" * 150 + "}"
    texts = [
        '{"t": 5}',
        '{"t": "x"}',
        deep,
        '{"a": ' * 32 + "1" + "}" * 32,
        '{"l": ' + '[{"b": ' * 15 + "1" + "}]" * 15 + "}",
    ]
    rows: list[Any] = Parsed(spark, parser, [text.encode() for text in texts]).rows
    assert [rows[3]["a"], rows[4]["l"]] == [
        json.loads(text)[name] for text, name in zip(texts[3:], "al", strict=True)
    ]
    assert rows[2]["t"] == "[" * 150 + "1" + "]" * 150, "text takes any value"


def test_exact_texts_stay_as_they_are(spark: SparkSession) -> None:
    parser = JsonFormat(FormatDefinition(kind="json", schema="t STRING, price STRING"))
    texts = {
        '{"t": 1.10}': "1.1",
        '{"t": 1e2}': "100.0",
        '{"t": "1e400"}': "1e400",
        '{"t": [1, 0.5]}': "[1,0.5]",
    }
    rows: list[Any] = Parsed(spark, parser, [text.encode() for text in texts]).rows
    assert [row["t"] for row in rows] == list(texts.values())
