"""Stores that Hadoop's file systems do not reach are refused in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkapy.errors import UserError
from kafkapy.pipeline.state import State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("location", "remedy"),
    [
        (
            "abfss://c@account.dfs.core.windows.net/orders",
            "packages=org.apache.hadoop:hadoop-azure:3",
        ),
        ("gs://bucket/orders", "kafkapy.spark.session(store='gs')"),
        ("dbfs:/orders", "it is there on Databricks' own clusters only"),
        ("s3://bucket/orders", "write s3a:"),
        ("nosuch://place/orders", "add the jar of its Hadoop file system by the setting spark.jars.packages"),
    ],
)
def test_a_missing_file_system_is_named_with_its_jar(
    location: str, remedy: str, capfd: pytest.CaptureFixture[str]
) -> None:
    scheme = location.partition(":")[0]
    with pytest.raises(UserError) as refused:
        _ = State(location).incarnation
    told = str(refused.value)
    assert told.startswith(f"Spark has no file system for {scheme}: here: ")
    assert remedy in told
    assert "\n" not in told
    assert "Exception" not in capfd.readouterr().err


def test_hdfs_is_reached_by_sparks_own_hadoop(spark: SparkSession) -> None:
    """No namenode is there, which takes Hadoop's client some seconds to believe."""
    spark.conf.set("ipc.client.connect.max.retries", "0")
    try:
        with pytest.raises(UserError) as refused:
            _ = State("hdfs://127.0.0.1:1/orders").incarnation
    finally:
        spark.conf.unset("ipc.client.connect.max.retries")
    told = str(refused.value)
    assert told.startswith("hdfs://127.0.0.1:1/orders/_kafkapy/incarnation.json: cannot be read: ")
    assert "Connection refused" in told
    assert "\n" not in told
