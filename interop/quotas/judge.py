"""Apache Kafka's answers to questions about quotas: Quotas.java on a pipe."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from interop.support.java_programs import compiled
from interop.support.kafka_jars import kafka_jars

KEPT = Path(__file__).parents[2] / "tests" / "quotas" / "kafka_figures.tsv"
"""Questions and Apache Kafka's answers, for the tests without a JVM."""
KEPT_SEED, KEPT_COUNT = 25, 60


def answers(questions: Sequence[str]) -> list[str]:
    """The answers to some questions; raises JarsUnavailableError."""
    source = Path(__file__).with_name("Quotas.java")
    command = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *compiled(source, kafka_jars())]
    lines = "".join(f"{question}\n" for question in questions)
    ended = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=300)
    return ended.stdout.splitlines()


def table(questions: Sequence[str], answered: Sequence[str]) -> str:
    """The text of the kept figures."""
    return "".join(f"{question}\t{answer}\n" for question, answer in zip(questions, answered, strict=True))
