"""A Spark installation and a Java made of files only, for tests that start no JVM."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kafkapy.spark.installation import Spark

VERSION = "4.0.0"
CONNECTOR = f"spark-sql-kafka-0-10_2.13-{VERSION}.jar"
AVRO = f"spark-avro_2.13-{VERSION}.jar"
DELTA = "delta-spark_4.0_2.13-4.4.0.jar"


def make_jars(folder: Path, names: Iterable[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"jar")
    return folder


def make_spark(home: Path, *jars: str, version: str = VERSION) -> Spark:
    """A Spark with Ivy, Hadoop and these jars."""
    shipped = ["ivy-2.5.3.jar", "hadoop-client-api-3.4.1.jar", f"spark-core_2.13-{version}.jar"]
    make_jars(home / "jars", [*shipped, *jars])
    return Spark(version, home)


def make_java(home: Path, version: str = "17.0.15", ivy: str = "exit 1") -> Path:
    """Make a JAVA_HOME: `java -version` prints a version, and Ivy is the shell script `ivy`.

    The script gets Ivy's arguments in $module, $cache and $classpath.
    """
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"""#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}" 2025-04-15' >&2; exit 0; fi
while [ $# -gt 0 ]; do
    case "$1" in -ivy) module="$2" ;; -cache) cache="$2" ;; -cachepath) classpath="$2" ;; esac
    shift
done
{ivy}
"""
    )
    java.chmod(0o755)
    return home
