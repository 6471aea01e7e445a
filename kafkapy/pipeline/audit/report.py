"""The report of an audit, as text for people and as JSON for schedulers.

A finding has a kind, a count and its first examples. For an append table, an example is a range of
consecutive offsets of one partition. For an upsert table, it is one key with the offset of its row and the
offset of the record that should have produced the row. Everything else (rows whose records have expired, were
compacted away or sent to the dead-letter topic, …) is only counted, as notes. One note is a loss, though the
table is correct: offsets that expired before they were read. The report begins with it. Files whose
timestamps many readers misread (INT96) are named, and are no finding: Spark reads them as they were meant.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from kafkapy.pipeline.drawing import Html, Part, bars, framed, heading, paragraph, table

# kind -> its explanation in the report
FINDINGS = {
    "missing": "in the topic, but neither in the table nor among the dead letters",
    "duplicated": "in the table more than once",
    "beyond_end": "in the table, but beyond what the topic holds or the pipeline has read",
    "foreign": "in the table, but not a record of this topic",
    "stale": "in the table with an older record than the last of the key",
    "undeleted": "in the table, though the last record of the key deletes it",
    "changed": "in the table with content that differs from the record's",
}
NOTES = {
    "lost": "offsets that expired before the pipeline read them",
    "matching": "rows as the topic has them",
    "dead_letters": "records in the dead-letter topic",
    "left_out": "records that `where` leaves out",
    "undecided": "records or keys without a row, which `where` may have left out by what a joined table had",
    "deleted": "keys deleted by their last record",
    "expired": "rows whose records have expired (below the log start offset)",
    "expired_offsets": "offsets that had expired before they could be compared",
    "compacted": "rows whose records were compacted away",
    "earlier": "rows that are not compared: before the start or the window, or skipped by a reset",
    "not_read": "offsets that are not compared: before the pipeline's start, or skipped by a reset",
    "later": "rows or keys of batches that came after the audit began",
    "no_record": "offsets without a record (transaction markers, aborted or compacted away)",
}

_MOST_LOST: Final = 10
_MOST_FILES: Final = 10


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets of the pipeline and the topic in one partition.

    `start` is where the pipeline first began. `committed` <= `planned` are end offsets (exclusive) of batches
    in its checkpoint. All offsets from `start` to `committed` must be in the table, except the `skipped`
    ranges [first, end). No offset from `planned` on may be there. `log_start` and `end` are the topic's. The
    window of the audit goes from `starting` to `ending` (exclusive; None is no limit).
    """

    partition: int
    start: int
    committed: int
    planned: int
    log_start: int
    end: int
    skipped: tuple[tuple[int, int], ...] = ()
    starting: int = 0
    ending: int | None = None

    @property
    def began(self) -> int:
        """Where the pipeline, or the window, begins."""
        return max(self.start, self.starting)

    @property
    def first(self) -> int:
        """The first offset that can be compared."""
        return max(self.began, self.log_start)

    def until(self, offset: int) -> int:
        """The offset, or the window's end if that is lower."""
        return offset if self.ending is None else min(offset, self.ending)

    @property
    def compared(self) -> int:
        """The number of offsets that were read and are still in the topic."""
        return self._read_within(self.first, self.until(self.committed))

    @property
    def expired(self) -> int:
        """The number of offsets that were read and have expired since."""
        return self._read_within(self.began, self.until(min(self.log_start, self.committed)))

    @property
    def lost(self) -> tuple[tuple[int, int], ...]:
        """The ranges that expired before they were read, whether a reset skipped them or not."""
        unread = (*self.skipped, (self.committed, self.log_start))
        below = ((first, min(end, self.log_start)) for first, end in unread)
        return tuple((first, end) for first, end in below if first < end)

    @property
    def not_read(self) -> int:
        """The number of offsets in the topic, and the window, that were skipped."""
        first, end = max(self.log_start, self.starting), self.until(self.committed)
        before = max(self.until(self.start) - first, 0)
        return before + self._skipped_within(first, end)

    def _read_within(self, first: int, end: int) -> int:
        return max(end - first, 0) - self._skipped_within(first, end)

    def _skipped_within(self, first: int, end: int) -> int:
        return sum(max(min(until, end) - max(begin, first), 0) for begin, until in self.skipped)


@dataclass(frozen=True, slots=True)
class Example:
    """An example of a finding: the offsets `first` to `last` of a partition.

    For an upsert table it is one key, and `expected` is the offset of its last record.
    """

    partition: int | None
    first: int | None
    last: int | None
    topic: str
    key: str | None = None
    expected: int | None = None

    def __str__(self) -> str:
        place = f"{self.topic}-{'?' if self.partition is None else self.partition}"
        offsets = "?" if self.first is None else f"{self.first}"
        if self.last != self.first:
            offsets += f"..{self.last}"
        text = f"{place}: {offsets}"
        if self.key is not None:
            text += f" key {self.key}"
        if self.expected is not None:
            text += f", the last is {self.expected}"
        return text


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    count: int
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The report of one audit.

    `ok` is true if there are no findings. `limits` are sentences about what the audit did not look at.
    """

    pipeline: str
    table: str
    topic: str
    mode: str
    batch: int | None
    bounds: tuple[Bounds, ...]
    notes: Mapping[str, int]
    findings: tuple[Finding, ...]
    files_to_rewrite: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.findings

    def count(self, kind: str) -> int:
        """The count of a kind of finding or note."""
        found = {finding.kind: finding.count for finding in self.findings}
        return found.get(kind, self.notes.get(kind, 0))

    def to_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "pipeline": self.pipeline,
            "table": self.table,
            "topic": self.topic,
            "mode": self.mode,
            "batch": self.batch,
            "partitions": [asdict(each) for each in self.bounds],
            "notes": dict(self.notes),
            "findings": [asdict(each) for each in self.findings],
            "files_to_rewrite": list(self.files_to_rewrite),
            "limits": list(self.limits),
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        upto = "before its first batch" if self.batch is None else f"up to batch {self.batch}"
        lines = [*self._lost(), f"{self.topic} -> {self.table} ({self.mode}), {upto}", ""]
        lines += _columns(
            [("partition", "from", "committed", "log start", "end", *(["window"] if self._windowed else []))]
            + [
                (
                    f"{self.topic}-{b.partition}",
                    *(b.start, b.committed, b.log_start, b.end),
                    *([f"{b.starting}..{'' if b.ending is None else b.ending}"] if self._windowed else []),
                )
                for b in self.bounds
            ]
        )
        lines.append("")
        counts = [(NOTES[kind], count) for kind, count in self.notes.items() if count]
        lines += _columns([(text, f"{count:,}") for text, count in counts])
        for finding in self.findings:
            lines += ["", f"{finding.count:,} {finding.kind.replace('_', ' ')}: {FINDINGS[finding.kind]}"]
            lines += [f"  {example}" for example in finding.examples]
            if (shown := len(finding.examples)) and finding.count > sum(map(_offsets, finding.examples)):
                lines.append(f"  … only the first {shown} are shown")
        lines += [*self._to_rewrite(), *self._limits(), "", self._verdict()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The report as a notebook draws it."""
        return framed(self.drawn())

    def drawn(self) -> list[Html]:
        """The pieces of a page about it."""
        verdict = self._verdict()
        counts = [(NOTES[kind], count) for kind, count in self.notes.items() if count and kind in NOTES]
        pieces = [
            heading(f"Audit of {self.table}", 2),
            paragraph(f"{self.topic}, mode {self.mode}", "soft"),
            paragraph(verdict, "good" if verdict.startswith("Clean") else "bad"),
            bars("Offsets covered by partition", [_drawn_bounds(one) for one in self.bounds]),
            table((), counts),
        ]
        for finding in self.findings:
            pieces += [
                heading(f"{finding.count:,} {finding.kind.replace('_', ' ')}: {FINDINGS[finding.kind]}"),
                table((), [(str(example),) for example in finding.examples]),
            ]
        told = [*self._lost(), *self._to_rewrite(), *self.limits]
        return [*pieces, *(paragraph(line, "soft") for line in told if line)]

    @property
    def _windowed(self) -> bool:
        return any(b.starting or b.ending is not None for b in self.bounds)

    def _limits(self) -> list[str]:
        return ["", *self.limits] if self.limits else []

    def _lost(self) -> list[str]:
        if not (lost := self.count("lost")):
            return []
        ranges = [
            Example(b.partition, first, end - 1, self.topic) for b in self.bounds for first, end in b.lost
        ]
        lines = [f"{lost:,} offsets expired before the pipeline read them, and the table does not have them:"]
        lines += [f"  {each}" for each in ranges[:_MOST_LOST]]
        if len(ranges) > _MOST_LOST:
            lines.append(f"  … only the first {_MOST_LOST} are shown")
        return [*lines, ""]

    def _to_rewrite(self) -> list[str]:
        if not (files := self.files_to_rewrite):
            return []
        lines = [
            "",
            f"{len(files):,} files have timestamps of the type INT96, which many readers misread; "
            "kafkapy pipeline maintain rewrites them:",
        ]
        lines += [f"  {file}" for file in files[:_MOST_FILES]]
        return lines if len(files) <= _MOST_FILES else [*lines, f"  … only the first {_MOST_FILES} are shown"]

    def _verdict(self) -> str:
        lost, not_read = self.count("lost"), self.count("not_read")
        if not self.ok:
            also = f", and {lost:,} offsets expired unread" if lost else ""
            return f"Not clean: {self.summary}{also}."
        but = f", but for {not_read:,} offsets that are not compared" if not_read else ""
        agree = f"table and topic agree{' in the window' if self._windowed else ''}{but}."
        if lost:
            return f"Incomplete: {lost:,} offsets expired unread. Apart from these, {agree}"
        return f"Clean: {agree}"

    @property
    def summary(self) -> str:
        return ", ".join(f"{each.count:,} {each.kind.replace('_', ' ')}" for each in self.findings)


def _drawn_bounds(one: Bounds) -> tuple[str, list[Part]]:
    lost = sum(end - first for first, end in one.lost)
    waiting = max(one.end - one.committed, 0)
    return f"partition {one.partition}", [
        Part(lost, "bad", f"{lost:,} expired unread"),
        Part(one.expired, "soft", f"{one.expired:,} expired since they were read"),
        Part(one.compared, "good", f"{one.compared:,} compared"),
        Part(one.not_read, "rule", f"{one.not_read:,} not compared"),
        Part(waiting, "rule", f"{waiting:,} not read yet"),
    ]


def _offsets(example: Example) -> int:
    if example.key is not None or example.first is None or example.last is None:
        return 1
    return example.last - example.first + 1


def _columns(rows: list[tuple[object, ...]]) -> list[str]:
    """The rows as lines of text.

    The first column is aligned left, the others right.
    """
    if not rows:
        return []
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            [f"{row[0]!s:<{widths[0]}}"]
            + [f"{cell!s:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
        )
        for row in rows
    ]
