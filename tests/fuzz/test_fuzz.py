"""A taste of `scripts/fuzz`: a few executions of every target.

The seed is another one each day of the year.
"""

import time
from collections.abc import Sequence

import pytest

from tests.fuzz.fuzz_message_sets import TARGETS as MESSAGE_SET_TARGETS
from tests.fuzz.fuzz_messages import TARGETS as MESSAGE_TARGETS
from tests.fuzz.fuzz_records import TARGETS as RECORD_TARGETS
from tests.fuzz.fuzzing import Target, fuzz


@pytest.mark.parametrize(
    ("targets", "each"),
    [(MESSAGE_TARGETS, 40), (RECORD_TARGETS, 2000), (MESSAGE_SET_TARGETS, 500)],
    ids=["messages", "records", "message sets"],
)
def test_whatever_the_bytes_a_parser_returns_or_refuses_them(targets: Sequence[Target], each: int) -> None:
    seed = time.gmtime().tm_yday
    report = fuzz(targets, each * len(targets), seed)
    assert list(map(str, report.findings)) == [], f"seed {seed}"
    assert report.executions >= each * len(targets)


def test_the_fuzzer_reports_an_error_that_is_not_declared() -> None:
    def run(data: bytes) -> None:
        if len(data) > 3:
            raise IndexError("found")

    report = fuzz([Target("planted", lambda source: [b"abc"], run)], 200, seed=1)
    assert "planted: IndexError: found" in map(str, report.findings)
    assert all(len(finding.data) > 3 for finding in report.findings)
