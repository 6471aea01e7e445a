"""franz-go's own tests of transactions and groups pass.

They run with several balancers and all protocols.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from typing import Final

import pytest

from interop.franz_go.program import built_tests

TESTS: Final = ("TestTxnEtl", "TestGroupETL", "TestGroupSimple", "Test848RegexBrokerResolves")
VARIANTS: Final = ("range", "cooperative-sticky", "range/848", "sticky/848", "sticky/848/static")
"""Of the first two tests; `848` is the consumer protocol."""


SHARE_TESTS: Final = (
    "TestShareGroup",
    "TestShareGroupETL",
    "TestShareGroupAckOnClose",
    "TestShareGroupOffsetsAdmin",
    "TestConsumeRegexShareSkipsInternal",
)


@pytest.mark.slow
@pytest.mark.capability("groups")
@pytest.mark.capability("transactions")
def test_franz_gos_own_tests_pass(bootstrap_servers: str) -> None:
    variants = {f"{test}/{variant}" for test in TESTS[:2] for variant in VARIANTS}
    assert passed(bootstrap_servers, TESTS) >= {*TESTS, *variants}


@pytest.mark.slow
@pytest.mark.capability("groups")
def test_franz_gos_own_tests_of_share_groups_pass(bootstrap_servers: str) -> None:
    assert passed(bootstrap_servers, SHARE_TESTS) >= {*SHARE_TESTS}


def passed(bootstrap_servers: str, tests: Sequence[str]) -> set[str]:
    """Run these tests, none of which may fail; those that passed, which were not skipped."""
    environment = {
        **os.environ,
        "KGO_SEEDS": bootstrap_servers,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": "2000",
        "KGO_LOG_LEVEL": "none",
    }
    command = [str(built_tests()), "-test.v", "-test.timeout", "5m", "-test.run", f"^({'|'.join(tests)})$"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, "\n".join((run.stdout + run.stderr).splitlines()[-60:])
    return set(re.findall(r"--- PASS: (\S+)", run.stdout))
