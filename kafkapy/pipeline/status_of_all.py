"""How all pipelines of a file are doing, a line for each."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.pipelines_file import PipelinesFile
from kafkapy.pipeline.status import Status, status_of
from kafkapy.pipeline.topics import Clients

if TYPE_CHECKING:
    from rich.console import RenderableType

_AT_ONCE: Final = 8


@dataclass(frozen=True)
class StatusOfAll:
    """The status of each pipeline, by name, or why there is none."""

    found: dict[str, Status | PipelineError]

    @property
    def ok(self) -> bool:
        """Whether each has a status."""
        return all(isinstance(one, Status) for one in self.found.values())

    @property
    def lag(self) -> int:
        return sum(one.lag for one in self.found.values() if isinstance(one, Status))

    def to_json(self) -> str:
        pipelines: list[dict[str, Any]] = [
            one.to_mapping() if isinstance(one, Status) else {"name": name, "error": str(one)}
            for name, one in self.found.items()
        ]
        return json.dumps({"lag": self.lag, "pipelines": pipelines}, indent=1)

    def to_text(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column("pipeline")
        for column in ("lag", "rows/s", "rows", "dead letters"):
            table.add_column(column, justify="right")
        table.add_column("last batch")
        table.add_column("state")
        for name, one in self.found.items():
            cells = _row(one) if isinstance(one, Status) else ("", "", "", "", "", str(one))
            table.add_row(*map(Text, (name, *cells)))
        running = sum(isinstance(one, Status) and one.process is not None for one in self.found.values())
        # Above, since a terminal may be lower than the table.
        return Group(f"{running} of {len(self.found)} running, lag {self.lag:,}", "", table)


def _row(status: Status) -> tuple[str, ...]:
    progress = status.progress
    state = status.state + (f", {status.expired:,} expired unread" if status.expired else "")
    if progress is None:
        return (f"{status.lag:,}", "", "", "", "", state)
    return (
        f"{status.lag:,}",
        f"{progress.rows_per_second:,.0f}",
        f"{progress.total_rows:,}",
        f"{progress.dead_letters:,}",
        progress.finished,
        state,
    )


def status_of_all(file: PipelinesFile, clients: Clients) -> StatusOfAll:
    """The status of all pipelines of a file, with a pattern's present topics."""

    def status(definition: PipelineDefinition) -> Status | PipelineError:
        try:
            return status_of(definition, clients.at(definition.bootstrap, definition.kafka_options))
        except PipelineError as error:
            return error

    definitions = file.definitions(lambda one: clients.at(one.bootstrap, one.kafka_options).names())
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        found = threads.map(status, definitions)
        return StatusOfAll({one.name: each for one, each in zip(definitions, found, strict=True)})
