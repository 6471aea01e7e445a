"""`kafkapy pipeline export TOPIC --data-dir DIR --to parquet:PATH`.

It needs no broker, no Spark and no Java.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkapy.pipeline.fields import timestamp_ms
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.protocol.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.log.read_options import Bound, ReadOptions
    from kafkapy.pipeline.export import ExportResult

_POSITION = "earliest|latest|TIME|OFFSETS"


@click.command()
@click.argument("topic")
@click.option("--data-dir", metavar="DIR", required=True, help="Data directory; several as in log.dirs.")
@click.option("--to", "target", metavar="parquet:PATH", required=True, help="A new folder.")
@click.option("--partitions", metavar="LIST", help="For example 0,2,5-7; default: all.")
@click.option(
    "--start",
    metavar=_POSITION,
    default="earliest",
    help='OFFSETS: \'{"0": 12, "1": -2}\', with every partition; -2 is earliest, -1 latest.',
)
@click.option("--end", metavar=_POSITION, default="latest", help="Where to end, exclusive.")
@click.option(
    "--isolation",
    type=click.Choice(("read_committed", "read_uncommitted")),
    default="read_committed",
    show_default=True,
)
def export(
    topic: str, data_dir: str, target: str, partitions: str | None, start: str, end: str, isolation: str
) -> None:
    """Write TOPIC from the segment files of a data directory as Parquet.

    The broker may run or not. TIME is ISO or epoch milliseconds. It stands for the first record with that
    timestamp or a later one.
    """
    from kafkapy.log.places import local_or_url
    from kafkapy.log.read_options import ReadOptions
    from kafkapy.protocol.special_timestamps import EARLIEST, LATEST

    options = ReadOptions(
        paths=tuple(local_or_url(path) for each in data_dir.split(",") if (path := each.strip())),
        topics=(topic,),
        starting=_bound("--start", topic, start, EARLIEST),
        ending=_bound("--end", topic, end, LATEST),
        read_committed=isolation == "read_committed",
        partitions=None if partitions is None else _partitions(topic, partitions),
    )
    result = _export(options, _path(target))
    size = f"{result.files:,} files, {result.nbytes / 1e6:,.1f} MB"
    click.echo(f"{result.rows:,} rows of {topic} in {_path(target)} ({size})")


def _path(target: str) -> Path:
    kind, separator, path = target.partition(":")
    if kind != "parquet" or not separator or not path:
        raise PipelineError(f"--to {target}: an export writes Parquet; write parquet:PATH")
    return Path(path)


def _partitions(topic: str, text: str) -> frozenset[TopicPartition]:
    numbers: set[int] = set()
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            numbers |= set(range(int(first), int(last or first) + 1))
    except ValueError:
        raise PipelineError(f"--partitions {text}: expected numbers, such as 0,2,5-7") from None
    return frozenset(TopicPartition(topic, number) for number in numbers)


def _bound(option: str, topic: str, text: str, default: int) -> Bound:
    from kafkapy.log.offsets_json import parse_offsets
    from kafkapy.log.read_options import Bound
    from kafkapy.protocol.special_timestamps import EARLIEST, LATEST

    words = {"earliest": EARLIEST, "latest": LATEST}
    if text in words:
        return Bound(option, words[text])
    if text.lstrip().startswith("{"):
        return Bound(option, default, offsets=parse_offsets(option, f"{{{json.dumps(topic)}: {text}}}"))
    try:
        return Bound(option, default, timestamp=timestamp_ms(text))
    except PipelineError as error:
        offsets = "offsets such as '{\"0\": 12}'"
        raise PipelineError(f"{option}: {error}; or else earliest, latest, {offsets}") from None


def _export(options: ReadOptions, target: Path) -> ExportResult:
    """Runs the export, with a progress bar in a terminal."""
    from kafkapy.pipeline.export import Progress
    from kafkapy.pipeline.export import export as write
    from kafkapy.terminal.progress_bar import ProgressBar, Unit

    class Shown(Progress):
        rows = 0

        def planned(self, nbytes: int) -> None:
            bar.expect(nbytes)

        def read(self, nbytes: int, rows: int) -> None:
            # Several threads call it: the sum of rows may lag by a batch for a moment.
            self.rows += rows
            bar.advance(nbytes)
            bar.tell(f"{self.rows:,} rows")

    with ProgressBar(options.topics[0], unit=Unit.BYTES) as bar:
        return write(options, target, Shown())
