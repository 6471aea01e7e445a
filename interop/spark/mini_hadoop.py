"""HDFS and YARN of Hadoop's own tests, with one machine each, in a process of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import psutil

from interop.spark.conftest import SHORT_LIFE
from interop.support.java_programs import compiled
from interop.support.kafka_jars import TEMPORARY_FILES
from interop.support.maven import CACHE, Coordinates, copy_jars
from interop.support.waiting import wait_until
from kafkapy.spark.installation import find_spark
from tests.servers.server_process import ServerProcess

_FLAGS = ["-Xmx512m", "--add-opens=java.base/java.lang=ALL-UNNAMED", *SHORT_LIFE.split(), TEMPORARY_FILES]


class MiniHadoop(ServerProcess):
    """A namenode, a datanode, a resource manager and a node manager.

    They have the version that Spark brings. `start` raises JarsUnavailableError.
    """

    name = "hadoop"

    def __init__(self, folder: Path) -> None:
        self.data, self.log_path = folder, folder / "hadoop.out"
        self.settings = folder / "conf"
        """The folder with the clients' settings, HADOOP_CONF_DIR."""

    def start(self, timeout: float = 600.0) -> MiniHadoop:
        version = find_spark().hadoop
        jars = copy_jars(
            [
                Coordinates("org.apache.hadoop", "hadoop-client-minicluster", version),
                Coordinates("org.slf4j", "slf4j-reload4j", "1.7.36"),
                Coordinates("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
                Coordinates("javax.xml.bind", "jaxb-api", "2.3.1"),
            ],
            CACHE / "hadoop" / version,
        )
        java = Path(shutil.which("java") or "java").resolve()
        program = compiled(Path(__file__).with_name("MiniHadoop.java"), jars)
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                [java, *_FLAGS, *program, self.data],
                cwd=self.data,
                env=os.environ | {"JAVA_HOME": str(java.parents[1])},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until(
            lambda: "ready\n" in self.log_path.read_text(errors="replace") or not self.running,
            timeout=timeout,
        )
        assert self.running, self.output()
        return self

    def _setting(self, name: str) -> str:
        for found in ElementTree.parse(self.settings / "core-site.xml").iter("property"):
            if found.findtext("name") == name:
                return str(found.findtext("value"))
        raise LookupError(name)

    @property
    def url(self) -> str:
        """Its HDFS."""
        return self._setting("fs.defaultFS").rstrip("/")

    @property
    def web_address(self) -> dict[str, str]:
        """Where its HDFS is served by HTTP, as fsspec takes it."""
        host, port = self._setting("dfs.namenode.http-address").rsplit(":", 1)
        return {"host": host, "port": port}

    def containers(self, kind: str) -> list[psutil.Process]:
        """The JVMs that run in containers and have this in their command line."""
        return [one for one in self._jvms() if kind in _command(one)]

    def kill_container(self, kind: str) -> None:
        self.containers(kind)[0].send_signal(signal.SIGKILL)

    def _jvms(self) -> list[psutil.Process]:
        return [one for one in psutil.Process(self.pid).children(recursive=True) if one.name() == "java"]

    def stop(self, timeout: float = 30.0) -> int:
        """End it with all its containers, which would outlive it."""
        doomed = psutil.Process(self.pid).children(recursive=True) if self.running else []
        status = super().stop(timeout)
        for process in doomed:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return status


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # or a zombie
        return ""
