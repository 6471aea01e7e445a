"""A session of Spark Connect reads topics and segment files.

What needs a JVM is refused in one line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.spark.conftest import JARS_CACHE
from kafkapy.spark.installation import find_spark
from kafkapy.spark.jars import find_jars
from tests.servers.kafkapy_process import KafkapyProcess

pytest.importorskip("grpc", reason="grpcio is not installed (pip install 'pyspark[connect]')")

pytestmark = pytest.mark.slow
CHECKOUT = Path(__file__).resolve().parents[2]

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false").getOrCreate()
import kafkapy.spark
from kafkapy.pipeline import Pipeline
from kafkapy.spark.log_source import register

bootstrap, data, jars = sys.argv[1:]
said = []
def refused(what):
    try:
        what()
    except kafkapy.spark.SparkSetupError as error:
        said.append(str(error))

def topic():
    return kafkapy.spark.read_topic(spark, "orders", bootstrap=bootstrap)

refused(topic)
refused(kafkapy.spark.session)
pipeline = Pipeline("orders", bootstrap=bootstrap).to_parquet(data + "/table")
refused(lambda: pipeline.run(once=True, spark=spark))
register(spark)
log = spark.read.format("kafkapy-log").option("path", data).option("topics", "orders").load()
counts = [log.count()]
spark.addArtifacts(*jars.split(","))
counts.append(topic().count())
print(json.dumps([said, counts]))
"""


def test_reading_works_and_the_rest_is_refused(tmp_path: Path) -> None:
    spark = find_spark()
    jars = find_jars(spark, [], None, JARS_CACHE)
    with KafkapyProcess(tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(20):
            producer.produce("orders", b"%d" % number)
        assert producer.flush(30) == 0
        arguments = [broker.bootstrap_servers, str(broker.data), ",".join(map(str, jars))]
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments],
            cwd=CHECKOUT,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr[-3000:]
    said, counts = json.loads(ended.stdout.splitlines()[-1])
    refusal = "this is a session of Spark Connect, which reaches no JVM: stop it (spark.stop()), and use"
    assert said == [
        "this Spark session lacks the Kafka connector: start its Spark Connect server with "
        f"--packages org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}",
        f"{refusal} kafkapy.spark.session()",
        f"{refusal} kafkapy.spark.session()",
    ]
    assert counts == [20, 20]
