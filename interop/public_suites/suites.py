"""Which suites, in which versions, and how each finds its broker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from interop.public_suites import spark_checkout
from interop.support.locked import locked
from interop.support.maven import CACHE

CHECKOUT: Final = Path(__file__).resolve().parents[2]
_FOLDER: Final = CACHE / "public_suites"

_ASSERTIONS: Final = '''\
"""Stands for a file that the release leaves out."""

from contextlib import contextmanager


@contextmanager
def assert_changes(look, first, last):
    assert look() == first
    yield
    assert look() == last


def assert_does_not_change(look, value):
    return assert_changes(look, value, value)
'''


@dataclass(frozen=True)
class Suite:
    """The tests of a project.

    `source` is a release on PyPI whose archive has the tests, or the address of a repository with a commit,
    of which `files` alone are fetched, if there are any. `packages` are installed into a venv of the suite's
    own; without any, this checkout's venv runs it, with the source in its path. `left_out` are files of the
    tests that the release does not have. `removed` are folders of the source: then the installed package is
    tested. `run` are options of `kafkapy run`, or None if the suite starts its broker itself.
    """

    name: str
    source: str
    arguments: tuple[str, ...]
    passed: int
    packages: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    run: tuple[str, ...] | None = None

    @property
    def is_release(self) -> bool:
        return "==" in self.source


@dataclass(frozen=True)
class Outcome:
    """How many tests passed, and those that did not."""

    passed: int
    others: list[str] = field(default_factory=list)
    output: str = ""


ARROYO: Final = Suite(
    "arroyo",
    "sentry-arroyo==2.48.0",
    (
        "-o",
        "addopts=",  # --benchmark-disable, which needs a plugin
        "tests/backends/test_kafka.py",
        "tests/backends/test_kafka_producer.py",
        "tests/test_kip848_e2e.py",
    ),
    passed=43,
    left_out={"tests/__init__.py": "", "tests/assertions.py": _ASSERTIONS},
    run=("--env", "DEFAULT_BROKERS"),
)
PYTEST_KAFKA_BROKER: Final = Suite(
    "pytest-kafka-broker",
    "pytest-kafka-broker==1.0.0",
    ("-o", "kafka_stand_in=pytest_kafka_broker", "-k", "not test_kafka_enabled", "tests"),
    passed=5,
)
KTABLES: Final = Suite(
    "ktables",
    "ktables==2.0.0",
    ("-o", "kafka_stand_in=testcontainers", "tests"),
    passed=333,
)
TASKIQ_AIO_KAFKA: Final = Suite(
    "taskiq-aio-kafka",
    "taskiq-aio-kafka==1.0.0",
    ("tests",),
    passed=12,
    # It calls a partitioner as kafka-python 2 has it.
    packages=("taskiq-aio-kafka==1.0.0", "kafka-python<3", "anyio>=4.11", "pytest>=9"),
    run=("--env", "TEST_KAFKA_URL"),
)
KASKADE: Final = Suite(
    "kaskade",
    "kaskade==5.1.0",
    # Another registry, of which kafkapy has no stand-in.
    (
        "-c",
        "pyproject.toml",  # which has nothing of pytest's, so that this project's would count
        "-o",
        "kafka_stand_in=testcontainers",
        "-k",
        "not apicurio",
        "tests/e2e/tests_e2e.py",
    ),
    passed=4,
    packages=("kaskade==5.1.0", "testcontainers==4.15.0", "faker>=30", "pytest>=9", "{checkout}[registry]"),
)
QUIX: Final = Suite(
    "quixstreams",
    "https://github.com/quixio/quix-streams@dfb63318a6e4169d2e16b7479901159b49ee0f34",
    (
        "-o",
        "kafka_stand_in=testcontainers",
        "-o",
        "log_cli=false",
        "tests/test_quixstreams/test_app.py",
        "tests/test_quixstreams/test_internal_consumer",
        "tests/test_quixstreams/test_internal_producer.py",
        "tests/test_quixstreams/test_kafka",
        "tests/test_quixstreams/test_models/test_serializers/test_schema_registry.py",
        "tests/test_quixstreams/test_models/test_topics",
    ),
    passed=388,
    packages=(
        "-r",
        "requirements.txt",
        "-r",
        "tests/requirements.txt",
        "pytest-timeout",
        "{checkout}[registry]",
    ),
)
FASTSTREAM: Final = Suite(
    "faststream",
    "https://github.com/ag2ai/faststream@7c9a125dfdf20cc45b64aac26b53559057443da1",
    ("-m", "connected and (kafka or confluent)", "tests/brokers/kafka", "tests/brokers/confluent"),
    passed=421,
    packages=(
        ".[rabbit,kafka,confluent,nats,redis,mqtt,otel,cli,prometheus]",
        "dirty-equals",
        "email-validator",
        "fastapi",
        "freezegun",
        "httpx",
        "msgspec",
        "psutil",
        "pydantic-settings",
        "pytest>=9",
        "pytest-asyncio>=1.3",
        "pytest-rerunfailures",
        "pytest-timeout",
        "PyYAML",
        "uvicorn",
    ),
    run=("--set", "listeners=PLAINTEXT://127.0.0.1:9092"),
)
_PYSPARK_TESTS: Final = "python/pyspark/sql/tests/streaming"
PYSPARK: Final = Suite(
    "pyspark",
    "https://github.com/apache/spark@05d5b4a1855b67fda6383b71c7d16a225272a67b",
    (
        *("-p", "interop.public_suites.spark_checkout"),
        *("-o", "kafka_stand_in=testcontainers"),
        f"{_PYSPARK_TESTS}/test_streaming_kafka_rtm.py",
    ),
    passed=3,
    # Its helper names an option of the admin client that kafka-python 3 does not have.
    packages=(
        f"pyspark=={spark_checkout.VERSION}",
        "kafka-python<3",
        "pandas",
        "pyarrow",
        "testcontainers==4.15.0",
        "pytest>=9",
        "{checkout}",
    ),
    files=tuple(f"{_PYSPARK_TESTS}/{name}.py" for name in ("kafka_utils", "test_streaming_kafka_rtm")),
)
_COORDINATOR: Final = "tests/test_coordinator.py::TestKafkaCoordinatorIntegration"
AIOKAFKA: Final = Suite(
    "aiokafka",
    "https://github.com/aio-libs/aiokafka@672947afe85c91b7d953f0259e69837a711d3246",
    (
        *("-p", "interop.aiokafka.containers"),
        # No image is pulled: the version in its name chooses the tests.
        *("--no-pull", "--docker-image", "aiolibs/kafka:2.13_4.3.1"),
        # No broker is in these, and they need minutes.
        *("--ignore", "tests/coordinator", "--ignore", "tests/record", "--ignore", "tests/test_codec.py"),
        # Its broker is a mock, whose requests it counts after 30 to 150 ms.
        *("--deselect", f"{_COORDINATOR}::test_coordinator__heartbeat_routine"),
    ),
    passed=644,
    removed=("aiokafka",),
)
AIOKAFKA_VERSION: Final = "0.14.0"
"""What that commit is."""


def run(suite: Suite, *arguments: str, servers: str | None = None) -> Outcome:
    """Run a suite; skips the test if its source or its packages cannot be had.

    Args:
        arguments: more of pytest's.
        servers: brokers of another kind, for a suite that is told an address.
    """
    source = _source(suite)
    python = _python(suite, source)
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "--show-capture=no", "-W", "ignore"]
    command += [*suite.arguments, *arguments]
    named: dict[str, str] = {}
    if suite.run is not None and servers is None:
        command = [sys.executable, "-m", "kafkapy", "run", *suite.run, "--", *command]
    elif suite.run is not None and servers is not None:
        named = {name: servers for option, name in pairwise(suite.run) if option == "--env"}
    with tempfile.TemporaryDirectory() as copies:
        # Tests write beside themselves: certificates, keys.
        folder = shutil.copytree(source, Path(copies, suite.name), symlinks=True)
        # The suite's own venv does not know this checkout, and need not.
        own = os.pathsep.join([str(CHECKOUT), str(folder)])
        environment = {**os.environ, **named, "PYTHONPATH": own}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    lines = done.stdout.splitlines()
    passed = sum(line.startswith("PASSED ") for line in lines)
    others = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return Outcome(passed, others, "\n".join((done.stdout + done.stderr).splitlines()[-60:]))


def _source(suite: Suite) -> Path:
    version = suite.source.rpartition("==" if suite.is_release else "@")[2]
    folder = _FOLDER / f"{suite.name}-{version}"
    with locked(folder):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent) as name:
                (_unpack if suite.is_release else _clone)(suite, Path(name))
                source = Path(name) / "source"
                for file, text in suite.left_out.items():
                    (source / file).write_text(text)
                for removed in suite.removed:
                    shutil.rmtree(source / removed)
                source.rename(folder)
    return folder


def _unpack(suite: Suite, folder: Path) -> None:
    package = suite.source.partition("==")[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    _fetched([*command, "--no-binary", package, suite.source], suite)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        for member in source.getmembers():
            member.name = member.name.partition("/")[2]
            if member.name:
                source.extract(member, folder / "source", filter="data")


def _clone(suite: Suite, folder: Path) -> None:
    address, _, commit = suite.source.rpartition("@")
    source = folder / "source"
    _fetched(["git", "init", "--quiet", str(source)], suite)
    git = ["git", "-C", str(source)]
    _fetched([*git, "remote", "add", "origin", address], suite)
    # A file that is left out now comes when it is checked out.
    part, files = (["--filter=blob:none"], ["--", *suite.files]) if suite.files else ([], [])
    _fetched([*git, "fetch", "--quiet", "--depth", "1", *part, "origin", commit], suite)
    _fetched([*git, "checkout", "--quiet", "FETCH_HEAD", *files], suite)


def _python(suite: Suite, folder: Path) -> str:
    if not suite.packages:
        return sys.executable
    venv = folder.with_name(f"{folder.name}-venv")
    with locked(venv):
        if not venv.exists():
            with tempfile.TemporaryDirectory(dir=venv.parent) as name:
                # A venv knows its own path, so it is made in its place, and named when it is complete.
                _fetched([sys.executable, "-m", "venv", str(venv)], suite)
                try:
                    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]
                    packages = [each.format(checkout=CHECKOUT) for each in suite.packages]
                    _fetched([*pip, *packages], suite, cwd=folder)
                except BaseException:
                    venv.rename(Path(name, "unfinished"))
                    raise
    return str(venv / "bin" / "python")


def _fetched(command: list[str], suite: Suite, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        pytest.skip(f"{suite.source} could not be fetched: {last}")
