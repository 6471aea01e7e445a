"""The jars that a session needs besides Spark's own, and where they come from.

The jars of a package are looked for in these places, in order:

    installed   the `jars` folder of the Spark that pyspark starts
    folder      a folder that `kafkapy spark jars --to DIR` has filled; if one is named, nothing is fetched
    fetched     by Ivy, whose jar Spark ships, into a cache; later sessions need no network

Ivy runs here and not inside Spark (`spark.jars.packages`). Spark would resolve at each start, print a page of
output, and report an unreachable repository with a stack trace. Jars that pyspark ships are not fetched: of
the Kafka connector's 11 jars with 63 MB, 4 jars with 10 MB remain.

The cache is Spark's `spark.jars.ivy` if that is set, else `$XDG_CACHE_HOME/kafkapy/ivy`:

    cache/                            Ivy's own cache: the jars and their metadata
    <artifact>-<version>.classpath    the paths of the jars of one package, one a line; it is renamed last

Crash story: a package counts as fetched if its classpath file and every jar in it exist; otherwise it is
fetched again. A lock file prevents two fetches at the same time.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kafkapy.spark.installation import LAKES, PYSPARK, STORES, Package, Spark, find_java
from kafkapy.spark.setup_error import SparkSetupError

logger = logging.getLogger(__name__)

IVY_SETTINGS = Path(__file__).with_name("ivysettings.xml")

_OFFLINE = (
    "where there is a network run `kafkapy spark jars --to DIR`, and let KAFKAPY_SPARK_JARS=DIR name it here"
)


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kafkapy", "ivy")


def find_jars(
    spark: Spark,
    lakes: Sequence[str],
    folder: Path | None,
    cache: Path,
    settings: Path = IVY_SETTINGS,
    stores: Sequence[str] = (),
) -> list[Path]:
    """Return the jars for a session with these formats and stores, and fetch what is missing.

    Raises:
        SparkSetupError: a package is in none of the places.
    """
    shipped = spark.jars()
    missing = [package for package in spark.packages(lakes, stores) if not package.among(shipped)]
    if folder is not None:
        return _in_folder(missing, folder)
    jars: list[Path] = []
    for package in missing:
        jars += cached(package, cache) or _fetch_into_cache(package, spark, cache, settings)
    return list(dict.fromkeys(jars))


def _in_folder(packages: Sequence[Package], folder: Path) -> list[Path]:
    jars = sorted(folder.glob("*.jar"))
    absent = [package.artifact for package in packages if not package.among(jars)]
    if absent:
        options = "".join(f" --lake {lake}" for lake in LAKES if any(lake in one for one in absent))
        options += "".join(f" --store {store}" for store, artifact in STORES.items() if artifact in absent)
        raise SparkSetupError(
            f"{folder} holds no {' and no '.join(absent)}", f"`kafkapy spark jars --to {folder}{options}`"
        )
    return jars if packages else []


def cached(package: Package, cache: Path) -> list[Path] | None:
    """Return the jars of the package if all of them are in the cache."""
    try:
        listed = _classpath_file(package, cache).read_text().splitlines()
    except OSError:
        return None
    jars = [Path(line) for line in listed]
    return jars if all(jar.is_file() for jar in jars) else None


def fetch_to(
    folder: Path, spark: Spark, lakes: Sequence[str], cache: Path, stores: Sequence[str] = ()
) -> list[Path]:
    """Copy every jar of these packages into `folder`, fetching what is not in the cache."""
    jars: list[Path] = []
    for package in spark.packages(lakes, stores):
        jars += cached(package, cache) or _fetch_into_cache(package, spark, cache, IVY_SETTINGS)
    copies = {folder / jar.name: jar for jar in jars}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for copy, jar in copies.items():
            partial = copy.with_suffix(".partial")
            shutil.copyfile(jar, partial)
            partial.replace(copy)
    except OSError as error:
        raise SparkSetupError(
            f"{folder} cannot be written ({error.strerror})", "name another folder"
        ) from None
    return list(copies)


def _classpath_file(package: Package, cache: Path) -> Path:
    return cache / f"{package.artifact}-{package.version}.classpath"


def _fetch_into_cache(package: Package, spark: Spark, cache: Path, settings: Path) -> list[Path]:
    with _locked(cache):
        if jars := cached(package, cache):  # another process has just fetched it
            return jars
        logger.info("Fetching %s from Maven Central into %s, once", package, cache)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            module, listing = Path(scratch, "ivy.xml"), Path(scratch, "classpath")
            module.write_text(_ivy_module(package, spark))
            _run_ivy(
                package, spark, ["-cache", cache / "cache", "-settings", settings, "-ivy", module], listing
            )
            jars = [Path(path) for path in listing.read_text().strip().split(os.pathsep)]
            listing.write_text("".join(f"{jar}\n" for jar in jars))
            listing.replace(_classpath_file(package, cache))
    return jars


def _run_ivy(package: Package, spark: Spark, options: list[str | Path], listing: Path) -> None:
    java, _ = find_java()
    ivy = next((jar for jar in spark.jars() if re.fullmatch(r"ivy-\d.*\.jar", jar.name)), None)
    if ivy is None:
        raise SparkSetupError(f"{spark.home / 'jars'} has no Ivy to fetch {package} with", _OFFLINE)
    command = [java, "-jar", ivy, "-warn", *options, "-confs", "default", "-cachepath", listing]
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if run.returncode == 0 and listing.exists():
        return
    told = run.stdout + run.stderr
    if re.search(r"UnknownHost|Connection|timed out|unreachable|Server access error", told, re.IGNORECASE):
        raise SparkSetupError(f"{package} cannot be fetched, Maven Central does not answer", _OFFLINE)
    if "not found" in told:
        raise SparkSetupError(f"{package} is not in Maven Central", PYSPARK)
    lines = [line.strip() for line in told.splitlines() if line.strip(" :\t")]
    raise SparkSetupError(f"{package} cannot be fetched ({(lines or ['Ivy ended'])[-1]})", _OFFLINE)


def _ivy_module(package: Package, spark: Spark) -> str:
    """Return an Ivy module that depends on the package and excludes the jars that Spark ships."""
    shipped = {name for jar in spark.jars() if (name := _artifact(jar))} - {package.artifact}
    excluded = "\n".join(f'    <exclude module="{artifact}"/>' for artifact in sorted(shipped))
    transitive, artifact = "true", ""
    if package.classifier:
        transitive = "false"
        artifact = f'<artifact name="{package.artifact}" type="jar" m:classifier="{package.classifier}"/>'
    return f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="kafkapy" module="{package.artifact}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="{package.organisation}" name="{package.artifact}" rev="{package.version}"
                conf="default->default" transitive="{transitive}">{artifact}</dependency>
{excluded}
  </dependencies>
</ivy-module>
"""


def _artifact(jar: Path) -> str | None:
    named = re.fullmatch(r"(.+?)-\d+[.\d].*\.jar", jar.name)
    return named[1] if named else None


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / ".lock").open("w")
    except OSError as error:
        raise SparkSetupError(
            f"{cache} cannot be written ({error.strerror})", "let XDG_CACHE_HOME name another folder"
        ) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def size(jars: Sequence[Path]) -> str:
    megabytes = sum(jar.stat().st_size for jar in jars) / 1e6
    return f"{len(jars)} jar{'' if len(jars) == 1 else 's'}, {megabytes:.1f} MB"
