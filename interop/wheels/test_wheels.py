"""The wheel of a release: its tags and parts, and a broker from it with each Python."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    "protocol/_walker",
    "storage/cleaning/_compactor",
    "storage/disk/_sync_queue",
    "storage/disk/_write_probe",
)


def pythons() -> list[str]:
    """The CPythons from 3.11 on that run; a shim of pyenv may be there without one."""
    names = [f"python3.{minor}" for minor in range(11, 16)]
    found = [name for name in names if shutil.which(name) and _runs(name)]
    return found or [sys.executable]


def _runs(python: str) -> bool:
    return subprocess.run([python, "-c", "import venv"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that scripts/wheels wrote, and what it printed."""
    folder = tmp_path_factory.mktemp("dist")
    options = [option for python in pythons() for option in ("--python", python)]
    ended = subprocess.run(
        [sys.executable, ROOT / "scripts/wheels", "--folder", folder, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder, ended.stdout


def test_one_wheel_serves_with_each_python(built: tuple[Path, str]) -> None:
    _, printed = built
    assert len(re.findall(r"^kafkapy_broker-\S+\.whl serves: CPython 3\.\d+", printed, re.MULTILINE)) == len(
        pythons()
    )


def test_the_wheel_has_the_stable_abi_and_an_old_c_library(built: tuple[Path, str]) -> None:
    folder, _ = built
    (wheel,) = folder.glob("*.whl")
    assert re.search(r"-cp311-abi3-manylinux\w*_\w+", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    assert sorted(name for name in names if name.endswith(".so")) == [
        f"kafkapy/{part}.abi3.so" for part in PARTS
    ]


def test_the_source_archive_is_written_with_it(built: tuple[Path, str]) -> None:
    folder, _ = built
    assert len(list(folder.glob("kafkapy_broker-*.tar.gz"))) == 1
