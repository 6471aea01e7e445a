"""Topics become tables on Spark, exactly once, and back.

    Pipeline("orders").json(schema).upsert(key="id").to_delta(path).run(once=True)

Importing this package imports neither Spark nor a Kafka client: both are imported on first use.

    commands/      `kafkapy pipeline NAME`: options and output
    pipeline.py    the same from Python; pipelines.py: many
    definition.py  the YAML file, each key explained; pipelines_file.py: one of many pipelines
    run/           a run: the checks before Spark starts, the query, one batch; many.py: many in one Spark
    formats/       values to columns
    tables/        rows into Delta, Iceberg and Parquet
    state.py       the pipeline's memory, in the folder `_kafkapy` of its table; checkpoint.py: Spark's
    topics.py      the broker's side: ends and policies; positions.py: lag, what has expired
    dead_letters/  records that could not become rows: writes, reads and replays them
    audit/         compares a table with its topic
    replay/        writes rows back into a topic
    export.py      topics of a data directory to Parquet, without a broker or Spark
    *_failures.py  turns errors of Spark and Java into one line with a remedy
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkapy.pipeline.definition import PipelineDefinition
    from kafkapy.pipeline.pipeline import Pipeline
    from kafkapy.pipeline.pipeline_error import PipelineError
    from kafkapy.pipeline.pipelines import Pipelines

__all__ = ["Pipeline", "PipelineDefinition", "PipelineError", "Pipelines"]

_MODULES = {
    "Pipeline": "kafkapy.pipeline.pipeline",
    "PipelineDefinition": "kafkapy.pipeline.definition",
    "PipelineError": "kafkapy.pipeline.pipeline_error",
    "Pipelines": "kafkapy.pipeline.pipelines",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
