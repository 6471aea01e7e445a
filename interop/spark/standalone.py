"""Spark's standalone cluster, of a master and workers, as processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from interop.spark.conftest import SHORT_LIFE
from interop.support.waiting import wait_until
from tests.ports import free_ports
from tests.servers.server_process import ServerProcess

SPARK = Path(pyspark.__file__).parent


class SparkDaemon(ServerProcess):
    """A master or a worker, ready when it says so."""

    def __init__(self, folder: Path, kind: str, name: str, ready: str, *arguments: object) -> None:
        self.name = name
        self.log_path = folder / f"{name}.out"
        self._ready = ready
        self._command = [
            str(SPARK / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{kind.lower()}.{kind}",
            "--host",
            "127.0.0.1",
        ]
        self._command += ["--webui-port", "0", *map(str, arguments)]

    def start(self, timeout: float = 120.0) -> SparkDaemon:
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                self._command,
                env=os.environ
                | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
                | {"SPARK_DAEMON_JAVA_OPTS": SHORT_LIFE},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until(lambda: self._ready in self.log_path.read_text() or not self.running, timeout=timeout)
        assert self.running, self.output()
        return self


@dataclass(frozen=True)
class Cluster:
    url: str
    master: SparkDaemon
    workers: list[SparkDaemon]

    def executors(self) -> list[psutil.Process]:
        """The executors that live, each a child of its worker."""
        children = [
            child
            for worker in self.workers
            if worker.running
            for child in psutil.Process(worker.pid).children()
        ]
        return [child for child in children if _is_executor(child)]

    def kill_executor(self) -> None:
        """Kill an executor; its worker starts another."""
        self.executors()[0].send_signal(signal.SIGKILL)

    def kill_worker(self) -> None:
        """Kill a worker and its executor: a machine that is gone."""
        worker = self.workers[-1]
        doomed = psutil.Process(worker.pid).children(recursive=True)
        worker.kill()
        for process in doomed:
            with suppress(psutil.NoSuchProcess):
                process.kill()


def _is_executor(process: psutil.Process) -> bool:
    try:
        return "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # or a zombie
        return False


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[Cluster]:
    """A cluster of workers with a core and a GB each."""
    (port,) = free_ports(1)
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        master = SparkDaemon(folder, "Master", "master", "New state: ALIVE", "--port", port)
        stack.enter_context(master)
        places = [folder / f"worker-{number}" for number in range(workers)]
        arguments = ["-c", 1, "-m", "1g", "--work-dir"]
        started = [
            SparkDaemon(folder, "Worker", place.name, "Successfully registered", *arguments, place, url)
            for place in places
        ]
        for worker in started:
            stack.enter_context(worker)
        yield Cluster(url, master, started)
