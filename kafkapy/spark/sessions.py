"""A Spark session that reads topics and writes tables, made the same way everywhere.

    spark = kafkapy.spark.session("delta")

Most settings are fixed when the JVM starts: the jars, the SQL extensions, the workers' Python, the logging.
So the machine is checked first. If a session already runs, it is used if it has all that is asked for;
otherwise the error says what it lacks.

These settings are set; `conf` overrides them:

    spark.sql.session.timeZone         UTC, so that day(timestamp) is the same day on every machine
    spark.sql.extensions, .catalog.*   the classes of the lake formats
    spark.hadoop.fs.gs.impl and its    the classes of Google's store
    AbstractFileSystem
    spark.sql.shuffle.partitions       for a local master twice its cores: Spark's default of 200 makes tiny
                                       tasks there
    …delta.snapshotPartitions          for a local master its cores, not 50: a commit reads the last snapshot,
                                       and a MERGE into a small table took 5 s instead of 30 on busy cores
    spark.driver.defaultJavaOptions    log4j2.properties beside this file; Spark's default logs warnings
    spark.*.defaultJavaOptions         no Avro string of more than 100 MB: a damaged length could end the JVM
    spark.ui.showConsoleProgress       false: the progress bar would be drawn into the caller's output
    spark.redaction.regex              the secrets that Spark's outputs hide (spark/secret_names.py)
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kafkapy.spark.checks import as_lakes, as_stores, check_setup, jars_folder
from kafkapy.spark.gateway import end_jvm, launch
from kafkapy.spark.installation import STORES, Spark, find_spark
from kafkapy.spark.jars import IVY_SETTINGS, default_cache, find_jars
from kafkapy.spark.log_source import register
from kafkapy.spark.secret_names import REDACTED, has_secret, is_secret
from kafkapy.spark.setup_error import SparkSetupError
from kafkapy.spark.unpacked_home import from_unpacked_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_LOG4J = Path(__file__).with_name("log4j2.properties")
_EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
_DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
# BinaryDecoder allocates as many bytes as a length declares, before it checks that the data has them.
_AVRO_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{kind}.maxLength={100 << 20}" for kind in ("bytes", "string")
)
_STORES = {
    "s3a": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "gs": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
}
_GOOGLE_CONTEXT = "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS"
_DEFAULTS = "spark-defaults.conf"
_CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_AVRO = "org.apache.spark.sql.avro.AvroDataToCatalyst"


def session(
    lake: str | Sequence[str] | None = None,
    *,
    master: str | None = None,
    app_name: str = "kafkapy",
    jars: str | Path | None = None,
    conf: Mapping[str, str] | None = None,
    store: str | None = None,
) -> SparkSession:
    """Return a session with the Kafka connector, spark-avro, `kafkapy-log` and lake formats.

    `lake` is "delta", "iceberg", several of them, or None. Without `master` Spark's own choice is used:
    spark-submit's, spark-defaults.conf's, else local[*]. `jars` is a folder that `kafkapy spark jars` filled,
    by default KAFKAPY_SPARK_JARS; without one the jars are fetched once and kept. `store` is "s3a" or "gs"
    for tables in S3 or in Google's store, with its Hadoop connector.

    Raises:
        SparkSetupError: Spark cannot run here, or the session that runs lacks something.
    """
    lakes, stores, settings = as_lakes(lake), as_stores(store), dict(conf or {})
    if master is not None:
        settings["spark.master"] = master
    spark = find_spark()
    running = _running()
    if running is None:
        if not submitted():
            check_setup(lakes, jars, store)
        running = _start(spark, lakes, stores, app_name, jars_folder(jars), settings)
    else:
        _adjust(running, settings)
    require(running, lakes, store)
    register(running)
    return running


@contextlib.contextmanager
def brief_session(lake: str | None) -> Iterator[SparkSession]:
    """Yield the session that runs, or one for a few questions, which ends with its JVM.

    It runs on this machine alone, with Spark's own settings (`defaults_file`) and the format `lake`; None is
    all formats that this Spark has.

    Raises:
        SparkSetupError: Spark cannot run here.
    """
    if (running := _running()) is not None:
        yield running
        return
    logger.info("Starting Spark to ask a catalog")
    lakes = find_spark().lakes() if lake is None else [lake]
    # What spark-submit has started serves the program, and has its master.
    started = session(lakes, master=None if submitted() else "local[1]", app_name="kafkapy catalog")
    try:
        yield started
    finally:
        if not submitted():
            started.stop()
            end_jvm()


def start_jvm(conf: Mapping[str, str], store: str | None) -> None:
    """Start a JVM without a session: with the jars that one would have, but at once."""
    from pyspark import SparkContext

    spark, settings = find_spark(), dict(conf)
    if submitted():
        SparkContext._ensure_initialized()
        return
    check_setup((), None, store)
    settings = {**_defaults(spark, (), as_stores(store), "local"), **settings}
    _launch(settings | _jars(spark, (), as_stores(store), jars_folder(None), settings))


def _running() -> SparkSession | None:
    """Return the session of this process, whichever thread created it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate() if SparkContext._active_spark_context else None


def submitted() -> bool:
    """Return whether spark-submit has started the JVM with its jars."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _start(
    spark: Spark,
    lakes: Sequence[str],
    stores: Sequence[str],
    app_name: str,
    folder: Path | None,
    settings: dict[str, str],
) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    master = settings.get("spark.master") or _default_master(spark)
    if master.startswith("sc://") or os.environ.get("SPARK_REMOTE"):
        raise SparkSetupError(
            "a Spark Connect server runs with jars of its own", "name its cluster's master instead"
        )
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # Spark would use the address of a network card, and a firewall could keep its workers from it.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {"spark.app.name": app_name, **_defaults(spark, lakes, stores, master), **settings}
    if not submitted():
        settings |= _jars(spark, lakes, stores, folder, settings)
    try:
        if not submitted():
            workers_python = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
            with from_unpacked_home(spark, workers_python if master.startswith("local") else None):
                _launch(settings)
            SparkContext(conf=SparkConf().setAll(list(settings.items())))
        started: SparkSession = SparkSession.builder.config(map=settings).getOrCreate()
    except (Py4JError, PySparkException) as error:
        reason = _reason(error)
        if context := SparkContext._active_spark_context:
            context.stop()
        raise SparkSetupError(
            f"Spark does not start with master {master} ({reason})", "correct the settings"
        ) from None
    return started


def _launch(settings: Mapping[str, str]) -> None:
    """Start the JVM, in place of one that an earlier session has left."""
    from pyspark import SparkConf, SparkContext

    end_jvm()
    # Every user of the machine can read the JVM's command line, which has these settings.
    public = [(name, value) for name, value in settings.items() if not _is_secret(name, value)]
    SparkContext._ensure_initialized(gateway=launch(SparkConf().setAll(public)))


def _is_secret(name: str, value: str) -> bool:
    # What the JVM itself is started with, as spark.driver.extraJavaOptions, would have no effect later.
    return is_secret(name) or (name.startswith(("spark.sql.", "spark.hadoop.")) and has_secret(value))


def _reason(error: Exception) -> str:
    """Return the first line of Spark's message, without the name of the call that Python adds."""
    thrown = getattr(error, "java_exception", None)
    told = str(error if thrown is None else thrown.getMessage() or thrown.getClass().getName())
    if "stopped SparkContext" in told:  # the cause was logged
        return "no cluster answers there"
    return told.strip().partition("\n")[0]


def _defaults(spark: Spark, lakes: Sequence[str], stores: Sequence[str], master: str) -> dict[str, str]:
    defaults = {
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": REDACTED,
    }
    if "gs" in stores:  # which Hadoop's own defaults leave out
        defaults["spark.hadoop.fs.gs.impl"] = _STORES["gs"]
        defaults["spark.hadoop.fs.AbstractFileSystem.gs.impl"] = _GOOGLE_CONTEXT
    if lakes:
        defaults["spark.sql.extensions"] = ",".join(_EXTENSIONS[lake] for lake in lakes)
    if "delta" in lakes:
        defaults["spark.sql.catalog.spark_catalog"] = _DELTA_CATALOG
    if master.startswith("local"):
        defaults["spark.sql.shuffle.partitions"] = str(2 * _cores(master))
        defaults["spark.databricks.delta.snapshotPartitions"] = str(_cores(master))
    # Not extraJavaOptions, which spark-defaults.conf may set and which come after these.
    defaults["spark.executor.defaultJavaOptions"] = _AVRO_LIMITS
    defaults["spark.driver.defaultJavaOptions"] = _AVRO_LIMITS
    if not (_conf_folder(spark) / "log4j2.properties").exists():
        defaults["spark.driver.defaultJavaOptions"] += f" -Dlog4j2.configurationFile={_LOG4J.as_uri()}"
    return defaults


def _jars(
    spark: Spark,
    lakes: Sequence[str],
    stores: Sequence[str],
    folder: Path | None,
    settings: Mapping[str, str],
) -> dict[str, str]:
    """Return `spark.jars` with the jars that are not installed; Spark's settings for Ivy apply."""

    def given(name: str) -> str | None:
        return settings.get(name) or _written(spark, name)

    cache = Path(given("spark.jars.ivy") or default_cache())
    ivy_settings = Path(given("spark.jars.ivySettings") or IVY_SETTINGS)
    own = f"{given('spark.jars')} {given('spark.jars.packages')}"
    stores = [store for store in stores if STORES[store] not in own]
    found = [str(jar) for jar in find_jars(spark, lakes, folder, cache, ivy_settings, stores)]
    if others := given("spark.jars"):
        found.insert(0, others)
    return {"spark.jars": ",".join(found)} if found else {}


def _default_master(spark: Spark) -> str:
    """Return Spark's default: from spark-submit's arguments, spark-defaults.conf, or local[*]."""
    arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    for argument, value in itertools.pairwise(arguments):
        if argument == "--master":
            return value
    return _written(spark, "spark.master") or "local[*]"


def _written(spark: Spark, name: str) -> str | None:
    """Return the value of a setting in spark-defaults.conf."""
    try:
        written = (_conf_folder(spark) / _DEFAULTS).read_text()
    except OSError:
        return None
    found = re.search(rf"^\s*{re.escape(name)}[\s=:]+(\S+)", written, re.MULTILINE)
    return found[1] if found else None


def defaults_file() -> Path:
    """Return the file in which Spark looks for settings that it is not given."""
    return _conf_folder(find_spark()) / _DEFAULTS


def _conf_folder(spark: Spark) -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or spark.home / "conf")


def _cores(master: str) -> int:
    named = re.match(r"local\[(\d+)", master)
    return int(named[1]) if named else os.cpu_count() or 1 if "[" in master else 1


def _adjust(running: SparkSession, settings: Mapping[str, str]) -> None:
    """Set these settings in a running session.

    Raises:
        SparkSetupError: a setting differs and can no longer be changed.
    """
    from pyspark.errors import PySparkException

    for name, value in settings.items():
        current = running.conf.get(name, None)
        if current == value or (name == "spark.jars" and value in (current or "")):
            continue
        try:
            if not name.startswith("spark.sql."):
                raise PySparkException("fixed when the context starts")
            running.conf.set(name, value)
        except PySparkException:
            hidden = _is_secret(name, value) or _is_secret(name, current or "")
            differing = f"another {name}" if hidden else f"{name}={current}, not {value}"
            raise SparkSetupError(
                f"a Spark session already runs with {differing}",
                "stop it first (spark.stop()), or leave the setting out",
            ) from None


def require(running: SparkSession, lake: str | Sequence[str] | None = None, store: str | None = None) -> None:
    """Check a session that somebody else may have started.

    Raises:
        SparkSetupError: it lacks jars or extensions, is stopped, or is one of Spark Connect.
    """
    from py4j.protocol import Py4JJavaError

    lakes, stores = as_lakes(lake), as_stores(store)
    arguments = list(map(repr, [list(lakes)] if len(lakes) > 1 else lakes))
    make = f"kafkapy.spark.session({', '.join(arguments + [f'store={one!r}' for one in stores])})"
    if not hasattr(running, "_jsparkSession"):
        raise SparkSetupError(
            "this is a session of Spark Connect, which reaches no JVM",
            f"stop it (spark.stop()), and use {make}",
        )
    if running.sparkContext._jsc is None:
        raise SparkSetupError("this Spark session is stopped", f"make another with {make}")
    loader = running._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    lacking = [
        lake for lake in lakes if _EXTENSIONS[lake] not in running.conf.get("spark.sql.extensions", "")
    ]
    classes = {"the Kafka connector": _CONNECTOR, "spark-avro": _AVRO}
    classes |= {lake: _EXTENSIONS[lake] for lake in lakes}
    classes |= {f"Hadoop's connector of {store}": _STORES[store] for store in stores}
    for name, of_it in classes.items():
        try:
            loader.loadClass(of_it)
        except Py4JJavaError:
            lacking.append(name)
    if lacking:
        if submitted():
            packages = find_spark().packages(lakes, stores)
            remedy = f"spark-submit --packages {','.join(map(str, packages))}"
            if any(package.classifier for package in packages):  # which --packages cannot name
                options = [f"--lake {lake}" for lake in lakes] + [f"--store {store}" for store in stores]
                remedy = (
                    f"`kafkapy spark jars --to DIR {' '.join(options)}`, then spark-submit --jars DIR/..."
                )
        else:
            remedy = f"stop it (spark.stop()) before {make}"
        raise SparkSetupError(f"the running Spark lacks {' and '.join(dict.fromkeys(lacking))}", remedy)
