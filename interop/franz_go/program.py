"""Builds the programs of the suite with Go, and runs them.

`client` is main.go; `kgo.test` are the tests of franz-go itself. The Go tool fetches franz-go from its module
proxy and keeps it, and what it has compiled, in its own caches.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from interop.support.maven import CACHE

_SOURCE: Final = Path(__file__).parent
_FOLDER: Final = CACHE / "franz-go"
_OWN_TESTS: Final = "github.com/twmb/franz-go/pkg/kgo"


def built_client() -> Path:
    """The path of the client; skips the test if Go or its modules are not to be had."""
    return _built("client", "build", ".")


def built_tests() -> Path:
    """The path of franz-go's own tests; skips the test if Go or its modules are not to be had."""
    return _built("kgo.test", "test", "-c", _OWN_TESTS)


@cache
def _built(name: str, command: str, *arguments: str) -> Path:
    if not shutil.which("go"):
        pytest.skip("go is not on the PATH (Go 1.26 is needed)")
    fetched = _go("mod", "download")
    if fetched.returncode:
        pytest.skip(f"go could not fetch franz-go: {(fetched.stderr.splitlines() or ['no message'])[-1]}")
    _FOLDER.mkdir(parents=True, exist_ok=True)
    *flags, package = arguments
    made = _go(command, "-o", str(_FOLDER / name), *flags, package)
    assert made.returncode == 0, made.stderr
    return _FOLDER / name


def _go(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["go", *arguments], cwd=_SOURCE, capture_output=True, text=True, check=False)


class Client:
    """A client at work; what it tells, in all its lives, is collected by a thread."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._command, self._log = [str(built_client()), *arguments], folder / f"{arguments[0]}.err"
        self.told: list[dict[str, Any]] = []

    def start(self) -> None:
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._reader = threading.Thread(target=self._read, name="what a client tells")
        self._reader.start()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> int:
        """SIGTERM: it commits and leaves; its exit status."""
        self._process.send_signal(signal.SIGTERM)
        return self._wait()

    def kill(self) -> None:
        self._process.kill()
        self._wait()

    def _wait(self) -> int:
        status = self._process.wait(60)
        self._reader.join(60)
        return status

    def output(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-30:])

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.told.append(json.loads(line))
