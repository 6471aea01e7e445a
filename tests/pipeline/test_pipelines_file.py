"""Files of many pipelines: defaults, patterns, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.pipeline import PipelineDefinition, PipelineError
from kafkapy.pipeline.pipelines_file import PipelinesFile

FILE = """\
bootstrap: broker:9092
format: {kind: json, schema: "schemas/{topic}.json"}
table: delta:lake/{topic}
dead_letter: "{topic}.dlq"
group: lake
spark: {spark.driver.memory: 4g}
pipelines:
- topic: orders
  key: id
- topic: payments
  name: paid
  table: iceberg:lake/paid
  dead_letter: failed
- topics: shop[.][a-z.]+
  format: raw
"""


def parse(text: str) -> PipelinesFile:
    return PipelinesFile.parse(text, source="lake.yaml", folder=Path("/etc/pipelines"))


def found(file: PipelinesFile, *topics: str) -> dict[str, PipelineDefinition]:
    return {one.name: one for one in file.definitions(lambda _: topics)}


def test_pipelines_have_the_keys_beside_them_unless_they_say_otherwise() -> None:
    orders, paid = parse(FILE).named
    assert orders == PipelineDefinition.from_mapping(
        {
            "topic": "orders",
            "bootstrap": "broker:9092",
            "format": {"kind": "json", "schema": "schemas/orders.json"},
            "table": "delta:lake/orders",
            "key": "id",
            "dead_letter": "orders.dlq",
            "group": "lake",
            "spark": {"spark.driver.memory": "4g"},
        },
        folder=Path("/etc/pipelines"),
    )
    assert (paid.name, str(paid.table)) == ("paid", "iceberg:/etc/pipelines/lake/paid")
    assert (paid.dead_letter, paid.format.schema) == ("failed", "/etc/pipelines/schemas/payments.json")


def test_each_topic_of_a_pattern_becomes_a_table() -> None:
    file = parse(FILE)
    assert file.has_patterns
    assert file.only is None
    assert sorted(found(file)) == ["orders", "paid"]
    there = found(file, "orders", "payments", "shop.a", "shop.b", "myshop.a", "shop.", "__consumer_offsets")
    assert sorted(there) == ["orders", "paid", "shop.a", "shop.b"]
    assert str(there["shop.a"].table) == "delta:/etc/pipelines/lake/shop.a"
    assert (there["shop.a"].dead_letter, there["shop.a"].format.kind) == ("shop.a.dlq", "raw")


@pytest.mark.parametrize("topic", ["shop.new", "eu.shop.orders", "2026.orders"])
def test_a_topic_with_dots_is_a_folder_where_others_are(topic: str) -> None:
    file = parse("table: parquet:{topic}\ntopics: .*")
    assert str(found(file, topic)[topic].table) == f"parquet:/etc/pipelines/{topic}"


def test_a_topic_with_dots_is_no_schema_of_a_catalog() -> None:
    file = parse("table: iceberg:lake.shop.{topic}\nstate: state/{topic}\ntopics: .*")
    assert str(found(file, "orders")["orders"].table) == "iceberg:lake.shop.orders"
    for topic in ("eu.orders", "2026-orders"):
        with pytest.raises(PipelineError, match=rf"a catalog has no table named {topic}; give this topic an"):
            found(file, topic)


def test_dead_letters_do_not_become_tables_of_their_own() -> None:
    everything = "table: delta:lake/{topic}\ntopics: .*\ndead_letter: "
    names = ("orders", "orders.dlq", "gone.dlq", ".dlq", "failed")
    assert sorted(found(parse(everything + "'{topic}.dlq'"), *names)) == [
        ".dlq",
        "failed",
        "orders",
    ]
    assert sorted(found(parse(everything + "failed"), "orders", "failed", "failed.too")) == [
        "failed.too",
        "orders",
    ]


def test_the_first_pattern_that_matches_has_the_topic() -> None:
    file = parse("""\
pipelines:
- {topics: "orders.*", table: "delta:a/{topic}"}
- {topics: ".*", table: "parquet:b/{topic}"}
""")
    there = found(file, "orders-1", "payments")
    assert [str(one.table) for one in there.values()] == [
        "delta:/etc/pipelines/a/orders-1",
        "parquet:/etc/pipelines/b/payments",
    ]


def test_a_file_of_one_pipeline_and_a_table_are_of_one(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text("topic: orders\ntable: delta:lake/orders\n")
    only = PipelinesFile.load(path).only
    assert only == PipelineDefinition.load(path)
    assert PipelinesFile.load(path).definitions(lambda _: ()) == [only]
    with pytest.raises(PipelineError, match="neither a pipeline's YAML file nor a table"):
        PipelinesFile.load(tmp_path)


def test_a_command_for_one_pipeline_says_how_to_name_it(tmp_path: Path) -> None:
    path = tmp_path / "lake.yaml"
    path.write_text(FILE)
    with pytest.raises(PipelineError, match="has many pipelines, which only run and status take at once"):
        PipelineDefinition.load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pipelines: []", "lake.yaml: pipelines: expected a list of pipelines, not []"),
        ("pipelines: {topic: a}", "lake.yaml: pipelines: expected a list of pipelines, not {'topic': 'a'}"),
        (
            "pipelines: [{topic: a, table: delta:x}, {topic: b, tabel: x}]",
            "lake.yaml: pipelines, number 2: unknown key 'tabel' (did you mean 'table'?)",
        ),
        ("pipelines: [{table: delta:x}]", "number 1: expected topic (a name) or topics (a pattern)"),
        ("{topics: a, topic: b, table: delta:x}", "lake.yaml: expected topic (a name) or topics (a pattern)"),
        ("pipelines: [{topic: 7, table: delta:x}]", "number 1: topic: expected text, not 7"),
        (
            "pipelines: [{topic: a, table: delta:x, master: 'local[2]'}]",
            "number 1: master: all share one Spark; set it at the top of the file",
        ),
        ("{topics: 'a(', table: 'delta:{topic}'}", "lake.yaml: topics: "),
        ("{topics: '', table: 'delta:{topic}'}", "lake.yaml: topics: expected a regular expression, not ''"),
        (
            "{topics: 'a', table: delta:lake/all}",
            "table: the topics of a pattern would share delta:lake/all; put {topic} into it",
        ),
        ("{topics: 'a', table: 'delta:{topic}', name: b}", "name: the topics of a pattern would share b"),
        ("{topics: 'a', table: 'dleta:{topic}'}", "lake.yaml: table: unknown format 'dleta'"),
        (
            "pipelines: [{topic: a, table: delta:x}, {topic: b, table: delta:x}]",
            "lake.yaml: table: the pipelines of a and b have the same, /etc/pipelines/x; give each its own",
        ),
        (
            "pipelines: [{topic: a, table: delta:x}, {topic: a, table: delta:y}]",
            "lake.yaml: name: the pipelines of a and a have the same, a; give each its own",
        ),
        (
            "{files: f, pipelines: [{topic: a, table: delta:c.s.x, state: x}, "
            "{topic: b, table: delta:c.s.y, state: y}]}",
            "lake.yaml: files: the pipelines of a and b have the same, /etc/pipelines/f; give each its own",
        ),
        (
            "{group: g, pipelines: [{topic: a, table: delta:x}, {topic: a, name: b, table: delta:y}]}",
            "lake.yaml: group: the pipelines of a and a have the same, g; give each its own",
        ),
    ],
)
def test_a_wrong_file_is_one_line_that_names_entry_key_and_remedy(text: str, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse(text)
    assert str(caught.value).startswith("lake.yaml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_topics_whose_tables_would_be_one_are_refused() -> None:
    file = parse("""\
pipelines:
- {topic: orders, table: "delta:lake/shop.a"}
- {topics: "shop.*", table: "delta:lake/{topic}"}
""")
    with pytest.raises(PipelineError, match=r"table: the pipelines of orders and shop\.a have the same"):
        found(file, "shop.a")
