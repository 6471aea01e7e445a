"""An archive of the classes that a Spark session uses.

The next session starts with it in half the time.

The tests start some forty sessions in Java processes of their own. Java silently ignores an archive that does
not fit the class path (class data sharing, dynamic archives of Java 13 and later).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from interop.support.kafkapy_process import KafkapyProcess
from interop.support.locked import locked
from interop.support.maven import CACHE


def shared_classes() -> str:
    """The flags of a Java that uses the archive, which the first call makes."""
    import pyspark

    java = os.path.realpath(shutil.which("java") or "java")
    spark = Path(pyspark.__file__).parent
    made_by = Path(__file__).read_text()
    digest = hashlib.sha256(f"{java} {spark} {pyspark.__version__} {made_by}".encode()).hexdigest()[:16]
    archive = CACHE / "spark" / f"classes-{digest}.jsa"
    with locked(archive):
        if not archive.exists():
            _make(archive)
    return f"-XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds*=off"


def _make(archive: Path) -> None:
    """Run a session to its end, at which Java writes the archive."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder, archive.name)
        options = f"{os.environ['SPARK_SUBMIT_OPTS']} -XX:ArchiveClassesAtExit={made} -Xlog:cds*=off"
        # Its output ends when Java has ended, which is later than Python.
        subprocess.run(
            [sys.executable, "-m", "interop.spark.class_archive", folder],
            env={**os.environ, "SPARK_SUBMIT_OPTS": options},
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            check=True,
        )
        if made.exists():
            made.rename(archive)


def main(folder: str) -> None:
    """Run a pipeline into each kind of table, as most tests do."""
    from interop.spark.conftest import INTERPRETED, SMALL
    from interop.spark.kill_load import Load
    from interop.spark.kill_run import KillRun
    from kafkapy.pipeline import PipelineDefinition
    from kafkapy.pipeline.run.run import run
    from kafkapy.spark import session

    spark = session(["delta", "iceberg"], master="local[2]", conf=SMALL | INTERPRETED)
    with KafkapyProcess(Path(folder)) as broker:
        Load(broker.bootstrap_servers, ["events", "accounts"], at_once=1000, seed=1).end()
        for file in KillRun(Path(folder), broker, seed=1).files:
            run(PipelineDefinition.load(file), once=True, spark=spark)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
