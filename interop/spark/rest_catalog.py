"""A REST catalog that is not ours: the server of Apache Iceberg's own tests.

It is a process of its own, and keeps its tables in SQLite, by Iceberg's JDBC catalog, and their files in a
local folder.
"""

from __future__ import annotations

import os
import subprocess
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyiceberg.catalog import Catalog, load_catalog

from interop.support.maven import CACHE, Coordinates, copy_jars
from interop.support.waiting import wait_until
from tests.servers.server_process import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ICEBERG = "1.11.0"
_JETTY = "12.1.5"
_JARS = [
    Coordinates("org.apache.iceberg", "iceberg-open-api", _ICEBERG, classifier="test-fixtures"),
    Coordinates("org.apache.iceberg", "iceberg-core", _ICEBERG, classifier="tests"),
    Coordinates("org.apache.iceberg", "iceberg-core", _ICEBERG),
    Coordinates("org.eclipse.jetty.ee10", "jetty-ee10-servlet", _JETTY),
    Coordinates("org.eclipse.jetty.compression", "jetty-compression-server", _JETTY),
    Coordinates("org.eclipse.jetty.compression", "jetty-compression-gzip", _JETTY),
    Coordinates("org.xerial", "sqlite-jdbc", "3.50.3.0"),
]


def rest_catalog_jars() -> Path:
    """The folder of the server's jars, with SQLite's driver."""
    return copy_jars(_JARS, CACHE / "spark" / "rest-catalog")


class RestCatalog(ServerProcess):
    """A server with no namespace yet."""

    name = "iceberg-rest"

    def __init__(self, folder: Path, port: int) -> None:
        self.data = folder
        self.log_path = folder / "rest-catalog.out"
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self.url = f"http://{self.bootstrap_servers}"
        self.warehouse = folder / "warehouse"

    def start(self, timeout: float = 60.0) -> RestCatalog:
        jars = rest_catalog_jars()
        # Hadoop's file systems and the logging are those of Spark.
        path = [f"{jars}/*", f"{Path(pyspark.__file__).parent}/jars/*"]
        settings = {
            "CATALOG_URI": f"jdbc:sqlite:{self.data}/catalog.db",
            "CATALOG_WAREHOUSE": str(self.warehouse),
            "CATALOG_REST_PORT": self.bootstrap_servers.rpartition(":")[2],
        }
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", ":".join(path)]
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, "org.apache.iceberg.rest.RESTCatalogServer"],
                env=os.environ | settings,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until(lambda: self._answers() or not self.running, timeout=timeout)
        assert self.running, self.output()
        return self

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/v1/config"):
                return True
        except OSError:
            return False

    @property
    def elsewhere(self) -> str:
        """A place for tables that the catalog would not choose."""
        return f"file://{self.data}/elsewhere"

    @property
    def client(self) -> Catalog:
        """Its tables by pyiceberg."""
        return load_catalog("rest", type="rest", uri=self.url)

    def catalog_options(self, name: str) -> dict[str, str]:
        """Spark's own settings for it, as the catalog of this name."""
        catalog = f"spark.sql.catalog.{name}"
        return {
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "rest",
            f"{catalog}.uri": self.url,
        }

    @property
    def session_options(self) -> dict[str, str]:
        """What Spark is started with to have such a catalog."""
        return {}

    def prepare(self, spark: SparkSession) -> None:
        """Lets a Spark that runs already have such a catalog: it does."""
