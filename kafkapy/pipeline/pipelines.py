"""Many pipelines in Python: those of a YAML file (`pipelines_file.py`).

Pipelines.load("lake.yaml").run(once=True)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from kafkapy.pipeline.pipelines_file import PipelinesFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkapy.pipeline.run.many import Outcome
    from kafkapy.pipeline.status_of_all import StatusOfAll


class Pipelines:
    """The pipelines of one file."""

    def __init__(self, file: PipelinesFile) -> None:
        self.file = file

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Loads a YAML file with one pipeline or many; raises PipelineError."""
        return cls(PipelinesFile.load(os.fspath(path)))

    def run(
        self,
        *,
        once: bool = False,
        every: str | None = None,
        spark: SparkSession | None = None,
        metrics: str | None = None,
    ) -> list[Outcome]:
        """Writes what the topics have now (`once`), or continues until it is interrupted.

        Returns how each pipeline ended. One that fails does not stop the others.
        """
        from kafkapy.pipeline.run.many import run_many

        return run_many(self.file, once=once, every=every, spark=spark, metrics=metrics)

    def status(self) -> StatusOfAll:
        from kafkapy.pipeline.status_of_all import status_of_all
        from kafkapy.pipeline.topics import Clients

        return status_of_all(self.file, Clients())
