"""The table of what Apache Kafka's own tests showed, by class."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from interop.kafka_own.own_tests import Outcome, Verdict
from interop.kafka_own.reasons import reason

_HEAD: Final = (
    "| class | passed | needs the inside | not served | failed |\n| --- | --- | --- | --- | --- |\n"
)
_FILE: Final = "outcomes.json"


def write_outcomes(folder: Path, outcomes: Sequence[Outcome]) -> None:
    (folder / _FILE).write_text(json.dumps(outcomes))


def read_outcomes(folder: Path) -> list[Outcome]:
    """The outcomes of a class; none if it has not run."""
    path = folder / _FILE
    if not path.exists():
        return []
    return [
        Outcome(test, Verdict(verdict), message, seconds)
        for test, verdict, message, seconds in json.loads(path.read_text())
    ]


def table(classes: Mapping[str, Sequence[str]], outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """The counts of each class that has run, and why tests failed."""
    lines = [_HEAD]
    failed: list[Outcome] = []
    for artifact, names in classes.items():
        ran = [name for name in names if outcomes[name]]
        every = [each for name in ran for each in outcomes[name]]
        lines.append(_row(f"**{artifact}** ({len(ran)} of {len(names)} classes)", every))
        lines += [_row(name.rpartition(".")[2], outcomes[name]) for name in ran]
        failed += [each for each in every if each.verdict is Verdict.FAILED]
    lines.append("\n| test | why it fails |\n| --- | --- |\n")
    for test in sorted({each.test for each in failed}):
        lines.append(f"| {test} | {reason(test) or 'not known yet'} |\n")
    return "".join(lines)


def _row(name: str, outcomes: Iterable[Outcome]) -> str:
    counts = Counter(each.verdict for each in outcomes)
    return f"| {name} | {' | '.join(str(counts[verdict] or '') for verdict in Verdict)} |\n"
