"""Tables that the records of a pipeline are joined with.

    join:
      customers:                        # the name of the row in `select` and `where`: customers.name
        table: delta:lake/customers     # delta | iceberg | parquet | csv, then a path, URI or catalog name
        match: {id: customer_id}           # columns of the table, and what they equal: SQL of the record

`match` may name columns that both have (`match: customer_id`, `match: [country, zip]`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kafkapy.pipeline.fields import Fields, shown
from kafkapy.pipeline.pipeline_error import PipelineError, did_you_mean
from kafkapy.pipeline.table_target import TABLE_FORMATS, TableTarget, absolute, is_in_a_catalog

JOINED_FORMATS: Final = (*TABLE_FORMATS, "csv")
_EXAMPLE: Final = "{table: delta:lake/customers, match: {id: customer_id}}"


@dataclass(frozen=True, kw_only=True)
class JoinedTable:
    """One of them.

    `match` has columns of the table and the SQL expressions of the record that they must equal.
    """

    name: str
    format: str
    location: str
    match: tuple[tuple[str, str], ...]

    @property
    def in_catalog(self) -> bool:
        return self.format != "csv" and is_in_a_catalog(self.location)

    def check_reach(self, master: str, default_store: str | None = None) -> None:
        """Raises PipelineError if Spark's machines would not all mean the same folder."""
        if not self.in_catalog:
            try:
                kind = "parquet" if self.format == "csv" else self.format
                TableTarget(format=kind, location=self.location).check_reach(master, default_store)
            except PipelineError as error:
                raise PipelineError(f"join.{self.name}: {error}") from None

    @property
    def table(self) -> str:
        return f"{self.format}:{self.location}"

    @classmethod
    def parse(cls, name: object, value: object, folder: Path | None) -> JoinedTable:
        """Raises PipelineError for a mistake."""
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
            raise PipelineError(f"join: {shown(name)} is no name; for example customers: {_EXAMPLE}")
        within = f"join.{name}"
        if not isinstance(value, Mapping):
            raise PipelineError(
                f"{within}: expected table and match, not {shown(value)}; for example {_EXAMPLE}"
            )
        fields = Fields(value, ("table", "match"), within=within)
        text = fields.required("table", "delta:lake/customers")
        kind, separator, location = text.partition(":")
        if not separator or kind not in JOINED_FORMATS or not location:
            formats = ", ".join(f"{one}:PATH" for one in JOINED_FORMATS)
            raise PipelineError(
                f"{within}.table: {shown(text)} names no format{did_you_mean(kind, JOINED_FORMATS)}; "
                f"expected {formats}"
            )
        if not is_in_a_catalog(location):
            location = absolute(location, folder)
        elif kind == "parquet":
            raise PipelineError(
                f"{within}.table: {shown(text)}: of catalogs, only tables of Delta and Iceberg are read; "
                f"write parquet:./{location} for a folder"
            )
        pairs = isinstance(value.get("match"), Mapping)
        match = fields.options("match") if pairs else {one: one for one in fields.names("match")}
        if not match:
            raise PipelineError(f"{within}.match: is missing; for example match: {{id: customer_id}}")
        return cls(name=name, format=kind, location=location, match=tuple(match.items()))

    def to_mapping(self) -> dict[str, Any]:
        return {"table": self.table, "match": dict(self.match)}


def parse_joins(value: object, folder: Path | None) -> tuple[JoinedTable, ...]:
    """The tables of the mapping `join`; raises PipelineError for a mistake."""
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise PipelineError(
            f"join: expected names and tables, not {shown(value)}; for example customers: {_EXAMPLE}"
        )
    return tuple(JoinedTable.parse(name, one, folder) for name, one in value.items())
