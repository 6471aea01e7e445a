"""The envelopes of change streams: where a change has its operation and its row.

    debezium   {"op": "u", "before": {...}, "after": {...}, "source": {...}, "ts_ms": ...}, in JSON also as
               the `payload` beside its `schema`, as Kafka Connect's converter writes it
    maxwell    {"type": "update", "data": {...}, "old": {...}, "database": ..., "table": ..., "ts": ...}
    goldengate {"op_type": "U", "before": {...}, "after": {...}, "table": ..., "op_ts": ..., "pos": ...},
               whose updates may be a part of a row (`whole_rows.py`)

Other fields of an envelope are left out. A field may be there in two forms, bare or within `wrapper`; which
of them a record has is seen from its operation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafkapy.pipeline.formats.spark_types import Struct, kind_of, nullable, struct, struct_of
from kafkapy.pipeline.formats.spark_types import field as struct_field


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """One kind of envelope.

    `operation` is the field of the operation, `row` that of the row as it is now, `former` that of the row
    that a delete removes. `writes` and `deletes` are operations, `marks` those of records that are no change,
    and `refused` those that cannot be applied to a table, each with what it does. Columns are inferred from
    the fields `sampled`.
    """

    name: str
    operation: str
    row: str
    former: str
    writes: tuple[str, ...]
    deletes: tuple[str, ...]
    marks: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    wrapper: str | None = None
    sampled: tuple[str, ...] = ()

    @property
    def row_paths(self) -> tuple[str, ...]:
        """The paths at which a row's own fields begin: `after.`, `payload.after.`"""
        names = dict.fromkeys((self.row, self.former))
        return tuple(f"{form}{name}." for form in self._forms for name in names)

    @property
    def _forms(self) -> tuple[str, ...]:
        return ("",) if self.wrapper is None else ("", f"{self.wrapper}.")

    def names_at(self, path: str) -> Collection[str] | None:
        """The fields at a path that may be columns; None if all, within a row."""
        if path.startswith(self.row_paths):
            return None
        return [self.operation, self.row, self.former, *([self.wrapper] if self.wrapper and not path else [])]

    def without_former(self) -> Envelope:
        """The same for a table whose deletes need no more than the record's key."""
        return dataclasses.replace(self, former=self.row, sampled=(self.row, self.former))

    def around(self, row: Struct) -> Struct:
        """The columns of a value whose rows have the columns `row`, in each form."""
        bare = self._bare(row)
        if self.wrapper is None:
            return bare
        return struct_of([*bare["fields"], struct_field(self.wrapper, bare)])

    def _bare(self, row: Struct) -> Struct:
        # A deleted row may be its key alone, so all of it may be null.
        former = {} if self.former == self.row else {self.former: nullable(row)}
        return struct({self.operation: "string", self.row: row, **former})

    def narrowed(self, found: Struct, known: Struct) -> Struct:
        """The columns of an envelope around the rows of some values, in the form of `known`.

        Without known columns, in the form that these values have.
        """
        forms = [path for path, _ in self.forms_of(known)] or [path for path, _ in self.forms_of(found)]
        if not forms:
            return struct_of([])
        inner = found
        for name in forms[0]:
            inner = next((one["type"] for one in inner["fields"] if one["name"] == name), struct_of([]))
        names = self.sampled or (self.row, self.former)
        rows = [one for name in names for one in _fields_of(inner, name)]
        if not rows:
            return struct_of([])
        columns = self._bare(struct_of(list({one["name"]: one for one in reversed(rows)}.values())[::-1]))
        for name in forms[0]:
            columns = struct({name: columns})
        return columns

    def forms_of(self, columns: Struct) -> Iterator[tuple[tuple[str, ...], Struct]]:
        """The struct around the operation, and its path, in each form that the columns have."""
        fields = {one["name"]: one["type"] for one in columns["fields"]}
        if self.wrapper is not None and _fields_of(columns, self.wrapper):
            yield (self.wrapper,), fields[self.wrapper]
        if self.operation in fields:
            yield (), columns

    def row_of(self, columns: Struct) -> Struct | None:
        """The columns of the rows; None if these columns have none."""
        for _, form in self.forms_of(columns):
            if fields := _fields_of(form, self.row):
                return struct_of(fields)
        return None


def _fields_of(columns: Struct, name: str) -> list[dict[str, Any]]:
    """The fields of the struct of that name; none if there is none."""
    kinds = [one["type"] for one in columns["fields"] if one["name"] == name]
    return list(kinds[0]["fields"]) if kinds and kind_of(kinds[0]) == "struct" else []


ENVELOPES: Final = {
    one.name: one
    for one in (
        Envelope(
            name="debezium",
            operation="op",
            row="after",
            former="before",
            writes=("c", "u", "r"),
            deletes=("d",),
            refused={"t": "truncates the source table", "m": "is a message of the source's log"},
            wrapper="payload",
        ),
        Envelope(
            name="maxwell",
            operation="type",
            row="data",
            former="data",
            writes=("insert", "update", "bootstrap-insert"),
            deletes=("delete",),
            marks=("bootstrap-start", "bootstrap-complete"),
        ),
        Envelope(
            name="goldengate",
            operation="op_type",
            row="after",
            former="before",
            writes=("I", "U"),
            deletes=("D",),
            refused={"T": "truncates the source table"},
        ),
    )
}
