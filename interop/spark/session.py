"""A local Spark session with Spark's Kafka connector, found once and kept.

The connector comes from the folder that SPARK_KAFKA_JARS names, else through `spark.jars.packages` into
`.cache/spark` of the checkout, resolved by `ivysettings.xml`. What pyspark ships already is excluded: 4 jars
and 10 MB are fetched instead of 11 and 63.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "spark"

_SHIPPED_BY_PYSPARK = (
    "com.google.code.findbugs:jsr305",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.lz4:lz4-java",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)


def start(name: str, *, cores: int = 2) -> SparkSession:
    """A session of this process, with the connector of this pyspark's own version."""
    import pyspark
    from pyspark.sql import SparkSession

    # Before the JVM starts: it passes them on to its Python workers and binds its ports.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.warehouse.dir", str(CACHE / "warehouse"))
    )
    folder = os.environ.get("SPARK_KAFKA_JARS")
    if folder:
        builder = builder.config("spark.jars", ",".join(map(str, Path(folder).glob("*.jar"))))
    else:
        connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
        builder = (
            builder.config("spark.jars.packages", connector)
            .config("spark.jars.excludes", ",".join(_SHIPPED_BY_PYSPARK))
            .config("spark.jars.ivySettings", str(HERE / "ivysettings.xml"))
            .config("spark.jars.ivy", str(CACHE / "ivy"))
        )
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
