"""kafkapy of this checkout as a process (`python -m kafkapy serve`), in its own folder.

    with KafkapyProcess(tmp_path, properties={"durability": "os"}) as kafkapy:
        Producer({"bootstrap.servers": kafkapy.bootstrap_servers})

`properties` are given on the command line, `file` as a server.properties.

Stopping and starting the same object again keeps the data and the address.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from interop.support.host import LOCAL, Host
from interop.support.probe import wait_until_it_answers
from interop.support.server_process import ServerProcess, ServerStartError
from tests.ports import free_ports

_CHECKOUT = Path(__file__).resolve().parents[2]


class KafkapyProcess(ServerProcess):
    """kafkapy in `folder` (data, output), with `properties` over its defaults."""

    name = "kafkapy"
    version = "this checkout"

    def __init__(
        self,
        folder: Path,
        *,
        properties: Mapping[str, str] | None = None,
        file: Mapping[str, str] | None = None,
        host: Host = LOCAL,
        program: Sequence[str] = ("-m", "kafkapy"),
    ) -> None:
        self._host, self._program = host, program
        self.folder, self.properties, self._file = folder, dict(properties or {}), dict(file or {})
        self.data = folder / "data"
        self.log_path = folder / "server.out"
        self.bootstrap_servers = f"{host.address}:{free_ports(1)[0]}"

    def start(self, timeout: float = 30.0) -> Self:
        """Run, and wait for the first answer; raises ServerStartError."""
        self.launch()
        deadline = time.monotonic() + timeout
        if not wait_until_it_answers(
            self.address, deadline=deadline, still_running=lambda: self.running, pause=0.01
        ):
            self.kill()
            raise ServerStartError(self.output())
        return self

    def launch(self) -> None:
        """Run, and wait for nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = [part for item in self.properties.items() for part in ("--set", "=".join(item))]
        command = [*self._host.enter, sys.executable, *self._program, "serve", "--data", str(self.data)]
        command += ["--listen", self.bootstrap_servers, *settings]
        if self._file:
            path = self.folder / "server.properties"
            path.write_text("".join(f"{name}={value}\n" for name, value in self._file.items()))
            command += ["--config", str(path)]
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                command, cwd=_CHECKOUT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
