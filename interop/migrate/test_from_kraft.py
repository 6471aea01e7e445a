"""`kafkapy import` shows what Apache Kafka 4.3 wrote.

It does so after a stop in order and after a kill.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.migrate.migration import depart, import_and_check, kafka

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_a_kraft_directory_of_4_3_opens_here(tmp_path: Path, killed: bool) -> None:
    departed = depart(kafka("4.3.1"), tmp_path, killed=killed, transactions=True, modern=True)
    told = import_and_check(departed, tmp_path)
    assert "metadata log" in told
    assert "id-open (open, in transactions-0, transactions-1)" in told
