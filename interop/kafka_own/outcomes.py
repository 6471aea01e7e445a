"""What Apache Kafka's own tests showed, by class (outcomes.tsv)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

FILE: Final = Path(__file__).with_name("outcomes.tsv")
_HEAD: Final = """\
# What Apache Kafka's own tests showed on kafkapy: class, test, verdict, count, message.
# What passed of a class is one row. scripts/kafka_own replaces the rows of the classes that it runs.
"""
_LONGEST_MESSAGE: Final = 200
_IDS: Final = re.compile(
    r"(?<=@)[0-9a-f]{5,8}\b|(?<=localhost:)\d+|(?<=127\.0\.0\.1:)\d+|\b(?=[\w-]*\d)[\w-]{22}\b"
)
"""The parts of a message that differ from run to run: hash codes, ports, random ids."""


class Verdict(StrEnum):
    PASSED = "passed"
    NEEDS_THE_INSIDE = "needs the inside"
    NOT_SERVED = "not served"
    FAILED = "failed"
    TOOK_TOO_LONG = "took too long"
    """The class as a whole."""
    NO_TESTS = "no tests"
    """The class as a whole: it has none, or Apache Kafka skips all."""


class Outcome(NamedTuple):
    test: str
    """Class and method, without the package: a test with several parameters has several outcomes."""
    verdict: Verdict
    message: str
    """Why it did not pass."""


def read_outcomes(file: Path = FILE) -> dict[str, list[Outcome]]:
    """The outcomes of each class that has run, by its full name."""
    found: dict[str, list[Outcome]] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        if not line.startswith("#"):
            name, test, verdict, count, message = line.split("\t")
            found.setdefault(name, []).extend([Outcome(test, Verdict(verdict), message)] * int(count))
    return found


def write_outcomes(outcomes: Mapping[str, Iterable[Outcome]], file: Path = FILE) -> None:
    rows = [row for name in sorted(outcomes) for row in _rows(name, outcomes[name])]
    file.write_text(_HEAD + "".join("\t".join(row) + "\n" for row in rows))


def _rows(name: str, outcomes: Iterable[Outcome]) -> list[tuple[str, ...]]:
    counts = Counter(_row(each) for each in outcomes)
    return [
        (name, test, verdict, str(count), message)
        for (test, verdict, message), count in sorted(counts.items())
    ]


def _row(outcome: Outcome) -> Outcome:
    if outcome.verdict is Verdict.PASSED:
        return Outcome("", Verdict.PASSED, "")
    message = _IDS.sub("…", " ".join(outcome.message.split()))
    return outcome._replace(message=message[:_LONGEST_MESSAGE])
