"""A server of Google's store that is not ours: fake-gcs-server, built by Go's own tool."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest

from interop.support.locked import locked
from interop.support.maven import CACHE
from interop.support.waiting import wait_until
from tests.servers.server_process import ServerProcess

RELEASE = "v1.56.1"


def _program() -> Path:
    """The program; skips the test if Go or the module is not to be had."""
    program = CACHE / "fake-gcs-server" / RELEASE / "fake-gcs-server"
    with locked(program):
        if not program.exists():
            if not shutil.which("go"):
                pytest.skip("go is not on the PATH (Go 1.26 is needed for fake-gcs-server)")
            command = ["go", "install", f"github.com/fsouza/fake-gcs-server@{RELEASE}"]
            environment = os.environ | {"GOBIN": str(program.parent)}
            made = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if made.returncode:
                last = (made.stderr.splitlines() or ["no message"])[-1]
                pytest.skip(f"go could not build fake-gcs-server: {last}")
    return program


class GcsServer(ServerProcess):
    """A server with one bucket, `lake`, which keeps everything in memory."""

    name = "fake-gcs-server"

    def __init__(self, folder: Path, port: int) -> None:
        self.log_path = folder / "gcs.out"
        self.url = f"http://127.0.0.1:{port}"
        self._port = port

    def start(self, timeout: float = 60.0) -> GcsServer:
        command = [str(_program()), "-scheme", "http", "-host", "127.0.0.1", "-port", str(self._port)]
        command += ["-public-host", f"127.0.0.1:{self._port}", "-external-url", self.url]
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, "-backend", "memory", "-data", "", "-log-level", "info"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until(lambda: "server started" in self.log_path.read_text() or not self.running, timeout=timeout)
        assert self.running, self.output()
        content = json.dumps({"name": "lake"}).encode()
        wanted = urllib.request.Request(
            f"{self.url}/storage/v1/b", content, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(wanted):
            return self

    @property
    def spark_options(self) -> dict[str, str]:
        """Spark's own settings for it.

        It has no logins, and does not know the request that moves a file.
        """
        return {
            "spark.hadoop.fs.gs.storage.root.url": f"{self.url}/",
            "spark.hadoop.fs.gs.auth.type": "UNAUTHENTICATED",
            "spark.hadoop.fs.gs.project.id": "test",
            "spark.hadoop.fs.gs.operation.move.enable": "false",
        }

    @property
    def deltalake_options(self) -> dict[str, str]:
        """deltalake's settings for it."""
        account = {"gcs_base_url": self.url, "disable_oauth": True}
        unused = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        return {"google_service_account_key": json.dumps(account | unused)}
