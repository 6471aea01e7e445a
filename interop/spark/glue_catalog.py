"""Glue's API and S3, both served by moto, as a catalog of Iceberg tables.

Iceberg's own clients of them, and Amazon's SDK, are in one jar, which Spark needs besides Iceberg's own.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog, load_catalog

from interop.support.maven import CACHE, Coordinates, copy_jars
from interop.support.s3_server import KEYS, S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLIENTS = Coordinates("org.apache.iceberg", "iceberg-aws-bundle", "1.11.0")
_CREDENTIALS = {
    "aws.accessKeyId": KEYS["AWS_ACCESS_KEY_ID"],
    "aws.secretAccessKey": KEYS["AWS_SECRET_ACCESS_KEY"],
}


class GlueCatalog(S3Server):
    """A catalog with no namespace yet, whose tables are in the server's bucket."""

    def start(self, timeout: float = 60.0) -> GlueCatalog:
        (self._jar,) = copy_jars([_CLIENTS], CACHE / "spark" / "glue").glob("*.jar")
        super().start(timeout)
        return self

    elsewhere = "s3://lake/elsewhere"
    """A place for tables that the catalog would not choose."""

    @cached_property
    def client(self) -> Catalog:
        """Its tables by pyiceberg."""
        own = {
            "glue.endpoint": self.url,
            "glue.region": KEYS["AWS_REGION"],
            "glue.access-key-id": KEYS["AWS_ACCESS_KEY_ID"],
            "glue.secret-access-key": KEYS["AWS_SECRET_ACCESS_KEY"],
        }
        return load_catalog("glue", type="glue", **own, **self.pyiceberg_options)

    def catalog_options(self, name: str) -> dict[str, str]:
        """Spark's own settings for it, as the catalog of this name."""
        catalog = f"spark.sql.catalog.{name}"
        return {
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "glue",
            f"{catalog}.warehouse": "s3://lake/warehouse",
            f"{catalog}.glue.endpoint": self.url,
            f"{catalog}.s3.endpoint": self.url,
            f"{catalog}.s3.path-style-access": "true",
            f"{catalog}.client.region": KEYS["AWS_REGION"],
        }

    @property
    def session_options(self) -> dict[str, str]:
        """What Spark is started with to have such a catalog."""
        credentials = " ".join(f"-D{name}={value}" for name, value in _CREDENTIALS.items())
        return {"spark.jars": str(self._jar), "spark.driver.extraJavaOptions": credentials}

    def prepare(self, spark: SparkSession) -> None:
        """Lets a Spark that runs already have such a catalog."""
        jvm = spark._jvm
        assert jvm is not None
        jvm.java.lang.Thread.currentThread().getContextClassLoader().addURL(
            jvm.java.net.URL(self._jar.as_uri())
        )
        for name, value in _CREDENTIALS.items():
            jvm.java.lang.System.setProperty(name, value)
