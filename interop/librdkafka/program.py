"""Builds librdkafka's own tests, from the source that npm has of it.

Confluent's JavaScript client compiles librdkafka where it is installed: its package contains the source, with
the tests. They are built with TLS, for which OpenSSL's headers are needed, and without what needs other
libraries (Kerberos, zlib, zstd), once for each choice of tests. Those that fetch tokens need curl's headers.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

import pytest

from interop.support.locked import locked
from interop.support.maven import CACHE
from interop.support.npm import unpacked

RELEASE: Final = "2.15.1"
"""Of librdkafka; the package's own releases have other numbers."""

_PACKAGE: Final = "@confluentinc/kafka-javascript@1.10.1"
_LEFT_OUT: Final = (
    *("gssapi", "zlib", "zstd", "lz4-ext", "syslog"),
    *("optimization", "debug-symbols"),
)
_FETCH_TOKENS: Final = frozenset({"0126"})
_CHANGES: Final = {
    "test.c": {
        # The topics of some tests have three replicas: the broker's default instead.
        "(topicname, partition_cnt, replication_factor": "(topicname, partition_cnt, -1",
        # All tests are in one table: those that are not compiled are null in it.
        "_TEST_DECL(NAME) extern int": "_TEST_DECL(NAME) extern __attribute__((weak)) int",
    },
    "0097-ssl_verify.cpp": {
        # A client whose certificate is not trusted wants the alert that Java sends; OpenSSL sends another.
        "untrusted_client_key <= 1;": "untrusted_client_key <= 0;",
    },
}
"""What is replaced in the files of the tests."""


def built_tests(numbers: Iterable[str]) -> Path:
    """The path of a program with the tests of these numbers.

    Skips the test if it is not to be had.
    """
    chosen = sorted({*numbers})
    program = CACHE / "librdkafka" / RELEASE / "-".join(chosen)
    with locked(program):
        if not program.exists():
            _build(chosen, program)
    return program


def _build(chosen: Collection[str], program: Path) -> None:
    for tool in ("npm", "make", "gcc", "g++"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not on the PATH: it is needed once to build librdkafka")
    has_curl = not _FETCH_TOKENS.isdisjoint(chosen)
    if has_curl and not shutil.which("curl-config"):
        pytest.skip("curl's headers (with curl-config) are needed to build librdkafka's tests of tokens")
    left_out = _LEFT_OUT if has_curl else (*_LEFT_OUT, "curl")
    with tempfile.TemporaryDirectory(dir=program.parent) as name:
        source = unpacked(_PACKAGE, Path(name)) / "deps" / "librdkafka"
        tests = source / "tests"
        for file, changes in _CHANGES.items():
            _change(tests / file, changes)
        _run(source, "./configure", *(f"--disable-{each}" for each in left_out))
        _run(source / "src", "make", "-j2", "librdkafka.a")
        _run(source / "src-cpp", "make", "-j2", "librdkafka++.a")
        files = [path.name for number in chosen for path in tests.glob(f"{number}-*.c*")]
        in_c = " ".join(each for each in files if each.endswith(".c"))
        in_cpp = " ".join(each for each in files if each.endswith(".cpp"))
        _run(tests, "make", "-j2", "test-runner", f"TESTSRCS_C={in_c}", f"TESTSRCS_CXX={in_cpp}")
        shutil.copytree(tests / "fixtures", fixtures(program), dirs_exist_ok=True)
        (tests / "test-runner").rename(program)


def fixtures(program: Path) -> Path:
    """The folder with the certificates that some tests of a program read."""
    return program.parent / "fixtures"


def _change(path: Path, changes: Mapping[str, str]) -> None:
    text = path.read_text()
    for before, after in changes.items():
        assert before in text, f"{path.name} has no {before!r}"
        text = text.replace(before, after)
    path.write_text(text)


def _run(folder: Path, *command: str) -> None:
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, "\n".join((run.stdout + run.stderr).splitlines()[-30:])
