"""Numbers in JSON that a column takes for something else are errors.

It does not matter where in a value they stand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.spark.test_formats import Parsed
from kafkapy.pipeline.definition import FormatDefinition
from kafkapy.pipeline.formats.inferred_json import InferredJsonFormat
from kafkapy.pipeline.formats.json_format import JsonFormat
from kafkapy.pipeline.state import State

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS = (
    "f FLOAT, d DOUBLE, t STRING, s STRUCT<f: FLOAT, t: STRING>, a ARRAY<FLOAT>, "
    "m MAP<STRING, STRUCT<n: INT, d: DOUBLE>>"
)
WRONG = {
    '{"f": 1e300}': '"f":"Infinity"',
    '{"f": -3.5e38, "t": "x"}': '"f":"-Infinity"',
    '{"f":1%s.0}' % ("0" * 39): '"f":"Infinity"',
    '{"f" :\t1234.5E+36}': '"f":"Infinity"',
    '{"d": 1e400}': '"d":"Infinity"',
    '{"s": {"f": 1e39}, "f": 1}': '"f":"Infinity"',
    '{"a": [1, null, 1e39]}': '"a":[1.0,null,"Infinity"',
    '{"m": {"x": null, "y": {"d": -1e400}}}': '"d":"-Infinity"',
}
RIGHT = {
    '{"f": 3.4e38, "d": -1.7e308, "s": {}, "a": [null], "m": {"x": null, "Infinity": {"d": 1e9}}}',
    '{"t": "Infinity", "s": {"t": "Infinity"}, "f": 1e9}',
    '{"f": 1e-300, "a": null}',
}


def test_numbers_beyond_their_type_are_errors_and_not_infinity(spark: SparkSession) -> None:
    parser = JsonFormat(FormatDefinition(kind="json", schema=COLUMNS))
    rows = Parsed(spark, parser, [text.encode() for text in [*WRONG, *RIGHT]]).rows
    assert rows[: len(WRONG)] == [
        f"does not match the schema: a number is beyond its type: {told}" for told in WRONG.values()
    ]
    assert all(isinstance(row, dict) for row in rows[len(WRONG) :])


def test_inferred_numbers_are_never_infinity(spark: SparkSession, tmp_path: Path) -> None:
    parser = InferredJsonFormat(State(tmp_path / "table"), "delta")
    rows = Parsed(spark, parser, [b'{"x": 1.5}', b'{"x": 1e400}']).rows
    assert rows == [{"x": 1.5}, 'does not match the schema: a number is beyond its type: "x":"Infinity"']
