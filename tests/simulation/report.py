"""What many runs were and found, as docs/results/simulation.md has it."""

from __future__ import annotations

import datetime
import subprocess
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final, NamedTuple

from tests.simulation.run import Outcome

ROOT: Final = Path(__file__).resolve().parents[2]


class Finding(NamedTuple):
    """A run that broke a promise."""

    scene: str
    seed: int
    what: str


class FoundBug(NamedTuple):
    """A planted bug, and after how many runs it was found; None for never."""

    bug: str
    scene: str
    runs: int | None
    what: str


class Report:
    """The counts of all runs."""

    def __init__(self, first: int, fault_seconds: float) -> None:
        """`first` is the first seed; `fault_seconds` is how long the faults of each run continue."""
        self.findings: list[Finding] = []
        self.bugs: list[FoundBug] = []
        self.cpu_seconds: defaultdict[str, float] = defaultdict(float)
        self._first = first
        self._fault_seconds = fault_seconds
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        """By scene, what happened."""
        self._faults: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, scene: str, outcome: Outcome) -> None:
        """Count a run that kept its promises."""
        self._counts[scene] += Counter(
            {
                "runs that kept every promise": 1,
                "simulated seconds": round(outcome.seconds),
                "events": outcome.events,
                "records acknowledged": outcome.acked,
                "offsets committed": outcome.commits,
                "starts of brokers": outcome.lives,
                "power cuts": outcome.cuts,
            }
        )
        self._faults[scene] += Counter(outcome.faults)

    @property
    def _runs(self) -> int:
        return len(self.findings) + sum(
            each["runs that kept every promise"] for each in self._counts.values()
        )

    def summary(self) -> str:
        """One line, and one for each planted bug."""
        simulated = sum(each["simulated seconds"] for each in self._counts.values())
        cpu = sum(self.cpu_seconds.values())
        lines = [
            f"{self._runs} runs from seed {self._first}: {len(self.findings)} broke a promise; "
            f"{simulated:,} simulated seconds took {cpu:,.0f} s of CPU"
        ]
        lines += [f"{each.bug}: {_found(each)}" for each in self.bugs]
        return "\n".join(lines)

    def text(self) -> str:
        """A page in Markdown."""
        scenes = sorted(self._counts)
        day = datetime.datetime.now(datetime.UTC).date()
        lines = [
            "# Runs of the simulation",
            "",
            f"`scripts/simulate` on {day}, commit {_commit()}, from seed {self._first}, "
            f"with faults for {self._fault_seconds:g} s: {self._runs} runs; {len(self.findings)} broke a "
            "promise. A run depends on its seed only; with another commit the same seed is another run.",
            "",
            f"| | {' | '.join(scenes)} |",
            f"| --- |{' ---: |' * len(scenes)}",
        ]
        names = dict.fromkeys(name for scene in scenes for name in self._counts[scene])
        lines += [_row(name, [self._counts[scene][name] for scene in scenes]) for name in names]
        lines.append(_row("seconds of CPU", [round(self.cpu_seconds[scene]) for scene in scenes]))
        lines += ["", "## Faults", "", f"| | {' | '.join(scenes)} |", f"| --- |{' ---: |' * len(scenes)}"]
        faults = sorted({name for scene in scenes for name in self._faults[scene]})
        lines += [_row(name, [self._faults[scene][name] for scene in scenes]) for name in faults]
        if self.bugs:
            lines += ["", "## Planted bugs", "", "| bug | scene | found |", "| --- | --- | --- |"]
            lines += [f"| `{each.bug}` | {each.scene} | {_found(each)} |" for each in self.bugs]
        if self.findings:
            lines += ["", "## Broken promises", ""]
            seconds = f"--seconds {self._fault_seconds:g}"
            lines += [
                f"- `--seed {each.seed} --scene {each.scene} {seconds}`: {each.what}"
                for each in self.findings
            ]
        return "\n".join(lines) + "\n"


def _found(bug: FoundBug) -> str:
    return "not found" if bug.runs is None else f"in run {bug.runs}"


def _row(name: str, counts: list[int]) -> str:
    return f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |"


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"
