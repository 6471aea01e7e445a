"""`scripts/bench` lists its suites, each has options, and documents name no other."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from scripts.benchmarks.suites import descriptions, run

ROOT = Path(__file__).resolve().parents[2]
FIGURES = (ROOT / "docs" / "benchmark.md").read_text()
COMPARISONS = {
    "broker": "One broker",
    "groups": "Groups",
    "transactions": "Transactions",
    "quotas": "Quotas",
    "security": "Encryption and logins",
    "cluster": "A cluster",
    "pipeline": "The pipeline on Spark",
    "compaction": "Compaction",
}
"""The suites that compare kafkapy with Apache Kafka, and the section that has their figures."""


@pytest.mark.parametrize("name", descriptions())
def test_a_suite_shows_its_options_and_its_line_of_the_list(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "pipeline":
        pytest.importorskip("pyspark")
    with pytest.raises(SystemExit) as exit_:
        run(name, ["--help"])
    assert exit_.value.code == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"usage: scripts/bench {name} ")
    assert descriptions()[name] in printed


def test_documents_name_suites_that_there_are() -> None:
    documents = [
        path for pattern in ("*.md", "docs/**/*.md", "interop/**/*.md") for path in ROOT.glob(pattern)
    ]
    named = {name for path in documents for name in re.findall(r"scripts/bench ([\w-]+)", path.read_text())}
    assert named
    assert named - {"SUITE"} <= descriptions().keys()


@pytest.mark.parametrize("name", COMPARISONS)
def test_the_figures_name_every_load_and_no_other(name: str) -> None:
    if name == "pipeline":
        pytest.importorskip("pyspark")
    suite = import_module(f"scripts.benchmarks.suites.{name}")
    assert sorted(_loads_of(COMPARISONS[name])) == sorted(suite.LOADS)


def test_the_figures_of_records_on_disk_name_loads_of_one_broker() -> None:
    from scripts.benchmarks.suites.broker import LOADS

    named = _loads_of("One broker, records on disk")
    assert named
    assert set(named) <= LOADS.keys()


def _loads_of(section: str) -> list[str]:
    """The loads that a section of the figures has rows or tables of."""
    text = FIGURES.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([\w-]+)`(?: \||: )", text, re.MULTILINE)


def test_a_suite_that_cannot_measure_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from scripts.benchmarks.suites import power_cut

    monkeypatch.setattr(power_cut, "why_not", lambda: "needs root")
    assert run("power-cut", []) == 1
    assert capsys.readouterr().err == "bench power-cut: needs root\n"
