"""The table of what Apache Kafka's own tests showed, by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from interop.kafka_own.outcomes import Outcome, Verdict
from interop.kafka_own.reasons import reason

_HEAD: Final = f"| class | {' | '.join(Verdict)} |\n| --- |{' --- |' * len(Verdict)}\n"


def table(classes: Mapping[str, Sequence[str]], outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """The counts of each class that has run, the classes that have not, and why tests failed."""
    lines = [_HEAD]
    failed: list[Outcome] = []
    for artifact, names in classes.items():
        ran = [name for name in names if name in outcomes]
        every = [each for name in ran for each in outcomes[name]]
        lines.append(_row(f"**{artifact}** ({len(ran)} of {len(names)} classes)", every))
        lines += [_row(name.rpartition(".")[2], outcomes[name]) for name in ran]
        failed += [each for each in every if each.verdict is Verdict.FAILED]
    left = [name.rpartition(".")[2] for names in classes.values() for name in names if name not in outcomes]
    if left:
        lines.append(f"\nNot run yet ({len(left)}): {', '.join(left)}.\n")
    lines.append("\n| test | why it fails |\n| --- | --- |\n")
    for test in sorted({each.test for each in failed}):
        lines.append(f"| {test} | {reason(test) or 'not known yet'} |\n")
    return "".join(lines)


def _row(name: str, outcomes: Iterable[Outcome]) -> str:
    counts = Counter(each.verdict for each in outcomes)
    return f"| {name} | {' | '.join(str(counts[verdict] or '') for verdict in Verdict)} |\n"
