"""The installed programs: pyspark, the Spark that it starts, and Java.

All other versions follow from pyspark's: the Kafka connector and spark-avro have the same version, and the
jars of a lake format are built for its minor version. Nothing here imports pyspark, or starts a JVM except
for `java -version`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafkapy.spark.setup_error import SparkSetupError

LAKES = ("delta", "iceberg")
STORES = {"s3a": "hadoop-aws", "gs": "gcs-connector"}
"""The schemes whose connector is fetched, and the artifact."""

# Spark 4 is compiled for Java 17, and its Hadoop calls methods that Java 24 has removed.
JAVA_VERSIONS = range(17, 22)

ICEBERG = "1.11.0"
_GCS = "4.0.4"
# For each minor version of Spark the newest release of the lake format that has jars for it.
_DELTA = {"4.0": "4.4.0", "4.1": "4.4.0", "4.2": "4.4.0"}
_ICEBERG = {"4.0": ICEBERG, "4.1": ICEBERG}

# The tests run with this version. Other versions of Spark 4 may work. But a new version is on PyPI before any
# lake format has jars for it, and sometimes before its own connector is in Maven Central.
PYSPARK = "pip install 'pyspark==4.0.0'"
_JAVA = "install a Java runtime of version 17 or 21, or let JAVA_HOME name one"


@dataclass(frozen=True)
class Package:
    """The jar of a Maven coordinate, and the jars that it needs.

    `family` is the start of its file name in every version. A package of Spark itself must have Spark's
    version, and one of Hadoop that of the Hadoop in it. Of a lake format any installed version is accepted.
    A jar with a classifier has in it what it needs.
    """

    organisation: str
    artifact: str
    version: str
    family: str
    classifier: str = ""

    def __str__(self) -> str:
        return f"{self.organisation}:{self.artifact}:{self.version}"

    def among(self, jars: Iterable[Path]) -> Path | None:
        """Return the jar of this package, if it is there.

        Raises:
            SparkSetupError: there is a wrong version, or more than one version.
        """
        family = [jar for jar in jars if jar.name.startswith(self.family)]
        if self.organisation in ("org.apache.spark", "org.apache.hadoop"):
            whose = "Spark's" if self.organisation == "org.apache.spark" else "its Hadoop's"
            for jar in family:
                if jar.name != f"{self.artifact}-{self.version}.jar":
                    raise SparkSetupError(
                        f"{jar} is not of {whose} version {self.version}",
                        "remove it; the right one is fetched by itself, or by `kafkapy spark jars`",
                    )
        if len(family) > 1:
            raise SparkSetupError(
                f"{family[0]} and {family[1].name} are two versions of one", "remove one of them"
            )
        return family[0] if family else None


@dataclass(frozen=True)
class Spark:
    """The version of pyspark, and the folder of its Spark: SPARK_HOME, or else its own."""

    version: str
    home: Path

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])

    @property
    def hadoop(self) -> str:
        """The version of its Hadoop, which a connector of a store must have too."""
        for jar in self.jars():
            if named := re.fullmatch(r"hadoop-client-api-(\d.*)\.jar", jar.name):
                return named[1]
        raise SparkSetupError(
            f"{self.home / 'jars'} has no Hadoop", "install a Spark with Hadoop, such as pyspark's"
        )

    def jars(self) -> list[Path]:
        return sorted((self.home / "jars").glob("*.jar"))

    def packages(self, lakes: Sequence[str], stores: Sequence[str] = ()) -> list[Package]:
        """Return the packages that a session with these formats and stores needs besides Spark."""
        spark = "org.apache.spark"
        wanted = [
            Package(spark, "spark-sql-kafka-0-10_2.13", self.version, "spark-sql-kafka-0-10_"),
            Package(spark, "spark-avro_2.13", self.version, "spark-avro_"),
        ]
        if "delta" in lakes:
            version = self._lake_version("Delta", _DELTA)
            wanted.append(Package("io.delta", f"delta-spark_{self.minor}_2.13", version, "delta-spark_"))
        if "iceberg" in lakes:
            version = self._lake_version("Iceberg", _ICEBERG)
            artifact = f"iceberg-spark-runtime-{self.minor}_2.13"
            wanted.append(Package("org.apache.iceberg", artifact, version, "iceberg-spark-runtime-"))
        if "s3a" in stores:
            wanted.append(Package("org.apache.hadoop", STORES["s3a"], self.hadoop, "hadoop-aws-"))
        if "gs" in stores:
            # The jar without a classifier takes its Guava from Spark, whose version is too old for it.
            google = "com.google.cloud.bigdataoss"
            wanted.append(Package(google, STORES["gs"], _GCS, "gcs-connector-", "shaded"))
        return wanted

    def lakes(self) -> list[str]:
        """Return the lake formats that have jars for this version."""
        found = []
        for lake in LAKES:
            with contextlib.suppress(SparkSetupError):
                self.packages([lake])
                found.append(lake)
        return found

    def _lake_version(self, lake: str, versions: dict[str, str]) -> str:
        if self.minor not in versions:
            raise SparkSetupError(
                f"no jar of {lake} is known for Spark {self.minor}",
                f"{PYSPARK}, or put such a jar into {self.home / 'jars'}",
            )
        return versions[self.minor]


def find_spark() -> Spark:
    """Return the Spark that pyspark starts.

    Raises:
        SparkSetupError: there is none, or its version is not supported.
    """
    found = importlib.util.find_spec("pyspark")
    if found is None or found.loader is None or not found.submodule_search_locations:
        raise SparkSetupError("pyspark is not installed", PYSPARK)
    package = Path(found.submodule_search_locations[0])
    # Read by the loader, since spark-submit gives its programs pyspark as a zip file.
    source: bytes = found.loader.get_data(str(package / "version.py"))  # type: ignore[attr-defined]
    written = re.search(r"__version__[^=]*=\s*[\x22\x27]([^\x22\x27]+)", source.decode())
    version = written[1] if written else "unknown"
    if not re.fullmatch(r"4\.\d+\.\d+", version):
        raise SparkSetupError(f"pyspark {version} will not do", PYSPARK)
    home = Path(os.environ.get("SPARK_HOME") or package)
    spark = Spark(version, home)
    if home != package:
        core = [jar.name for jar in spark.jars() if jar.name.startswith("spark-core_")]
        if not core:
            raise SparkSetupError(f"SPARK_HOME={home} is not a Spark installation", "correct it or unset it")
        if not core[0].endswith(f"-{version}.jar"):
            other = core[0].removesuffix(".jar").rpartition("-")[2]
            raise SparkSetupError(
                f"SPARK_HOME={home} is Spark {other} and pyspark is {version}",
                f"unset SPARK_HOME, or pip install 'pyspark=={other}'",
            )
    return spark


def find_java() -> tuple[Path, int]:
    """Return the `java` that Spark will run, and its major version.

    Raises:
        SparkSetupError: it is missing, does not run, or its version is not supported.
    """
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise SparkSetupError(f"JAVA_HOME={home} has no bin/java", "correct it or unset it")
    elif found := shutil.which("java"):
        java = Path(found)
    else:
        raise SparkSetupError("Java is missing", _JAVA)
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise SparkSetupError(f"{java} does not run ({error})", _JAVA) from None
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    major = int(version[1]) if version else 0
    if major not in JAVA_VERSIONS:
        raise SparkSetupError(f"{java} is Java {major or 'of an unknown version'}", _JAVA)
    return java, major
