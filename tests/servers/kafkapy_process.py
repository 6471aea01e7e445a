"""kafkapy of this checkout as a process, as an operator starts it.

    with KafkapyProcess(tmp_path, properties={"durability": "os"}) as kafkapy:
        Producer({"bootstrap.servers": kafkapy.bootstrap_servers})

`properties` are given on the command line, `file` as a server.properties.

Stopping and starting the same object again keeps the data and the address.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.ports import free_ports
from tests.servers.probe import wait_until_it_answers
from tests.servers.server_process import ServerProcess, ServerStartError

_CHECKOUT = Path(__file__).resolve().parents[2]
_KAFKAPY = ("-m", "kafkapy")


class KafkapyProcess(ServerProcess):
    """kafkapy in `folder` (data, output), with `properties` over its defaults.

    Args:
        data: its log directory, or several with commas between them, if it is not in the folder.
        address: the address of this machine that it listens on.
        prefix: a command that replaces itself by the broker, such as `prlimit`.
        program: another Python program with the same command line.
        environment: variables for it, besides those of this process.
    """

    name = "kafkapy"
    version = "this checkout"

    def __init__(
        self,
        folder: Path,
        *,
        properties: Mapping[str, str] | None = None,
        file: Mapping[str, str] | None = None,
        data: Path | None = None,
        address: str = "127.0.0.1",
        prefix: Sequence[str] = (),
        program: Sequence[str] = _KAFKAPY,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self.properties, self._file = folder, dict(properties or {}), dict(file or {})
        self._prefix, self._program, self._environment = prefix, program, dict(environment or {})
        self.data = data or folder / "data"
        self.log_path = folder / "server.out"
        self.bootstrap_servers = f"{address}:{free_ports(1)[0]}"

    def start(self, timeout: float = 60.0) -> Self:
        """Run, and wait for the first answer; raises ServerStartError."""
        self.launch()
        deadline = time.monotonic() + timeout
        if not wait_until_it_answers(
            self.address, deadline=deadline, still_running=lambda: self.running, pause=0.01
        ):
            self.kill()
            raise ServerStartError(self.output())
        return self

    def restart_as_itself(self) -> None:
        """Kill it, and start it without its prefix and with the program of operators."""
        self.kill()
        self._prefix, self._program, self._environment = (), _KAFKAPY, {}
        self.start()

    def launch(self) -> None:
        """Run, and wait for nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        arguments = list(self.arguments())
        if self._file:
            path = self.folder / "server.properties"
            path.write_text("".join(f"{name}={value}\n" for name, value in self._file.items()))
            arguments += ["--config", str(path)]
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                [*self._prefix, sys.executable, *self._program, "serve", *arguments],
                cwd=_CHECKOUT,
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def arguments(self) -> Iterator[str]:
        """The arguments of `kafkapy serve`, besides the file."""
        yield from ("--data", str(self.data))
        if "listeners" not in self.properties:
            yield from ("--listen", self.bootstrap_servers)
        for item in self.properties.items():
            yield from ("--set", "=".join(item))
