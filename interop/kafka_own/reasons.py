"""Why tests of Apache Kafka fail on kafkapy, by class and method (reasons.tsv)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from interop.kafka_own.outcomes import Outcome, Verdict


@cache
def reasons() -> dict[str, str]:
    """The reason of each test that may fail.

    A class without a method stands for all of its tests.
    """
    lines = Path(__file__).with_name("reasons.tsv").read_text().splitlines()
    return dict(line.split("\t", 1) for line in lines if line and not line.startswith("#"))


def reason(test: str) -> str | None:
    """The reason of a test; a nested class, such as `ATest$BTest`, has those of its outer one."""
    name = re.sub(r"\$\w+", "", test)
    return reasons().get(name) or reasons().get(name.partition(".")[0])


def unexplained(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes of tests that failed and have no reason."""
    return [each for each in outcomes if each.verdict is Verdict.FAILED and reason(each.test) is None]
