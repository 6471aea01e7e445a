"""The tests of the example project pass, as somebody runs them who has copied it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return shutil.copytree(ROOT / "examples" / "shop", tmp_path / "shop")


def run(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    ).stdout


def test_all_of_its_two_hundred_tests_pass_and_each_has_a_name_of_its_own(shop: Path) -> None:
    listed = run(shop, "--collect-only")
    names = [line for line in listed.splitlines() if "::" in line]
    assert len(set(names)) == len(names) == 200
    assert "200 passed" in (told := run(shop, "-n", "2")), told


def test_a_fault_of_the_program_is_found_by_its_tests(shop: Path) -> None:
    billing = shop / "shop" / "billing.py"
    changed = billing.read_text().replace(
        "await self._producer.send_offsets_to_transaction(offsets, GROUP)", "pass"
    )
    assert changed != billing.read_text()
    billing.write_text(changed)
    told = run(shop, "tests/test_billing.py")
    assert re.search(r"FAILED .*test_offsets_are_committed_with_the_bills", told), told
