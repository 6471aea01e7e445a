"""Topics become tables on Spark, exactly once, and back.

    Pipeline("orders").json(schema).upsert(key="id").to_delta(path).run(once=True)

Importing this package imports neither Spark nor a Kafka client: both come when they are used.

    cli.py, NAME_command.py         `kafkapy pipeline NAME`: options and output; the work is in NAME.py
    pipeline.py                     the same from Python
    definition.py                   the YAML file, each key explained
    run.py streaming.py batches.py  a run: what is looked at before Spark starts, the query, one batch
    formats/                        values to columns
    tables/                         rows into Delta, Iceberg and Parquet
    state.py checkpoint.py          the folder `_kafkapy` of a table: the pipeline's memory, Spark's
    topics.py positions.py          the broker's side: ends and policies, lag, what has expired
    dead_letter*.py                 records that could not become rows: written, read, replayed
    audit*.py                       table against topic
    replay*.py                      rows back into a topic
    export*.py                      segment files to Parquet, by kafkapy/pipeline/log_source
    *_failures.py                   what Spark and Java say, as one line with a remedy
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkapy.pipeline.definition import PipelineDefinition
    from kafkapy.pipeline.pipeline import Pipeline
    from kafkapy.pipeline.pipeline_error import PipelineError

__all__ = ["Pipeline", "PipelineDefinition", "PipelineError"]

_MODULES = {
    "Pipeline": "kafkapy.pipeline.pipeline",
    "PipelineDefinition": "kafkapy.pipeline.definition",
    "PipelineError": "kafkapy.pipeline.pipeline_error",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
