"""Columns that get a wider type, with the rows of before and after."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop.conftest import MakeTopic
from interop.spark.test_runs import Told, produce
from kafkapy.pipeline import Pipeline, PipelineError
from kafkapy.pipeline.audit.audit import audit
from kafkapy.pipeline.dead_letters.replay import replay_dead_letters
from kafkapy.pipeline.lineage.lineage import lineage
from kafkapy.pipeline.run.run import run
from kafkapy.pipeline.table_target import TableTarget

pytest.importorskip("deltalake", reason="deltalake is not installed (pip install deltalake)")
pytest.importorskip("duckdb", reason="duckdb is not installed (pip install duckdb)")
pytest.importorskip("pyiceberg", reason="pyiceberg is not installed (pip install 'pyiceberg[pyarrow]')")

from interop.spark.other_readers import of_changed_types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
BEFORE = "id INT, x FLOAT, d DECIMAL(9,2), s STRUCT<n: INT>, a ARRAY<INT>"
AFTER = "id BIGINT, x DOUBLE, d DECIMAL(12,2), s STRUCT<n: BIGINT>, a ARRAY<BIGINT>"
BIG = 2**40


def read(target: TableTarget, spark: SparkSession, *names: str) -> list[list[tuple[Any, ...]]]:
    """The rows as Spark and another reader have them, sorted."""
    rows = spark.read.format(target.format).load(target.location).select(*names).collect()
    table = of_changed_types(target).select(list(names))
    others = zip(*(table.column(name).to_pylist() for name in names), strict=True)
    return [sorted(tuple(row) for row in rows), sorted(others)]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_wider_schema_changes_the_table_and_dead_letters_become_rows(
    kind: str, spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    target = TableTarget(format=kind, location=str(tmp_path / "table"))
    pipeline = getattr(Pipeline(topic, bootstrap=bootstrap_servers), f"to_{kind}")(target.location)
    pipeline = pipeline.dead_letter(f"{topic}.dlq")
    if kind == "iceberg":  # whose buckets do not depend on the type
        pipeline = pipeline.partition_by("bucket(2, id)")
    small = '{"id":1,"x":0.5,"d":1.25,"s":{"n":1},"a":[1]}'
    big = f'{{"id":{BIG},"x":0.5,"d":1234567890.25,"s":{{"n":{BIG}}},"a":[1,{BIG}]}}'
    produce(bootstrap_servers, topic, [("a", small), ("b", big)])
    assert run(pipeline.json(BEFORE).definition, once=True, spark=spark).dead_letters == 1

    produce(bootstrap_servers, topic, [("c", small.replace("1,", "2,", 1))])
    with pytest.raises(
        PipelineError, match="INT in the table and BIGINT in the topic; widen_types: true makes"
    ):
        run(pipeline.json(AFTER).definition, once=True, spark=spark)
    wider = pipeline.json(AFTER).widen_types().definition
    assert run(wider, once=True, spark=spark).rows == 1
    assert replay_dead_letters(wider).replayed == 1
    assert run(wider, once=True, spark=spark).rows == 1
    for rows in read(target, spark, "id", "x", "d"):
        assert rows == [
            (1, 0.5, Decimal("1.25")),
            (2, 0.5, Decimal("1.25")),
            (BIG, 0.5, Decimal("1234567890.25")),
        ]
    nested = spark.read.format(kind).load(target.location).orderBy("id").select("s.n", "a").collect()
    assert [tuple(row) for row in nested] == [(1, [1]), (1, [1]), (BIG, [1, BIG])]
    assert audit(wider, spark, deep=True).ok
    Pipeline.of(wider).run(once=True, spark=spark)  # there is nothing left to change


@pytest.mark.parametrize("earlier", [False, True], ids=["at-once", "replayed"])
def test_ten_whole_numbers_do_not_decide_the_type_of_what_follows(
    earlier: bool, spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    target = TableTarget(format="delta", location=str(tmp_path / "table"))
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).json().to_delta(target.location)
    pipeline = pipeline.dead_letter(f"{topic}.dlq")
    wider = pipeline.widen_types().definition
    first = 2**53  # from which on a DOUBLE holds only every second number
    produce(bootstrap_servers, topic, [(None, f'{{"n":{first + number}}}') for number in range(10)])
    assert run(wider, once=True, spark=spark).rows == 10
    produce(bootstrap_servers, topic, [(None, f'{{"n":{number}.25}}') for number in range(990)])
    if earlier:
        assert run(pipeline.definition, once=True, spark=spark).dead_letters == 990
        assert replay_dead_letters(wider).replayed == 990
    told = Told()
    result = run(wider, once=True, spark=spark, progress=told)
    assert (result.rows, result.dead_letters) == (990, 0)
    assert "Types widened as 990 records need it: n from BIGINT to DECIMAL(22,2)" in told.notes
    produce(bootstrap_servers, topic, [(None, '{"n":0.125}'), (None, '{"n":"n/a"}')])
    result = run(wider, once=True, spark=spark)
    assert (result.rows, result.dead_letters) == (1, 1)
    numbers = [Decimal(number) + Decimal("0.25") for number in range(990)]
    expected = sorted([Decimal("0.125"), *numbers, *(Decimal(first + number) for number in range(10))])
    for rows in read(target, spark, "n"):
        assert [number for (number,) in rows] == expected
    assert audit(wider, spark).ok


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_deep_audit_takes_values_of_narrower_types_and_other_spellings_for_the_same(
    kind: str, spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    pipeline = getattr(Pipeline(topic, bootstrap=bootstrap_servers), f"to_{kind}")(str(tmp_path / "table"))
    pipeline = pipeline.dead_letter(f"{topic}.dlq")
    produce(bootstrap_servers, topic, [("a", '{"id":1,"x":0.1,"d":1.25,"s":{"m":"ä","n":1}}')])
    first = pipeline.json("id BIGINT, x DOUBLE, d DECIMAL(9,4), s STRUCT<n: BIGINT, m: STRING>")
    assert first.run(once=True, spark=spark).rows == 1
    produce(bootstrap_servers, topic, [("b", '{"ID":2,"x":0.25,"d":1.25,"s":{"m":"b","n":2}}')])
    narrower = pipeline.json("ID INT, x DOUBLE, d DECIMAL(6,2), s STRUCT<m: STRING, n: INT>")
    assert narrower.run(once=True, spark=spark).rows == 1
    report = audit(narrower.definition, spark, deep=True, starting='{"0": 1}')
    assert report.ok, str(report)


def test_an_upsert_finds_the_rows_of_a_key_that_has_become_wider(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, target: TableTarget
) -> None:
    if target.format == "parquet":
        pytest.skip("Parquet files cannot be upserted into")
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).upsert("id")
    pipeline = getattr(pipeline, f"to_{target.format}")(target.location)
    produce(bootstrap_servers, topic, [("1", '{"id":1,"n":1}'), ("2", '{"id":2,"n":1}')])
    assert run(pipeline.json("id INT, n INT").definition, once=True, spark=spark).rows == 2
    produce(bootstrap_servers, topic, [("1", f'{{"id":1,"n":{BIG}}}'), ("3", f'{{"id":{BIG}}}'), ("2", None)])
    wider = pipeline.json("id BIGINT, n BIGINT").widen_types().definition
    run(wider, once=True, spark=spark)
    for rows in read(target, spark, "id", "n"):
        assert rows == [(1, BIG), (BIG, None)]
    assert audit(wider, spark).ok


def test_a_key_is_found_in_the_digits_of_any_type(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).upsert("id").widen_types()
    pipeline = pipeline.to_delta(tmp_path / "table")
    produce(bootstrap_servers, topic, [("2", '{"id":2}')])
    assert pipeline.json("id INT").run(once=True, spark=spark).rows == 1
    wider = pipeline.json("id DECIMAL(12,2)")
    produce(bootstrap_servers, topic, [("3", '{"id":3}'), ("4", '{"id":4.5}'), ("3", None)])
    assert wider.run(once=True, spark=spark).rows == 3

    def found(key: str) -> str:
        return lineage(wider.definition, key=key, spark=spark).source

    assert [found(key) for key in ("id=2", "id=2.00", "id=4.5", "id=3")] == [
        f"{topic}-0-{offset}" for offset in (0, 0, 2, 3)
    ]
    with pytest.raises(PipelineError, match=r"has the key 'id=4\.501'"):
        found("id=4.501")


def test_delta_makes_more_types_wider(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    target = TableTarget(format="delta", location=str(tmp_path / "table"))
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).to_delta(target.location)
    pipeline = pipeline.partition_by("i", "bucket(2, k)").widen_types()
    produce(
        bootstrap_servers, topic, [(None, '{"i":7,"j":7,"b":9223372036854775807,"d":"2026-01-31","k":"k"}')]
    )
    run(pipeline.json("i INT, j INT, b BIGINT, d DATE, k STRING").definition, once=True, spark=spark)
    produce(bootstrap_servers, topic, [(None, '{"i":7.5,"j":0.5,"b":0.25,"d":"2026-01-31T10:00:00"}')])
    wider = pipeline.json("i DECIMAL(4,1), j DOUBLE, b DECIMAL(3,2), d TIMESTAMP_NTZ, k STRING")
    assert run(wider.definition, once=True, spark=spark).rows == 1
    rows = spark.read.format("delta").load(target.location).selectExpr("i", "j", "b", "string(d)").collect()
    assert sorted(map(str, (tuple(row) for row in rows))) == [
        str((Decimal("7.0"), 7.0, Decimal("9223372036854775807.00"), "2026-01-31 00:00:00")),
        str((Decimal("7.5"), 0.5, Decimal("0.25"), "2026-01-31 10:00:00")),
    ]


def test_a_column_of_a_bucket_keeps_its_type_in_delta(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    pipeline = Pipeline(topic, bootstrap=bootstrap_servers).to_delta(tmp_path / "table")
    pipeline = pipeline.partition_by("bucket(2, id)").widen_types()
    produce(bootstrap_servers, topic, [(None, '{"id":1}')])
    run(pipeline.json("id INT").definition, once=True, spark=spark)
    produce(bootstrap_servers, topic, [(None, '{"id":1}')])
    with pytest.raises(
        PipelineError, match=r"id cannot become wider: partition_by bucket\(2, id\) would put the"
    ):
        run(pipeline.json("id BIGINT").definition, once=True, spark=spark)
