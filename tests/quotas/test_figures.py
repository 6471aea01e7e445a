"""Rates, throttle times and the precedence of quotas are Apache Kafka's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.quotas.figures import answer

FIGURES = [
    tuple(line.split("\t")) for line in Path(__file__).with_name("kafka_figures.tsv").read_text().splitlines()
]
"""Questions, and what Apache Kafka's classes answer (interop/quotas writes them)."""


@pytest.mark.parametrize("kind", ["rate", "bucket", "quota"])
def test_figures_are_those_of_apache_kafka(kind: str) -> None:
    asked = [(question, expected) for question, expected in FIGURES if question.startswith(kind + " ")]
    assert len(asked) == 60
    assert [answer(question) for question, _ in asked] == [expected for _, expected in asked]
