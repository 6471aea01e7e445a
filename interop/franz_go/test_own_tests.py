"""franz-go's own tests of transactions and groups pass, each with several balancers and both protocols."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Final

import pytest

from interop.franz_go.program import built_tests

TESTS: Final = ("TestTxnEtl", "TestGroupETL", "TestGroupSimple", "Test848RegexBrokerResolves")
VARIANTS: Final = ("range", "cooperative-sticky", "range/848", "sticky/848", "sticky/848/static")
"""Of the first two tests; `848` is the consumer protocol."""


@pytest.mark.slow
@pytest.mark.capability("groups")
@pytest.mark.capability("transactions")
def test_franz_gos_own_tests_pass(bootstrap_servers: str) -> None:
    environment = {
        **os.environ,
        "KGO_SEEDS": bootstrap_servers,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": "2000",
        "KGO_LOG_LEVEL": "none",
    }
    command = [str(built_tests()), "-test.v", "-test.timeout", "5m", "-test.run", f"^({'|'.join(TESTS)})$"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    passed = set(re.findall(r"--- PASS: (\S+)", run.stdout))
    assert run.returncode == 0, "\n".join((run.stdout + run.stderr).splitlines()[-60:])
    assert passed >= {*TESTS, *(f"{test}/{variant}" for test in TESTS[:2] for variant in VARIANTS)}
