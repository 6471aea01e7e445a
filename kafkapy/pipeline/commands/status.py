"""`kafkapy pipeline status PIPELINE`"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.pipelines_file import PipelinesFile

if TYPE_CHECKING:
    from kafkapy.pipeline.status import Status
    from kafkapy.pipeline.status_of_all import StatusOfAll


@click.command()
@click.argument("pipeline", metavar="PIPELINE")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--watch", "-w", metavar="SECONDS", type=click.FloatRange(min=0.1), help="Again every so many seconds."
)
def status(pipeline: str, as_json: bool, watch: float | None) -> int:
    """Show lag, speed and dead letters of PIPELINE, a YAML file or a table.

    Of a file with many pipelines, each has a line. Lag counts the offsets between the last committed batch
    and the end that a read_committed reader sees. Spark is needed only to find catalog.schema.table. Exit
    status: 0, or 1 if a pipeline's status cannot be told.
    """
    from kafkapy.pipeline.status_of_all import StatusOfAll
    from kafkapy.spark.cli import notes

    with notes("kafkapy.spark"):
        file = PipelinesFile.load(pipeline)
    find = _finder(file)
    found = find()
    if watch is not None:
        try:
            if not as_json and sys.stdout.isatty():
                draw(find, watch)
            while True:
                _print(found, as_json)
                time.sleep(watch)
                found = find()
        except KeyboardInterrupt:
            return 0
    _print(found, as_json)
    return 1 if isinstance(found, StatusOfAll) and not found.ok else 0


def _finder(file: PipelinesFile) -> Callable[[], Status | StatusOfAll]:
    """What finds the present status; its clients stay connected."""
    from kafkapy.pipeline.status import status_of
    from kafkapy.pipeline.status_of_all import status_of_all
    from kafkapy.pipeline.topics import Clients

    clients, only = Clients(), file.only
    if only is None:
        return lambda: status_of_all(file, clients)
    topics = clients.at(only.bootstrap, only.kafka_options)
    return lambda: status_of(only, topics)


def _print(found: Status | StatusOfAll, as_json: bool) -> None:
    if as_json:
        click.echo(found.to_json())
        return
    from rich.console import Console

    # A pipe has no width: rich would assume 80 and break lines.
    wide = None if sys.stdout.isatty() else 500
    Console(highlight=False, soft_wrap=True, width=wide).print(found.to_text())


def draw(find: Callable[[], Status | StatusOfAll], every: float) -> None:
    """Redraws the terminal until it is interrupted, with what changed meanwhile."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    before: tuple[float, int] | None = None
    with Live(console=Console(highlight=False), auto_refresh=False, screen=True) as live:
        while True:
            above = time.strftime("%H:%M:%S")
            try:
                found = find()
                shown, now = found.to_text(), (time.monotonic(), found.lag)
                if before is not None:
                    above += f", lag {(now[1] - before[1]) / (now[0] - before[0]):+,.0f}/s"
                before = now
            except PipelineError as error:  # it may pass: the broker is away
                shown, before = Text(str(error)), None
            live.update(Group(Text(f"{above}. Ctrl-C ends.", style="reverse"), "", shown), refresh=True)
            time.sleep(every)
