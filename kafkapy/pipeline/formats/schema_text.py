"""The text of a schema that a pipeline names: a file's, or the schema itself."""

from __future__ import annotations

from pathlib import Path

from kafkapy.pipeline.format_definition import is_schema_file
from kafkapy.pipeline.pipeline_error import PipelineError, did_you_mean


def schema_bytes(path: str) -> bytes:
    """A schema file's content."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        folder = Path(path).parent
        near = did_you_mean(
            Path(path).name, [one.name for one in folder.iterdir()] if folder.is_dir() else []
        )
        raise PipelineError(f"format.schema: there is no file {path}{near}") from None
    except OSError as error:
        raise PipelineError(f"format.schema: {path} cannot be read: {error.strerror}") from None


def schema_text(schema: str) -> tuple[str, str]:
    """The text, and how messages call it: the file's path, or `format.schema`."""
    if not is_schema_file(schema):
        return schema, "format.schema"
    try:
        return schema_bytes(schema).decode("utf-8-sig"), schema
    except UnicodeDecodeError:
        raise PipelineError(f"format.schema: {schema} is not text in UTF-8") from None
