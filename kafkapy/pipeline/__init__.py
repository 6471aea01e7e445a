"""Topics become tables on Spark, exactly once, and back.

    Pipeline("orders").json(schema).upsert(key="id").to_delta(path).run(once=True)

Importing this package imports neither Spark nor a Kafka client: both come when they are used.
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
