"""The parts of a diagnosis, each with its name in the archive.

A part that cannot be made says why, and the others are made all the same. Each takes seconds, and has a bound
in bytes.
"""

from __future__ import annotations

import os
import platform
import re
import resource
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

MOST_BYTES: Final = 4 << 20
"""The most bytes of one part, apart from metrics."""

MOST_METRICS: Final = 64 << 20

LINES: Final = 5_000
"""The last lines of a log, and the most files of a data directory."""

SECONDS: Final = 60
"""How long one command or download may take."""

CHECKPOINTS: Final = (
    "meta.properties",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)

ASKED: Final = (
    ("cluster", "describe"),
    ("cluster", "api-versions"),
    ("cluster", "features"),
    ("configs", "describe", "brokers"),
    ("configs", "describe", "topics"),
    ("topics", "list"),
    ("groups", "list"),
    ("lag",),
    ("log-dirs", "describe"),
    ("transactions", "list"),
)
"""The commands that tell the state of a running cluster. A broker hides secrets from all of them."""

_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9._-]+")


class Source(NamedTuple):
    """A part of the archive."""

    name: str
    holds: str
    make: Callable[[], str]


def versions(directories: Sequence[Path]) -> str:
    """The software and the machine."""
    limits = {name: getattr(resource, f"RLIMIT_{name}") for name in ("NOFILE", "NPROC", "CORE")}
    lines = [
        f"kafkapy {_version('kafkapy-broker')}",
        f"python {sys.version}",
        f"executable {sys.executable}",
        f"platform {platform.platform()}",
        f"openssl {ssl.OPENSSL_VERSION}",
        f"processors {os.cpu_count()}",
        *(f"limit {name} {resource.getrlimit(number)}" for name, number in limits.items()),
        *_memory(),
        *(f"package {name} {_version(name)}" for name in _packages()),
        *(f"file system of {each}: {_file_system(each)}" for each in directories),
    ]
    return "\n".join(lines) + "\n"


def last_lines(path: Path) -> str:
    """The end of a log file."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - MOST_BYTES))
        lines = file.read(MOST_BYTES).decode("utf-8", "replace").splitlines()
    return "\n".join(lines[-LINES:]) + "\n"


def files_of(directory: Path) -> str:
    """The names, sizes and times of the files of a data directory, and its checkpoints."""
    parts = [f"{line}\n" for line in islice(_listing(directory), LINES)]
    if len(parts) == LINES:
        parts.append("and more files\n")
    for name in CHECKPOINTS:
        path = directory / name
        if path.is_file():
            with path.open("rb") as file:
                parts.append(f"\n--- {name}\n{file.read(MOST_BYTES // 8).decode('utf-8', 'replace')}")
    return "".join(parts)


def page(url: str) -> str:
    """The metrics of a broker."""
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        return str(answer.read(MOST_METRICS).decode("utf-8", "replace"))


def asked(words: Sequence[str], options: Sequence[str]) -> str:
    """What a command for clusters says."""
    run = subprocess.run(
        [sys.executable, "-m", "kafkapy", *words, *options],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    told = run.stdout[:MOST_BYTES] + run.stderr[:MOST_BYTES]
    return told.decode("utf-8", "replace") + (f"exit status {run.returncode}\n" if run.returncode else "")


def _listing(directory: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(directory):
        folders.sort()
        for name in sorted(names):
            path = Path(folder) / name
            try:
                found = path.stat()
            except OSError as error:
                yield f"{path.relative_to(directory)} {error.strerror}"
                continue
            yield f"{found.st_size:>14} {int(found.st_mtime)} {path.relative_to(directory)}"


def _packages() -> list[str]:
    """The packages that kafkapy may use."""
    try:
        wanted = requires("kafkapy-broker") or []
    except PackageNotFoundError:
        return []
    names = {found.group() for each in wanted if (found := _REQUIREMENT.match(each)) is not None}
    return sorted(names, key=str.lower)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "is not installed"


def _memory() -> list[str]:
    try:
        with Path("/proc/meminfo").open(encoding="utf-8") as file:
            return [f"memory {line.strip()}" for line in islice(file, 3)]
    except OSError:
        return []


def _file_system(directory: Path) -> str:
    """Its type and options, as Linux tells them, and how full it is."""
    found = os.statvfs(directory)
    free, size = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    path, best, told = directory.resolve(), -1, "unknown"
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        mounts = []
    for line in mounts:
        _, where, kind, options, *_ = line.split(" ")
        if path.is_relative_to(where) and len(where) >= best:
            best, told = len(where), f"{kind} at {where} ({options})"
    return f"{told}, {free} of {size} bytes free"
