"""The one Spark session of a test run: it takes longer to start than most tests to run."""

from __future__ import annotations

import os
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interop.spark.class_archive import shared_classes
from interop.support.kafka_jars import TEMPORARY_FILES
from interop.support.maven import CACHE, java_missing
from kafkapy.pipeline.table_target import TableTarget
from kafkapy.spark.pack import pack, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS_CACHE = CACHE / "spark" / "ivy"
# A session lives for minutes and runs everything a few times: what C2 compiles costs more than it saves.
# Hadoop runs `chmod` for many of the files that it writes, and VFORK starts a program for a third less.
SHORT_LIFE = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djdk.lang.Process.launchMechanism=VFORK"
MEMORY = "-Xms1g -Xmn400m -XX:ReservedCodeCacheSize=240m"  # a heap that grows slowly is collected often
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{SHORT_LIFE} {MEMORY} {TEMPORARY_FILES}")
SMALL = {
    "spark.driver.memory": "1g",
    "spark.jars.ivy": str(JARS_CACHE),
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",  # which would plan a query of a few rows several times
    "spark.sql.ui.explainMode": "simple",  # each query is described for a page that nobody sees
    "spark.ui.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "2",  # of 50, each a task for each version of a table
}
# A query of a few rows is over before the code that Spark would write for it is compiled.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.fixture(scope="session", autouse=True)
def _starts_are_short() -> Iterator[None]:
    """Let the sessions of this process, and of those that it starts, use an archive of classes."""
    pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")
    if missing := java_missing():
        pytest.skip(missing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", f"{os.environ['SPARK_SUBMIT_OPTS']} {shared_classes()}")
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with both lake formats.

    A test that changes a setting of it puts it back.
    """
    import kafkapy.spark

    started = kafkapy.spark.session(["delta", "iceberg"], master="local[2]", conf=SMALL | INTERPRETED)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The settings that bring kafkapy to executors."""
    archive = tmp_path_factory.mktemp("packed") / "kafkapy-packages.tar.gz"
    pack(archive)
    return settings(archive)


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a driver whose executors have a Python without any package."""
    place = tmp_path_factory.mktemp("bare") / "python"
    venv.create(place, symlinks=True)
    return {"PYSPARK_PYTHON": str(place / "bin" / "python")}


@pytest.fixture(params=["delta", "iceberg", "parquet"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> TableTarget:
    """A table of each format, which does not exist yet."""
    return TableTarget(format=request.param, location=str(tmp_path / "or ders.v1"))
