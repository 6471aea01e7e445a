"""The file of outcomes keeps what each class showed, and the table is made from it."""

from __future__ import annotations

from pathlib import Path

from interop.kafka_own.outcomes import Outcome, Verdict, read_outcomes, write_outcomes
from interop.kafka_own.table import table


def test_a_class_that_runs_replaces_its_rows_alone(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.tsv"
    passed = Outcome("ATest.testOne", Verdict.PASSED, "")
    failed = Outcome("BTest.testTwo", Verdict.FAILED, "expected: <1>\n\tbut was: <2>")
    write_outcomes({"org.ATest": [passed, passed], "org.BTest": [failed, failed, passed]}, file)
    lines = file.read_text().splitlines()[2:]
    assert lines == [
        "org.ATest\t\tpassed\t2\t",
        "org.BTest\t\tpassed\t1\t",
        "org.BTest\tBTest.testTwo\tfailed\t2\texpected: <1> but was: <2>",
    ]
    write_outcomes(read_outcomes(file) | {"org.BTest": [passed]}, file)
    assert file.read_text().splitlines()[2:] == [lines[0], lines[1]]


def test_a_message_is_the_same_in_each_run(tmp_path: Path) -> None:
    for run, message in enumerate(
        (
            "node localhost:4321 of 5Zk0lM1bR9W3hXo2Pq7T-A@1a2b3c4d",
            "node localhost:99 of Ab_3lM1bR9W3hXo2Pq7T-A@5e6f7a8b",
        )
    ):
        outcome = Outcome("ATest.testOne", Verdict.FAILED, message)
        write_outcomes({"org.ATest": [outcome]}, tmp_path / str(run))
    assert (tmp_path / "0").read_text() == (tmp_path / "1").read_text()


def test_the_table_names_the_classes_that_have_not_run() -> None:
    passed = Outcome("ATest.testOne", Verdict.PASSED, "")
    lines = table({"kafka-tools": ["org.ATest", "org.BTest"]}, {"org.ATest": [passed, passed]}).splitlines()
    assert "| **kafka-tools** (1 of 2 classes) | 2 |  |  |  |  |  |" in lines
    assert "Not run yet (1): BTest." in lines
