"""A plugin of pytest: the installed PySpark stands for a checkout of Spark that was built.

PySpark's tests look for the connector's jar and its classpath where Maven leaves them in a checkout, import
each other as parts of the package, and ask `docker info` before they start a container. So SPARK_HOME is a
folder that has what the package has, and the connector beside it; the package finds the tests of the working
directory; and a program called docker says that all is well, which is true, as no container is needed.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from interop.support.maven import CACHE, Coordinates, copy_jars

VERSION: Final = "4.2.0"
"""Of the packages: the release whose connector is there, and that has what the tests import."""

_CONNECTOR: Final = "connector/kafka-0-10-sql"
_IN_SPARK: Final = (
    ("org.apache.hadoop", "hadoop-client-runtime"),
    ("org.apache.hadoop", "hadoop-client-api"),
)


def connector_jars() -> Path:
    """The folder with Spark's connector for Kafka; raises JarsUnavailableError."""
    connector = Coordinates("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION, _IN_SPARK)
    return copy_jars([connector], CACHE / "spark" / f"connector-{VERSION}")


def pytest_configure(config: pytest.Config) -> None:
    folder = tempfile.TemporaryDirectory()
    config.add_cleanup(folder.cleanup)
    home, programs = Path(folder.name, "spark"), Path(folder.name, "bin")
    _build(home)
    programs.mkdir()
    docker = programs / "docker"
    docker.write_text("#!/bin/sh\n")
    docker.chmod(0o755)
    os.environ["SPARK_HOME"] = str(home)
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    package = importlib.import_module("pyspark.sql")
    package.__path__.append(str(Path("python/pyspark/sql").resolve()))


def _build(home: Path) -> None:
    """Make a folder that is as a built checkout, for what the tests look for."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home.mkdir()
    for each in Path(spec.origin).parent.iterdir():
        (home / each.name).symlink_to(each)
    target = home / _CONNECTOR / "target"
    target.mkdir(parents=True)
    jars = sorted(connector_jars().glob("*.jar"))
    (connector,) = (each for each in jars if each.name.startswith("spark-sql-kafka-0-10_"))
    (target / connector.name).symlink_to(connector)
    (target / "classpath.txt").write_text(":".join(str(each) for each in jars if each != connector))
