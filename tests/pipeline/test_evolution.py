"""Rows of a later schema and a table of an earlier one, by their types."""

from __future__ import annotations

import pytest

from kafkapy.pipeline.pipeline_error import PipelineError

types = pytest.importorskip("pyspark.sql.types", reason="pyspark is not installed")


def schema(**columns: object) -> object:
    return types.StructType([types.StructField(name, kind) for name, kind in columns.items()])


LONG, INT, TEXT = types.LongType(), types.IntegerType(), types.StringType()
NESTED = schema(a=INT)


def evolution(stored: object, arriving: object, kind: str = "delta", *, wanted: bool = False) -> object:
    from kafkapy.pipeline.tables.evolution import Evolution
    from kafkapy.pipeline.tables.widening import Widening

    return Evolution(stored, arriving, f"{kind}:/orders", Widening(kind, wanted))


def test_columns_are_added_at_every_depth_and_behind_the_others() -> None:
    inner = schema(A=INT, b=TEXT)
    found = evolution(
        schema(id=LONG, s=NESTED, many=types.ArrayType(NESTED), by=types.MapType(TEXT, NESTED), old=INT),
        schema(new=TEXT, ID=LONG, s=inner, many=types.ArrayType(inner), by=types.MapType(TEXT, inner)),
    )
    assert {one.path for one in found.added} == {  # type: ignore[attr-defined]
        ("new",),
        ("s", "b"),
        ("many", "element", "b"),
        ("by", "value", "b"),
    }
    grown = schema(a=INT, b=TEXT)
    assert found.schema == schema(  # type: ignore[attr-defined]
        id=LONG,
        s=grown,
        many=types.ArrayType(grown),
        by=types.MapType(TEXT, grown),
        old=INT,
        new=TEXT,
    )


def test_a_column_of_which_only_nulls_were_seen_waits_for_its_type() -> None:
    void = types.NullType()
    found = evolution(schema(id=LONG), schema(id=void, a=void, s=schema(x=void), t=schema(x=void, y=INT)))
    assert found.schema == schema(id=LONG, t=schema(y=INT))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("stored", "arriving"),
    [
        (LONG, INT),
        (types.DoubleType(), types.FloatType()),
        (types.DecimalType(12, 2), types.DecimalType(9, 1)),
        (types.ArrayType(LONG), types.ArrayType(INT)),
        (types.DecimalType(12, 2), INT),
        (types.DoubleType(), INT),
        (types.TimestampNTZType(), types.DateType()),
    ],
)
def test_a_narrower_type_fits(stored: object, arriving: object) -> None:
    assert evolution(schema(x=stored), schema(x=arriving)).schema == schema(x=stored)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("stored", "arriving", "shown"),
    [
        (LONG, TEXT, "the column x is BIGINT in the table and STRING in the topic"),
        (INT, LONG, "the column x is INT in the table and BIGINT in the topic"),
        (TEXT, NESTED, "the column x is STRING in the table and STRUCT<A: INT> in the topic"),
        (types.DecimalType(9, 2), types.DecimalType(9, 3), "DECIMAL(9,2) in the table and DECIMAL(9,3)"),
        (NESTED, schema(a=TEXT), "the column x.a is INT in the table and STRING in the topic"),
        (types.ArrayType(INT), types.ArrayType(TEXT), "the column x.element is INT in the table"),
    ],
)
def test_a_changed_type_is_refused_with_column_types_and_remedy(
    stored: object, arriving: object, shown: str
) -> None:
    with pytest.raises(PipelineError) as refused:
        evolution(schema(x=stored), schema(x=arriving))
    assert shown in str(refused.value)
    assert "give the format a schema with" in str(refused.value)
    assert "write to a new table" in str(refused.value)


BOTH, DELTA, NONE = ("delta", "iceberg"), ("delta",), ()
WIDENED = [
    (INT, LONG, LONG, BOTH),
    (types.FloatType(), types.DoubleType(), types.DoubleType(), BOTH),
    (types.DecimalType(9, 2), types.DecimalType(12, 2), types.DecimalType(12, 2), BOTH),
    (types.DecimalType(9, 2), types.DecimalType(9, 3), types.DecimalType(10, 3), DELTA),
    (INT, types.DoubleType(), types.DoubleType(), DELTA),
    (INT, types.DecimalType(4, 2), types.DecimalType(12, 2), DELTA),
    (LONG, types.DecimalType(4, 2), types.DecimalType(22, 2), DELTA),
    (types.DateType(), types.TimestampNTZType(), types.TimestampNTZType(), DELTA),
    (LONG, types.DoubleType(), None, NONE),  # 2^53 + 1
    (LONG, types.DecimalType(38, 19), None, NONE),
    (types.DecimalType(38, 0), types.DecimalType(4, 2), None, NONE),
    (types.DateType(), types.TimestampType(), None, NONE),  # at midnight of which time zone?
    (LONG, TEXT, None, NONE),
]


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
@pytest.mark.parametrize(("stored", "arriving", "wider", "formats"), WIDENED)
def test_a_column_gets_the_least_type_that_holds_all_values_if_the_format_can(
    stored: object, arriving: object, wider: object, formats: tuple[str, ...], kind: str
) -> None:
    before, rows = schema(s=types.ArrayType(schema(x=stored))), schema(S=types.ArrayType(schema(X=arriving)))
    if kind in formats:
        found = evolution(before, rows, kind, wanted=True)
        assert [(one.path, one.kind) for one in found.widened] == [(("s", "element", "x"), wider)]  # type: ignore[attr-defined]
        assert found.schema == schema(s=types.ArrayType(schema(x=wider)))  # type: ignore[attr-defined]
    else:
        with pytest.raises(PipelineError, match=r"the column s\.element\.x is .* or write to a new table"):
            evolution(before, rows, kind, wanted=True)


def test_a_type_that_does_not_change_says_what_would_help() -> None:
    with pytest.raises(PipelineError, match="BIGINT in the topic; widen_types: true makes it BIGINT; give"):
        evolution(schema(x=INT), schema(x=LONG))
    for kind, name in (("iceberg", "Iceberg"), ("parquet", "Parquet")):
        cannot = (
            rf"{name} cannot change a column from BIGINT to DECIMAL\(22,2\); give the format a schema with"
        )
        with pytest.raises(PipelineError, match=cannot):
            evolution(schema(x=LONG), schema(x=types.DecimalType(4, 2)), kind)
