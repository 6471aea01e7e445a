"""A run of some of librdkafka's own tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from interop.librdkafka.program import fixtures


class Run(NamedTuple):
    tests: str
    """Their numbers."""
    parts: int
    """How many parts of them have to pass."""
    subtests: str = ""
    """What the names of the parts contain."""
    protocol: str = "classic"
    settings: Mapping[str, str] = {}
    """Of their clients."""
    variables: Mapping[str, str] = {}
    """Where what they need is."""


class Process:
    """A run of the tests, as a process in a folder of its own."""

    def __init__(self, program: Path, bootstrap_servers: str, run: Run, folder: Path) -> None:
        self._run, self._report, self._log = run, folder / "report.json", folder / "output"
        configuration = folder / "test.conf"
        settings = {"bootstrap.servers": bootstrap_servers, "test.timeout.multiplier": "4", **run.settings}
        configuration.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        (folder / "fixtures").symlink_to(fixtures(program))
        environment = {
            **os.environ,
            "RDKAFKA_TEST_CONF": str(configuration),
            "TEST_REPORT": str(self._report),
            "TEST_KAFKA_VERSION": "4.3.0",
            "TEST_CONSUMER_GROUP_PROTOCOL": run.protocol,
            "TESTS": run.tests.replace(" ", ","),
            **run.variables,
        }
        if run.subtests:
            environment["SUBTESTS"] = run.subtests
        # Without those that need no broker, and as many at a time as there are.
        command = [str(program), "-L", f"-p{len(run.tests.split())}"]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def require_passed(self, seconds: float = 300) -> None:
        """Wait for its end: each test has passed, and not because its parts were left out."""
        status = self._process.wait(seconds)
        output = re.sub(r"\x1b\S*?m", "", self._log.read_text(errors="replace"))
        failures = re.findall(r"^### Test .*\n.*", output, re.MULTILINE)
        assert status == 0, "\n".join(failures)
        tests = json.loads(self._report.read_text())["tests"].values()
        passed = {each["name"][:4] for each in tests if each["state"] == "PASSED"}
        assert passed >= {*self._run.tests.split()}
        assert output.count(": PASS (") >= self._run.parts
