"""Checks what a session needs on this machine, without starting Spark.

`doctor` checks everything and reports each problem. `check_setup` stops at the first problem that keeps a
session from starting.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from kafkapy.errors import UserError
from kafkapy.spark.installation import LAKES, STORES, find_java, find_spark
from kafkapy.spark.jars import cached, default_cache, find_jars, size
from kafkapy.spark.setup_error import SparkSetupError

_ANSWER_SECONDS = 5.0
_NEEDED_MEMORY = 2_000  # MB: 1 GB for a driver's heap, the rest for Java and Python themselves


@dataclass(frozen=True)
class Check:
    """The result of one check.

    `remedy` is empty if there is no problem. If it is `ok` all the same, the first session carries it out.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def as_lakes(lake: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the lake formats of a `lake` argument, in the order of LAKES.

    Raises:
        SparkSetupError: it names another format.
    """
    named = [] if lake is None else [lake] if isinstance(lake, str) else list(lake)
    for name in named:
        if name not in LAKES:
            raise SparkSetupError(f"{name!r} is not a supported lake format", f"use {' or '.join(LAKES)}")
    return tuple(name for name in LAKES if name in named)


def as_stores(store: str | None) -> tuple[str, ...]:
    """Return the store of a URI's scheme as a sequence.

    It is empty if no jar is known for the store.
    """
    return tuple(name for name in STORES if name == store)


def jars_folder(jars: str | Path | None) -> Path | None:
    """Return the folder to take jars from: the argument, else KAFKAPY_SPARK_JARS."""
    named = jars or os.environ.get("KAFKAPY_SPARK_JARS")
    if not named:
        return None
    folder = Path(named).expanduser().absolute()
    if not folder.is_dir():
        raise SparkSetupError(
            f"the folder of jars {folder} is not there", f"`kafkapy spark jars --to {folder}`"
        )
    return folder


def check_setup(
    lake: str | Sequence[str] | None = None, jars: str | Path | None = None, store: str | None = None
) -> None:
    """Raise SparkSetupError if a session with these formats and this store cannot start here."""
    lakes, stores = as_lakes(lake), as_stores(store)
    _java()
    spark = find_spark()
    _worker_python()
    _libraries()
    folder = jars_folder(jars)
    if folder:
        find_jars(spark, lakes, folder, default_cache(), stores=stores)
    else:
        spark.packages(lakes, stores)


def doctor(
    lake: str | Sequence[str] | None = None, *, bootstrap: str | None = None, stores: Sequence[str] = ()
) -> list[Check]:
    """Check everything that a session with these formats and stores needs, and the broker."""
    lakes = as_lakes(lake)
    looks: dict[str, Callable[[], str]] = {
        "Java": _java,
        "pyspark": _pyspark,
        "workers' Python": _worker_python,
        "Python libraries": _libraries,
        "Kafka connector": lambda: _jars(()),
        **{lake: (lambda lake=lake: _jars((lake,))) for lake in lakes},  # type: ignore[misc]
        **{store: (lambda store=store: _jars((), (store,))) for store in stores},  # type: ignore[misc]
        "memory": _memory,
    }
    if bootstrap is not None:
        looks["broker"] = lambda: _broker(bootstrap)
    return [_look(name, look) for name, look in looks.items()]


class _NotFetchedError(SparkSetupError):
    """Jars are not here yet, and the first session fetches them."""


def _look(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, True, look())
    except SparkSetupError as error:
        if isinstance(error, _NotFetchedError):
            return Check(name, True, error.problem, error.remedy)
        return Check(name, False, error.problem, error.remedy)
    except UserError as error:
        return Check(name, False, str(error))


def _java() -> str:
    java, major = find_java()
    return f"{major} ({java}{', from JAVA_HOME' if os.environ.get('JAVA_HOME') else ''})"


def _pyspark() -> str:
    spark = find_spark()
    lacking = [lake for lake in LAKES if lake not in spark.lakes()]
    home = f"{spark.home}{', from SPARK_HOME' if os.environ.get('SPARK_HOME') else ''}"
    return f"{spark.version} ({home})" + (f", too new for {' and '.join(lacking)}" if lacking else "")


def _worker_python() -> str:
    """Check that the workers' Python has the driver's minor version; else every function fails."""
    named = os.environ.get("PYSPARK_PYTHON")
    if not named or named == sys.executable:
        return sys.executable
    try:
        command = [named, "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        raise SparkSetupError(f"PYSPARK_PYTHON={named} does not run", "correct it or unset it") from None
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if told != own:
        raise SparkSetupError(
            f"PYSPARK_PYTHON={named} is Python {told} and this is {own}", f"unset it, or name a Python {own}"
        )
    return f"{named} (PYSPARK_PYTHON)"


def _libraries() -> str:
    """Check the libraries of Spark itself (pyarrow) and of the code that runs on the executors."""
    found, missing = [], []
    for name, distribution in (
        ("pyarrow", "pyarrow"),
        ("numpy", "numpy"),
        ("confluent_kafka", "confluent-kafka"),
    ):
        if importlib.util.find_spec(name) is None:
            missing.append(distribution)
            continue
        try:
            found.append(f"{distribution} {version(distribution)}")
        except PackageNotFoundError:
            found.append(distribution)
    if missing:
        raise SparkSetupError(
            f"{' and '.join(missing)} not installed", "pip install '.[spark]' in a checkout"
        )
    return ", ".join(found)


def _jars(lakes: Sequence[str], stores: Sequence[str] = ()) -> str:
    """Return where the jars of the connector, of a lake format or of a store come from."""
    spark = find_spark()
    base = spark.packages(())
    wanted = [package for package in spark.packages(lakes, stores) if package not in base] or base
    if folder := jars_folder(None):
        find_jars(spark, lakes, folder, default_cache(), stores=stores)
        return f"{wanted[0]} from {folder}"
    shipped, told, absent = spark.jars(), [], []
    for package in wanted:
        if found := package.among(shipped):
            told.append(f"{package} installed as {found}")
        elif jars := cached(package, default_cache()):
            told.append(f"{package} fetched ({size(jars)})")
        else:
            absent.append(str(package))
    if absent:
        raise _NotFetchedError(
            f"not here: {'; '.join(absent)}",
            "the first session fetches it; for a machine without a network: kafkapy spark jars --to DIR"
            + "".join(f" --lake {lake}" for lake in lakes)
            + "".join(f" --store {store}" for store in stores),
        )
    return "; ".join(told)


def _memory() -> str:
    pages = os.sysconf("SC_AVPHYS_PAGES") if "SC_AVPHYS_PAGES" in os.sysconf_names else 0
    free = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    with contextlib.suppress(OSError):  # on Linux this includes the memory that caches would free
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024 / 1e6
    if 0 < free < _NEEDED_MEMORY:
        raise SparkSetupError(
            f"{free:.0f} MB free, a driver needs {_NEEDED_MEMORY}",
            "end other programs, or give the driver less by the setting spark.driver.memory",
        )
    return f"{free:.0f} MB free" if free else "unknown"


def _broker(bootstrap: str) -> str:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient

    reasons = [""]

    def remember(error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            reasons.append(f" ({re.sub(r' [(]after [0-9]+ms in state [A-Z_]+[)]', '', error.str())})")

    # Failures are told here; librdkafka would log them too.
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": remember})
    try:
        topics = admin.list_topics(timeout=_ANSWER_SECONDS).topics
    except KafkaException:
        admin.poll(0)
        raise UserError(
            f"cannot reach a Kafka broker at {bootstrap}{reasons[-1]}; start it, or name another (bootstrap)"
        ) from None
    return f"{bootstrap} answers, {len(topics)} topics"
