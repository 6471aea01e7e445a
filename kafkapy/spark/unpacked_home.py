"""A Spark home without pyspark's archive, from which workers start three times as quickly.

The JVM puts `$SPARK_HOME/python/lib/pyspark.zip` before all other folders of a Python worker. It has no
compiled modules, so each new worker compiles pyspark, and a forked one reads the archive's directory again. A
folder of links to all of pyspark but that archive makes workers import the pyspark that is installed.

The folder is in `$XDG_CACHE_HOME/kafkapy/spark`, and depends on where pyspark is. It is made beside its place
and then renamed, so that it is complete or not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import site
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafkapy.spark.installation import Spark
from kafkapy.spark.jars import default_cache

_LEFT_OUT: Final = "python"
"""The folder with the archive."""
_CONF: Final = "conf"
"""Spark's own configuration, which may be written later."""


@contextlib.contextmanager
def from_unpacked_home(spark: Spark, workers_python: str | None) -> Iterator[None]:
    """Let a JVM that is started now have this home, if it may.

    It may not if SPARK_HOME names another Spark, or if a worker's Python would not find this pyspark itself.
    """
    home = None
    if "SPARK_HOME" not in os.environ and workers_python == sys.executable and _is_found(spark.home.parent):
        home = unpacked_home(spark)
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def unpacked_home(spark: Spark) -> Path | None:
    """Return the folder for an installed pyspark; None if it cannot be made."""
    digest = hashlib.sha256(str(spark.home).encode()).hexdigest()[:12]
    home = default_cache().with_name("spark") / f"{spark.version}-{digest}"
    if (home / "bin").exists():
        return home
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=home.parent))
        for name in {_CONF, *os.listdir(spark.home)} - {_LEFT_OUT}:
            (made / name).symlink_to(spark.home / name)
        made.chmod(0o755)
        shutil.rmtree(home, ignore_errors=True)  # links to what has been removed
        with contextlib.suppress(OSError):  # another process was quicker
            made.rename(home)
        shutil.rmtree(made, ignore_errors=True)
    except OSError:
        return None
    return home if (home / "bin").exists() else None


def _is_found(folder: Path) -> bool:
    """Return whether a new Python imports from this folder."""
    own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return str(folder) in {*site.getsitepackages(), site.getusersitepackages(), *own}
