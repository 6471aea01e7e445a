"""A driver of several pipelines: `python -m interop.spark.kill_driver follow|once FILE...`

It starts Spark, prints "ready", waits for a line, and runs the pipelines of the YAML files in threads of one
session until SIGTERM, or to the end of their topics. One Spark for all of them: a start costs more than many
batches. Ends with status 1 if any pipeline failed.

The files name one store and the settings of Spark for it. A pipeline that another driver writes is tried
again and again, as a scheduler would do it.
"""

from __future__ import annotations

import signal
import sys
import threading

from interop.spark.conftest import INTERPRETED, SMALL
from kafkapy.errors import UserError
from kafkapy.pipeline import PipelineDefinition
from kafkapy.pipeline.run.progress import Shown
from kafkapy.pipeline.run.run import run
from kafkapy.spark import session

_AGAIN = (
    "cannot reach a Kafka broker",  # a run begins only when it is there, and it is killed all the time
    "its pipeline is running already",
    "this driver was silent",
    "another driver has written this batch",
)


class Named(Shown):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._name = name

    def note(self, line: str) -> None:
        super().note(f"{self._name}: {line}")


def main(how: str, *files: str) -> int:
    first = PipelineDefinition.load(files[0])
    conf = SMALL | INTERPRETED | first.spark_options
    spark = session(["delta", "iceberg"], master="local[2]", conf=conf, store=first.table.scheme)
    print("ready", flush=True)
    if not sys.stdin.readline():
        return 0
    stop, failed = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def one(file: str) -> None:
        definition = PipelineDefinition.load(file)
        progress = Named(definition.name)
        every = None if how == "once" else "100ms"
        while not stop.is_set():
            try:
                run(definition, once=how == "once", every=every, spark=spark, stop=stop, progress=progress)
            except UserError as error:
                progress.note(f"failed: {error}")
                if any(text in str(error) for text in _AGAIN):
                    stop.wait(5)
                    continue
                failed.set()
            return

    threads = [threading.Thread(target=one, args=(file,)) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not failed.is_set():
        spark.stop()
    return int(failed.is_set())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
