"""What an incremental audit remembers, so that the next one reads only newer records.

    audited.json    {"offsets" | "contents": {"incarnation", "mode", "until": {partition: offset}, "finished",
                     "rows", "checksum"}}

An audit without findings notes the position that it was made at. The next one reads the topic from there on.
It knows that the older rows are still the ones that were found right: their number and the sum of their
hashes are the same, in whatever files they are. So neither merging of files nor another program's change of
the table is mistaken for the other. Of an upsert table, older rows change and go, and there is no such sum:
`maintain` makes the next audit begin anew there. So do a repair and a reset (by a new incarnation) anywhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafkapy.pipeline.audit.window import Window
from kafkapy.pipeline.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WITHIN = (
    "Records before the window were found right by the audit of {finished}, and not read again: what "
    "happened to them in the topic since is not seen."
)
_SAME_ROWS = " Their rows in the table are the same as then, by number and checksum."
_NOT_AGAIN = " Their rows were not looked at again, except that no key is there twice."


@dataclass(frozen=True)
class Audited:
    """An audit without findings: what it was of, and the rows before the offsets `until`."""

    incarnation: str
    mode: str
    until: Mapping[int, int]
    rows: int
    checksum: str
    finished: str = ""

    @classmethod
    def of(cls, rows: DataFrame, incarnation: str, mode: str, until: Mapping[int, int]) -> Audited:
        """The rows of the table before these offsets."""
        count, checksum = 0, ""
        if mode == "append":
            count, checksum = _sum(rows, Window(starting=until))
        return cls(incarnation, mode, dict(until), count, checksum)

    @classmethod
    def last(cls, state: State, *, deep: bool) -> Audited | None:
        value = state.audited.get(_kind(deep))
        if value is None:
            return None
        until = {int(partition): offset for partition, offset in value["until"].items()}
        return cls(**{**value, "until": until})

    def note(self, state: State, *, deep: bool) -> None:
        finished = datetime.now(UTC).isoformat(timespec="seconds")
        state.audited = {
            **state.audited,
            _kind(deep): dataclasses.asdict(dataclasses.replace(self, finished=finished)),
        }

    def still_holds(self, rows: DataFrame, incarnation: str, mode: str) -> bool:
        """Whether the table's rows before `until` are the same."""
        return dataclasses.replace(self, finished="") == Audited.of(rows, incarnation, mode, self.until)

    @property
    def limit(self) -> str:
        """What an audit from here on does not see."""
        told = _SAME_ROWS if self.mode == "append" else _NOT_AGAIN
        return _WITHIN.format(finished=self.finished) + told


def _kind(deep: bool) -> str:
    return "contents" if deep else "offsets"


def _sum(rows: DataFrame, after: Window) -> tuple[int, str]:
    """The number of rows before the window, and the sum of their hashes."""
    from pyspark.sql import functions as f

    hashes = f.xxhash64(*rows.columns).cast("decimal(38,0)")
    before = rows.where(f"NOT coalesce({after.condition}, false)")
    count, total = before.agg(f.count(f.lit(1)), f.sum(hashes)).collect()[0]
    return int(count), str(total or 0)
