"""The server of Unity Catalog itself, whose tables are judged by its REST API.

Not every index of packages has it. `KAFKAPY_UNITY_JARS` names a folder with the jars of the server and all
that it needs in `server/`, and that of Spark's connector, `unitycatalog-spark_*.jar`, beside it. The server
keeps its tables in a database in a folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from interop.support.waiting import wait_until
from tests.servers.server_process import ServerProcess

JARS = os.environ.get("KAFKAPY_UNITY_JARS")
_DATABASE = """\
hibernate.connection.driver_class=org.h2.Driver
hibernate.connection.url=jdbc:h2:file:./etc/db/h2db;DB_CLOSE_DELAY=-1
hibernate.hbm2ddl.auto=update
"""


class UnityServer(ServerProcess):
    """A server with one catalog, `unity`, and one schema, `default`."""

    name = "unity"

    def __init__(self, folder: Path, port: int) -> None:
        self.data = folder
        self.log_path = folder / "unity.out"
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self._api = f"http://{self.bootstrap_servers}/api/2.1/unity-catalog"

    def start(self, timeout: float = 120.0) -> UnityServer:
        settings = self.data / "etc" / "conf"
        settings.mkdir(parents=True)
        (settings / "server.properties").write_text("server.env=dev\nserver.authorization=disable\n")
        (settings / "hibernate.properties").write_text(_DATABASE)
        command = [
            "java",
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{JARS}/server/*",
        ]
        command += [
            "io.unitycatalog.server.UnityCatalogServer",
            "-p",
            self.bootstrap_servers.rpartition(":")[2],
        ]
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                cwd=self.data,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until(lambda: self._answers() or not self.running, timeout=timeout)
        assert self.running, self.output()
        self._ask("/catalogs", {"name": "unity"})
        self._ask("/schemas", {"name": "default", "catalog_name": "unity"})
        return self

    def _answers(self) -> bool:
        try:
            return bool(self._ask("/catalogs"))
        except OSError:
            return False

    def table(self, name: str) -> dict[str, Any]:
        """What the server says of a table of the schema."""
        return self._ask(f"/tables/unity.default.{name}")

    def _ask(self, path: str, content: dict[str, str] | None = None) -> dict[str, Any]:
        sent = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self._api + path, sent, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    @property
    def spark_options(self) -> dict[str, str]:
        """Spark's own settings for it, as the catalog `unity`."""
        (connector,) = Path(str(JARS)).glob("unitycatalog-spark_*.jar")
        return {
            "spark.jars": str(connector),
            "spark.sql.catalog.unity": "io.unitycatalog.spark.UCSingleCatalog",
            "spark.sql.catalog.unity.uri": f"http://{self.bootstrap_servers}",
            "spark.sql.catalog.unity.token": "",
        }
