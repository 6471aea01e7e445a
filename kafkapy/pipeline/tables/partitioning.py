"""The partitioning of a table into folders.

`partition_by` in a definition:

    country              the values of a column
    day(ordered_at)      also hour, month, year: of a timestamp or date, in UTC
    day(timestamp)       `timestamp` is the record's own timestamp, the column `_timestamp`; a column of the
                         data with this name is written in backticks: day(`timestamp`)
    bucket(16, id)       a hash of any column

Iceberg computes such transforms itself and hides them. A Delta or Parquet table gets another column with the
value, `ordered_at_day`. A leading underscore is removed (`timestamp_day`), since most readers of Parquet skip
folders whose names begin with one. The value is computed in UTC and does not depend on the time zone of a
session:

    year     INT      2025
    month    DATE     2025-01-01, the first day
    day      DATE     2025-01-31
    hour     STRING   2025-01-31-23
    bucket   INT      below the number of buckets
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafkapy.pipeline.pipeline_error import PipelineError, did_you_mean

TIME_TRANSFORMS: Final = ("year", "month", "day", "hour")
_TRANSFORMS: Final = (*TIME_TRANSFORMS, "bucket")
_CALL = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)
_MICROSECONDS_A_DAY: Final = 86_400_000_000
_MICROSECONDS_AN_HOUR: Final = 3_600_000_000


@dataclass(frozen=True, kw_only=True)
class PartitionField:
    """One part of `partition_by`; `transform` is identity, bucket or one of TIME_TRANSFORMS."""

    column: str
    transform: str = "identity"
    buckets: int = 0

    @classmethod
    def parse(cls, text: str) -> PartitionField:
        text = text.strip()
        call = _CALL.fullmatch(text)
        if call is None:
            return cls(column=_column(text, text))
        transform, argument = call[1].lower(), call[2].strip()
        singular = transform.removesuffix("s")  # Spark and Iceberg write days(...)
        if singular in TIME_TRANSFORMS:
            column = "_timestamp" if argument == "timestamp" else _column(argument, text)
            return cls(column=column, transform=singular)
        if transform != "bucket":
            raise PipelineError(
                f"partition_by: unknown transform in {text!r}{did_you_mean(transform, _TRANSFORMS)}; "
                "expected a column, or year(), month(), day(), hour() of one, or bucket(N, column)"
            )
        count, comma, column = argument.partition(",")
        if not comma or not count.strip().isdecimal() or not 0 < int(count) < 2**31:
            raise PipelineError(f"partition_by: expected bucket(N, column), not {text!r}")
        return cls(column=_column(column.strip(), text), transform="bucket", buckets=int(count))

    @property
    def derived(self) -> bool:
        """Whether Delta and Parquet need another column for it."""
        return self.transform != "identity"

    @property
    def name(self) -> str:
        """The partition column in Delta and Parquet."""
        return f"{self.column.lstrip('_')}_{self.transform}" if self.derived else self.column

    def expression(self, column: str, kind: str) -> str:
        """The Spark SQL expression for the value of `column`.

        `column` is quoted, and `kind` is its type in Spark's notation.
        """
        if self.transform == "bucket":
            return f"pmod(hash({column}), {self.buckets})"
        if kind == "timestamp":
            days = f"floor(unix_micros({column}) / {_MICROSECONDS_A_DAY}BD)"
            date = f"date_from_unix_date(CAST({days} AS INT))"
            hours = f"floor(unix_micros({column}) / {_MICROSECONDS_AN_HOUR}BD)"
            hour = f"lpad(CAST(pmod({hours}, 24) AS STRING), 2, '0')"
        else:
            date = f"CAST({column} AS DATE)"
            hour = f"date_format({column}, 'HH')"
        return {
            "year": f"year({date})",
            "month": f"trunc({date}, 'MM')",
            "day": date,
            "hour": f"concat(CAST({date} AS STRING), '-', {hour})",
        }[self.transform]

    def check_type(self, kind: str) -> None:
        """Raises PipelineError if the transform cannot be applied to a type.

        `kind` is the type in Spark's notation.
        """
        fitting = {
            "identity": r"string|boolean|tinyint|smallint|int|bigint|date|timestamp(_ntz)?|decimal\(.*",
            "hour": r"timestamp(_ntz)?",
            "bucket": r"string|binary|int|bigint|tinyint|smallint|date|timestamp(_ntz)?|decimal\(.*",
        }.get(self.transform, r"date|timestamp(_ntz)?")
        if not re.fullmatch(fitting, kind):
            problem = f"partition_by: {self} cannot be applied to the type of the column, {kind}"
            if self.transform in TIME_TRANSFORMS and kind == "string":  # as the times in JSON are
                problem += (
                    "; give the format a schema that makes it a TIMESTAMP or DATE, or partition by the "
                    f"record's own time: {self.transform}(timestamp)"
                )
            raise PipelineError(problem)

    def __str__(self) -> str:
        if self.transform == "bucket":
            return f"bucket({self.buckets}, {self.column})"
        return f"{self.transform}({self.column})" if self.derived else self.column


@dataclass(frozen=True)
class Partitioning:
    """All fields of `partition_by`, in order; empty for a table without partitions."""

    fields: tuple[PartitionField, ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Partitioning:
        """Parses `partition_by`.

        Raises PipelineError for a mistake.
        """
        fields = tuple(PartitionField.parse(text) for text in texts)
        seen: dict[tuple[str, bool], PartitionField] = {}
        for field in fields:
            # Iceberg refuses two time transforms of one column as redundant: an hour implies its day.
            place = (field.name.lower(), False)
            if field.transform in TIME_TRANSFORMS:
                place = (field.column.lower(), True)
            if place in seen:
                raise PipelineError(
                    f"partition_by: {seen[place]} and {field} are of the same column; keep the finer one"
                )
            seen[place] = field
        return cls(fields)

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    @property
    def derived(self) -> list[PartitionField]:
        return [field for field in self.fields if field.derived]

    def __str__(self) -> str:
        return ", ".join(map(str, self.fields)) or "nothing"


def _column(text: str, whole: str) -> str:
    if len(text) > 2 and text[0] == text[-1] == "`":
        return text[1:-1].replace("``", "`")
    if not text or re.search(r"[`(),]", text):
        raise PipelineError(
            f"partition_by: expected a column, or day(column), not {whole!r}; "
            "put a name with other characters into backticks"
        )
    return text
