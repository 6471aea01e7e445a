"""Banks and copiers lose, double and tear nothing, whatever fails around them.

KAFKAPY_TRANSACTION_RECORDS and KAFKAPY_TRANSACTION_KILLS set the size, KAFKAPY_TRANSACTION_SIZE how many
records a transaction has on average, KAFKAPY_SEED the faults. What a failed run leaves is kept in
.cache/exactly_once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import Final

import pytest

from interop.exactly_once.conftest import SEED
from interop.exactly_once.run import Run
from interop.exactly_once.stage import Stage
from interop.support.maven import CACHE
from tests.crash.results import note

RECORDS: Final = int(os.environ.get("KAFKAPY_TRANSACTION_RECORDS", "8000"))
KILLS: Final = int(os.environ.get("KAFKAPY_TRANSACTION_KILLS", "4"))
SIZE: Final = int(os.environ.get("KAFKAPY_TRANSACTION_SIZE", "150"))


@pytest.mark.slow
def test_transactions_are_whole_and_copied_once_under_faults(stage: Stage, tmp_path: Path) -> None:
    lines: list[str] = []

    def log(line: str) -> None:
        lines.append(f"{time.strftime('%H:%M:%S')}  {line}")

    run = Run(stage, tmp_path / "run", SEED, log)
    try:
        result = run.judge(kills=KILLS, records=RECORDS, transaction_records=2 * SIZE, pause=SIZE / 375)
    except BaseException as problem:
        keep(tmp_path, "\n".join([*lines, repr(problem)]))
        raise
    print("\n".join(lines))
    print(result)
    brokers = len(stage.brokers)
    note(
        "R15",
        "banks and copiers under faults" + (f" in a cluster of {brokers}" if brokers > 1 else ""),
        tried=result.committed + result.aborted,
        acknowledged=result.records + result.copies,
        lost=sum(each.anomaly.name.startswith("LOST") for each in result.findings),
        kills=result.faults["broker killed"],
        copies_under_faults=result.copies_under_faults,
        seconds=round(result.seconds),
        faults=sorted(result.faults),
        frames=sum(result.frames.values()),
    )
    if result.findings or result.problems:
        keep(tmp_path, "\n".join([*lines, str(result), *map(str, result.findings)]))
    assert result.problems == []
    assert result.findings == [], f"KAFKAPY_SEED={SEED}"
    assert result.records >= RECORDS
    assert result.copies == result.records


def keep(folder: Path, text: str) -> None:
    """Keep what shows why a run failed: journals, output, logs."""
    kept = CACHE / "exactly_once" / f"{time.strftime('%H%M%S')}-{SEED}"
    shutil.copytree(folder / "run", kept)
    for path in folder.glob("broker*"):
        with contextlib.suppress(shutil.Error):  # while a broker runs, files come and go
            shutil.copytree(path, kept / path.name)
    (kept / "verdict.txt").write_text(text + "\n")
    print(f"kept in {kept}")
