"""`partition_by`, as people write it."""

from __future__ import annotations

import pytest

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.tables.partitioning import PartitionField, Partitioning


@pytest.mark.parametrize(
    ("text", "field", "name"),
    [
        ("country", PartitionField(column="country"), "country"),
        ("day(ordered_at)", PartitionField(column="ordered_at", transform="day"), "ordered_at_day"),
        ("Days( ordered_at )", PartitionField(column="ordered_at", transform="day"), "ordered_at_day"),
        ("hour(timestamp)", PartitionField(column="_timestamp", transform="hour"), "timestamp_hour"),
        ("month(`timestamp`)", PartitionField(column="timestamp", transform="month"), "timestamp_month"),
        ("bucket(16, id)", PartitionField(column="id", transform="bucket", buckets=16), "id_bucket"),
        ("bucket(4,`a, b`)", PartitionField(column="a, b", transform="bucket", buckets=4), "a, b_bucket"),
        ("`odd ``name`", PartitionField(column="odd `name"), "odd `name"),
    ],
)
def test_what_is_written_means_a_column_and_a_transform(text: str, field: PartitionField, name: str) -> None:
    assert PartitionField.parse(text) == field
    assert field.name == name


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["dya(t)"], "unknown transform in 'dya(t)' (did you mean 'day'?)"),
        (["bucket(id)"], "expected bucket(N, column), not 'bucket(id)'"),
        (["bucket(0, id)"], "expected bucket(N, column)"),
        (["day()"], "expected a column, or day(column), not 'day()'"),
        (["a, b"], "put a name with other characters into backticks"),
        (["day(t)", "hour(T)"], "day(t) and hour(T) are of the same column; keep the finer one"),
        (["a", "A"], "are of the same column"),
    ],
)
def test_what_no_table_can_be_divided_by_is_refused_before_spark_starts(
    texts: list[str], problem: str
) -> None:
    with pytest.raises(PipelineError) as refused:
        Partitioning.parse(texts)
    assert problem in str(refused.value)
    assert str(refused.value).startswith("partition_by: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("day(id)", "bigint"), ("hour(born)", "date"), ("price", "double"), ("bucket(4, price)", "double")],
)
def test_a_transform_must_go_with_the_type_of_the_column(text: str, kind: str) -> None:
    with pytest.raises(PipelineError, match="cannot be applied to the type of the column"):
        PartitionField.parse(text).check_type(kind)


def test_times_that_are_text_come_with_a_remedy() -> None:
    with pytest.raises(PipelineError, match=r"a schema that makes it a TIMESTAMP .*: day\(timestamp\)$"):
        PartitionField.parse("day(ordered_at)").check_type("string")


@pytest.mark.parametrize(
    ("text", "kind"),
    [("day(t)", "timestamp"), ("year(born)", "date"), ("price", "decimal(10,2)"), ("bucket(4, k)", "binary")],
)
def test_a_transform_of_a_fitting_type_is_taken(text: str, kind: str) -> None:
    PartitionField.parse(text).check_type(kind)
