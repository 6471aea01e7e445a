"""Sessions as users make them.

Lake formats by path, jars without a network, a quiet terminal, and refusals.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from interop.conftest import MakeTopic
from interop.spark.conftest import JARS_CACHE, SMALL
from kafkapy.spark import SparkSetupError, read_topic, session
from kafkapy.spark.installation import find_spark
from kafkapy.spark.jars import fetch_to

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[2]
# Java's own settings for a proxy, where nobody listens.
NO_NETWORK = " ".join(
    f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort=9 -D{scheme}.nonProxyHosts="
    for scheme in ("http", "https")
)


def run(program: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A Python program of a user who has never fetched a jar and has no network."""
    told = {**os.environ, "XDG_CACHE_HOME": str(home), "HOME": str(home), "JDK_JAVA_OPTIONS": NO_NETWORK}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command,
        cwd=CHECKOUT,
        env=told | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_workers_import_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    def places(_: object) -> Iterator[str]:
        import pyspark

        yield pyspark.__file__

    found = spark.sparkContext.parallelize([0], 1).mapPartitions(places).collect()
    assert found == [str(find_spark().home / "__init__.py")]


def test_delta_tables_are_merged_into_by_path(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).selectExpr("id", "'old' AS text").write.format("delta").save(str(tmp_path))
    spark.range(2, 5).selectExpr("id", "'new' AS text").createOrReplaceTempView("changes")
    spark.sql(
        f"MERGE INTO delta.`{tmp_path}` t USING changes c ON t.id = c.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    rows = spark.read.format("delta").load(str(tmp_path)).orderBy("id").collect()
    assert [row.text for row in rows] == ["old", "old", "new", "new", "new"]


def test_iceberg_tables_are_merged_into_through_a_catalog_named_at_run_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    catalog = "spark.sql.catalog.at_run_time"
    spark.conf.set(f"{catalog}.type", "hadoop")
    spark.conf.set(f"{catalog}.warehouse", str(tmp_path))
    spark.conf.set(f"{catalog}.cache-enabled", "false")
    spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    spark.range(3).selectExpr("id", "'old' AS text").writeTo("at_run_time.events").create()
    spark.range(2, 5).selectExpr("id", "'new' AS text").createOrReplaceTempView("changes")
    spark.sql(
        "MERGE INTO at_run_time.events t USING changes c ON t.id = c.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    rows = spark.read.format("iceberg").load(str(tmp_path / "events")).orderBy("id").collect()
    assert [row.text for row in rows] == ["old", "old", "new", "new", "new"]


def test_a_topic_is_read_with_keys_headers_and_positions(
    spark: SparkSession, bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(20):
        producer.produce(
            topic,
            str(number),
            f"key-{number}",
            number % 2,
            timestamp=1_000 + number,
            headers=[("n", b"%d" % number)],
        )
    producer.flush()

    def values(**positions: object) -> list[int]:
        rows = read_topic(spark, topic, bootstrap=bootstrap_servers, **positions)  # type: ignore[arg-type]
        return sorted(int(row.value) for row in rows.select("value").collect())

    (row,) = read_topic(spark, topic, bootstrap=bootstrap_servers).where("key = 'key-7'").collect()
    assert (bytes(row.value), row.partition, row.offset) == (b"7", 1, 3)
    assert [(header.key, bytes(header.value)) for header in row.headers] == [("n", b"7")]
    assert row.timestamp.timestamp() == 1.007
    assert values() == list(range(20))
    assert values(starting={0: 8, 1: 10}, ending={0: 9, 1: -1}) == [16]
    assert values(starting=1_017, ending=1_019) == [17, 18]
    assert values(starting="2026-01-01") == []


def test_a_running_session_is_taken_and_one_that_cannot_be_is_refused(spark: SparkSession) -> None:
    assert session("delta", conf=SMALL) is spark
    with pytest.raises(SparkSetupError, match=r"runs with spark\.driver\.memory=1g, not 3g: stop it first"):
        session(conf={"spark.driver.memory": "3g"})
    with pytest.raises(SparkSetupError, match=r"runs with spark\.master=local\[2\], not local\[7\]"):
        session(master="local[7]")


def test_a_folder_of_jars_is_enough_without_a_network_and_nothing_is_said(tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    fetch_to(jars, find_spark(), ["delta"], JARS_CACHE)
    program = """
import kafkapy.spark, pathlib
secret = {"spark.hadoop.fs.s3a.secret.key": "hunter-2"}
small = {"spark.ui.enabled": "false", "spark.driver.memory": "1g"}
spark = kafkapy.spark.session("delta", master="local[1]", conf=small | secret)
started_with = pathlib.Path("/proc", str(spark.sparkContext._gateway.proc.pid), "cmdline").read_text()
print("spark.driver.memory" in started_with, "hunter-2" in started_with)
print(spark.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.secret.key"))
spark.range(5).write.format("delta").save("%s")
print(spark.read.format("delta").load("%s").count())
for asked in ({"lake": "iceberg"}, {"conf": {"spark.hadoop.fs.s3a.secret.key": "hunter-3"}}):
    try:
        kafkapy.spark.session(**asked)
    except kafkapy.spark.SparkSetupError as error:
        print(error)
spark.stop()
"""
    table = tmp_path / "table"
    ended = run(program % (table, table), tmp_path / "home", KAFKAPY_SPARK_JARS=str(jars))
    assert ended.stdout.splitlines() == [
        "True False",
        "hunter-2",
        "5",
        "the running Spark lacks iceberg: stop it (spark.stop()) before kafkapy.spark.session('iceberg')",
        "a Spark session already runs with another spark.hadoop.fs.s3a.secret.key: stop it first "
        "(spark.stop()), or leave the setting out",
    ]
    # Java itself announces the options in its environment.
    assert [line for line in ended.stderr.splitlines() if "JDK_JAVA_OPTIONS" not in line] == []
    assert ended.returncode == 0


def test_a_start_that_takes_longer_than_to_the_first_heartbeat_says_nothing(tmp_path: Path) -> None:
    """Spark's executor then reports to a driver that does not know its block manager yet."""
    small = {**SMALL, "spark.executor.heartbeatInterval": "20ms"}
    small["spark.executor.heartbeat.maxFailures"] = "1000000"
    ended = run(
        f"""
import kafkapy.spark
spark = kafkapy.spark.session(master="local[1]", conf={small!r})
print(spark.range(5).count())
spark.stop()
""",
        tmp_path,
    )
    assert ended.stdout.splitlines() == ["5"], ended.stderr
    assert [line for line in ended.stderr.splitlines() if "JDK_JAVA_OPTIONS" not in line] == []


def test_without_jars_and_without_a_network_the_remedy_is_told_before_spark_starts(tmp_path: Path) -> None:
    ended = run("import kafkapy.spark; kafkapy.spark.session()", tmp_path)
    assert ended.stderr.splitlines()[-1] == (
        "kafkapy.spark.setup_error.SparkSetupError: org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 "
        "cannot be fetched, Maven Central does not answer: where there is a network run "
        "`kafkapy spark jars --to DIR`, and let KAFKAPY_SPARK_JARS=DIR name it here"
    )
