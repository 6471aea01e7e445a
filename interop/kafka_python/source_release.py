"""kafka-python's own tests, from the source release of the version that is installed."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest

from interop.support.locked import locked
from interop.support.maven import CACHE

_SERVICE: Final = '''\
"""Stands for a file that the release leaves out: a broker that runs already."""


class ExternalService:
    def __init__(self, host, port):
        pass


class SpawnedService:
    pass
'''


_CONSUMER_TESTS: Final = "test/integration/test_consumer_integration.py"
_HASTE, _PATIENCE = "wait_for_stable(timeout=15)", "wait_for_stable(timeout=90)"
"""On a busy machine four consumers in one process may need more than 15 s."""


def own_tests() -> Path:
    """The folder that contains the package `test`; skips the test if it is not to be had."""
    release = version("kafka-python")
    folder = CACHE / "kafka-python" / f"{release}-patient"
    with locked(folder):
        if not folder.exists():
            _extract(release, folder)
    return folder


def _extract(release: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        fetched, tests = Path(name, "fetched"), Path(name, "tests")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(fetched)]
        command += ["--no-binary", "kafka-python", f"kafka-python=={release}"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            pytest.skip(f"pip could not fetch kafka-python's source: {run.stderr.strip().splitlines()[-1]}")
        (archive,) = fetched.iterdir()
        with tarfile.open(archive) as source:
            for member in source.getmembers():
                member.name = member.name.partition("/")[2]
                if member.name.startswith("test/"):
                    source.extract(member, tests, filter="data")
        (tests / "test" / "__init__.py").touch()  # or the standard library's package of this name is found
        (tests / "test" / "service.py").write_text(_SERVICE)
        consumer_tests = tests / _CONSUMER_TESTS
        text = consumer_tests.read_text()
        assert _HASTE in text, f"{_CONSUMER_TESTS} has no {_HASTE!r}"
        consumer_tests.write_text(text.replace(_HASTE, _PATIENCE))
        (tests / "pytest.ini").write_text("[pytest]\n")
        tests.rename(folder)
