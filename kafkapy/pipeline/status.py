"""How a pipeline is doing: compares its checkpoint with the topic's ends, without Spark."""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkapy.pipeline import checkpoint
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.drawing import Html, Part, bars, framed, heading, line_chart, paragraph, table
from kafkapy.pipeline.positions import PartitionPosition, positions
from kafkapy.pipeline.recent import Recent, recent
from kafkapy.pipeline.state import Progress, State
from kafkapy.pipeline.topics import Topics

if TYPE_CHECKING:
    from rich.console import RenderableType

_REASONS: Final = 12  # that are drawn


@dataclass(frozen=True, kw_only=True)
class Status:
    """The status of a pipeline.

    `process` is the id of the running driver. `batch` is the last committed batch of this incarnation.
    `recent` is what a picture shows besides, if it was asked for.
    """

    definition: PipelineDefinition
    process: int | None
    batch: int | None
    progress: Progress | None
    partitions: list[PartitionPosition]
    recent: Recent | None = None

    @property
    def lag(self) -> int:
        """The number of offsets left to read, in all partitions.

        Control records count, as in Kafka's tools.
        """
        return sum(one.lag for one in self.partitions)

    @property
    def expired(self) -> int:
        return sum(one.expired for one in self.partitions)

    @property
    def state(self) -> str:
        if self.process is not None:
            return f"running (process {self.process})"
        return "has not run yet" if self.batch is None and self.progress is None else "not running"

    def to_json(self) -> str:
        return json.dumps(self.to_mapping(), indent=1)

    def to_mapping(self) -> dict[str, Any]:
        """What `to_json` writes."""
        progress = self.progress
        return {
            "name": self.definition.name,
            "topic": self.definition.topic,
            "table": str(self.definition.table),
            "running": self.process is not None,
            "process": self.process,
            "batch": self.batch,
            "last_batch": progress
            and {
                "finished": progress.finished,
                "rows": progress.rows,
                "seconds": progress.seconds,
                "rows_per_second": round(progress.rows_per_second, 1),
            },
            "rows_written": progress.total_rows if progress else 0,
            "dead_letters": progress.dead_letters if progress else 0,
            "left_out": progress.left_out if progress else 0,
            "lag": self.lag,
            "expired": self.expired,
            "partitions": [
                {**dataclasses.asdict(one), "lag": one.lag, "expired": one.expired} for one in self.partitions
            ],
        }

    def to_text(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table

        about = Table.grid(padding=(0, 2))
        for name, text in self._about():
            about.add_row(name, text)
        offsets = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for column in ("partition", "start", "position", "end", "lag"):
            offsets.add_column(column, justify="right")
        for one in self.partitions:
            numbers = (one.partition, one.start, one.position, one.end, one.lag)
            offsets.add_row(*map(str, numbers), f"{one.expired} expired" if one.expired else "")
        return Group(about, "", offsets)

    def _repr_html_(self) -> str:
        """The status as a notebook draws it."""
        return framed(self.drawn())

    def drawn(self) -> list[Html]:
        """The pieces of a page about it."""
        pieces = [heading(f"Pipeline {self.definition.name}", 2), table((), self._about())]
        if (recent := self.recent) is not None:
            now = (time.time() * 1000, float(self.lag))
            pieces += [
                line_chart("Lag (offsets, by the records' timestamps)", (*recent.lag, now)),
                line_chart("Offsets read a second, from batch to batch", recent.speed),
                *self._drawn_letters(recent),
            ]
        pieces.append(
            bars("Offsets of the topic by partition", [_drawn_offsets(one) for one in self.partitions])
        )
        return pieces

    def _drawn_letters(self, recent: Recent) -> list[Html]:
        if not recent.reasons:
            return []
        rows = [
            (f"the record {reason}", [Part(count, "bad", f"{count:,}")]) for reason, count in recent.reasons
        ]
        title = "Dead letters by reason" + ("" if recent.all_letters else ", the last ones")
        shown = [bars(title, rows[:_REASONS])]
        if len(rows) > _REASONS:
            shown.append(paragraph(f"and {len(rows) - _REASONS} more reasons", "soft"))
        return shown

    def _about(self) -> list[tuple[str, str]]:
        definition, progress = self.definition, self.progress
        lines = [
            ("pipeline", f"{definition.name}: {definition.topic} -> {definition.table}"),
            ("state", self.state),
            ("lag", f"{self.lag:,}" + (f", {self.expired:,} expired unread" if self.expired else "")),
        ]
        if progress:
            lines += [
                (
                    "last batch",
                    f"{progress.batch}, {progress.finished}: {progress.rows:,} rows in "
                    f"{progress.seconds:.1f} s ({progress.rows_per_second:,.0f} rows/s)",
                ),
                ("rows written", f"{progress.total_rows:,}"),
                ("dead letters", f"{progress.dead_letters:,}"),
            ]
            if progress.left_out:
                lines.append(("left out", f"{progress.left_out:,}"))
        return lines


def _drawn_offsets(one: PartitionPosition) -> tuple[str, list[Part]]:
    position = max(one.position, one.start)
    return f"partition {one.partition}", [
        Part(one.expired, "bad", f"{one.expired:,} expired unread"),
        Part(position - one.start, "good", f"{position - one.start:,} read"),
        Part(one.lag, "rule", f"{one.lag:,} to read"),
    ]


def status_of(
    definition: PipelineDefinition, topics: Topics | None = None, *, with_recent: bool = False
) -> Status:
    """The status of one pipeline.

    `topics` is a client of its cluster, if there is one already. `with_recent` asks for what a picture shows
    besides, with some requests more. Raises PipelineError.
    """
    state = State.of(definition)
    if problem := checkpoint.damage(state):
        raise problem
    topics = topics or Topics(definition.bootstrap, definition.kafka_options)
    return Status(
        definition=definition,
        process=state.running,
        batch=checkpoint.committed_batch(state),
        progress=state.progress,
        partitions=positions(definition, state, topics),
        recent=recent(definition, state, topics) if with_recent else None,
    )
