"""An archive of the classes that a Spark session uses.

The next session starts with it in half the time.

The tests start some forty sessions in Java processes of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from interop.support.class_archive import ClassArchive
from interop.support.maven import CACHE
from kafkapy.spark.installation import find_spark
from kafkapy.spark.unpacked_home import unpacked_home
from tests.servers.kafkapy_process import KafkapyProcess


def shared_classes() -> str:
    """The flags of a Java that uses the archive, which the first call makes."""
    spark, made_by = find_spark(), Path(__file__).read_text()
    archive = ClassArchive(CACHE / "spark", unpacked_home(spark), spark, made_by)
    archive.make(_run)
    return " ".join(archive.flags())


def _run(folder: Path, flags: tuple[str, ...]) -> None:
    """Run a session to its end."""
    # Its output ends when Java has ended, which is later than Python.
    done = subprocess.run(
        [sys.executable, "-m", "interop.spark.class_archive", str(folder)],
        env={**os.environ, "SPARK_SUBMIT_OPTS": " ".join((os.environ["SPARK_SUBMIT_OPTS"], *flags))},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-1000:])


def main(folder: str) -> None:
    """Run a pipeline into each kind of table, as most tests do."""
    from interop.spark.conftest import INTERPRETED, SMALL
    from interop.spark.kill_load import Load
    from interop.spark.kill_run import KillRun
    from interop.support.known_topics import create_topics
    from kafkapy.pipeline import PipelineDefinition
    from kafkapy.pipeline.run.run import run
    from kafkapy.spark import session

    spark = session(["delta", "iceberg"], master="local[2]", conf=SMALL | INTERPRETED)
    with KafkapyProcess(Path(folder)) as broker:
        # Of a topic that is not compacted, a table has no merge mode.
        create_topics(broker.bootstrap_servers, ["accounts"], 1, config={"cleanup.policy": "compact"})
        Load(broker.bootstrap_servers, ["events", "accounts"], at_once=1000, seed=1).end()
        for file in KillRun(Path(folder), broker, seed=1).files:
            run(PipelineDefinition.load(file), once=True, spark=spark)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
