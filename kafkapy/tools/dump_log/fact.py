"""One fact that a file states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

Values: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class Fact:
    """A fact of one `kind`, with `values` that have the names of kafka-dump-log and fit JSON.

    Kinds are file, segment, kraftSnapshot, bootstrap, batch, record, gap, index, timeindex, abortedTxn,
    empty, producer, offset, epoch, damage and properties; sane says that `verify` found nothing wrong. Two
    kinds say what is wrong: error (a part of the file cannot be read) and mismatch (an index contradicts its
    log).
    """

    kind: str
    values: Values = field(default_factory=dict)

    @property
    def is_problem(self) -> bool:
        return self.kind in ("error", "mismatch")


def error(what: str, **values: Any) -> Fact:
    """Return the fact that a part of the file cannot be read."""
    return Fact("error", {"error": what, **values})
