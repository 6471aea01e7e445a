"""Checks a table's location without Spark: is it empty, a table, or something else?

    delta      _delta_log/
    iceberg    metadata/ (and data/)
    parquet    batch=NNNNNNNN/ for each batch, nothing else

For a table of a catalog, it is the folder of the pipeline's state that is checked.

Names that begin with a dot or an underscore are hidden from readers and do not count, `_delta_log` apart.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.stores import Store
from kafkapy.pipeline.table_target import TableTarget


def check_location(target: TableTarget, store: Store) -> None:
    """Raises PipelineError if the location is a file or a folder with other content.

    `store` is that of `target.folder`.
    """
    try:
        if store.is_file():
            what = f"state: {target.folder}" if target.in_catalog else str(target)
            raise PipelineError(f"{what}: is a file; name a folder")
        names = [entry.name for entry in store.entries()]
    except OSError as error:
        where = target.folder if target.in_catalog else target
        raise PipelineError(f"{where}: cannot be reached: {error}") from None
    present = format_of(names)
    if target.in_catalog:
        if present is not None:
            raise PipelineError(f"state: {target.folder} holds a table of its own; name another folder")
        return
    if present == target.format:
        return
    if present is not None:
        raise PipelineError(
            f"{target}: there is a table of the format {present} already; "
            f"write {present}:{target.location}, or name another folder"
        )
    if visible := sorted(name for name in names if not name.startswith(("_", "."))):
        shown = ", ".join(visible[:3]) + (", ..." if len(visible) > 3 else "")
        raise PipelineError(
            f"{target}: the folder is not empty and holds no {target.format} table of a pipeline ({shown}); "
            "name an empty or a new folder"
        )


def format_of(names: Collection[str]) -> str | None:
    """The format of the table in a folder with these names; None if it contains no table."""
    if "_delta_log" in names:
        return "delta"
    if "metadata" in names and all(name in ("metadata", "data") for name in names if name[0] not in "_."):
        return "iceberg"
    visible = [name for name in names if not name.startswith(("_", "."))]
    if visible and all(name.startswith("batch=") for name in visible):
        return "parquet"
    return None
