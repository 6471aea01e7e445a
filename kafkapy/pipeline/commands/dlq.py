"""`kafkapy pipeline dlq list | show | replay PIPELINE`"""

from __future__ import annotations

import json
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

import click

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError

if TYPE_CHECKING:
    from kafkapy.pipeline.dead_letters.reader import DeadLetter
    from kafkapy.pipeline.dead_letters.source import SourceSet

_MOST_SHOWN: Final = 2_000  # characters, or bytes, of one value


_former = click.option(
    "--former", is_flag=True, help="Dead letters of a former topic with this name, which was recreated since."
)


@click.group()
def dlq() -> None:
    """List, show and replay dead letters: the records that could not become rows.

    PIPELINE is a YAML file or a table. Spark is needed only to find catalog.schema.table.
    """


@dlq.command(name="list")
@click.argument("pipeline", metavar="PIPELINE")
@_former
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(pipeline: str, former: bool, as_json: bool) -> None:
    """Count the dead letters by error and partition."""
    from kafkapy.pipeline.dead_letters.reader import dead_letter_topic, dead_letters, iso
    from kafkapy.pipeline.dead_letters.replay import replayed_sources
    from kafkapy.pipeline.topics import Topics

    definition = _load(pipeline)
    topics = Topics(definition.bootstrap, definition.kafka_options)
    replayed, repeats = replayed_sources(definition), Counter[Any]()
    counts: dict[tuple[str, int], dict[str, Any]] = {}
    others = 0
    for letter in dead_letters(definition, topics, repeats):
        if letter.former != former:
            others += 1
            continue
        entry = counts.setdefault(
            (letter.kind, letter.source.partition),
            {"letters": 0, "replayed": 0, "first": letter.written, "last": letter.written},
        )
        entry["letters"] += 1
        entry["replayed"] += letter.source in replayed
        entry["first"], entry["last"] = (
            min(entry["first"], letter.written),
            max(entry["last"], letter.written),
        )
    groups = [
        {
            "error": error,
            "partition": partition,
            **entry,
            "first": iso(entry["first"]),
            "last": iso(entry["last"]),
        }
        for (error, partition), entry in sorted(counts.items(), key=lambda one: -one[1]["letters"])
    ]
    answer = {
        "pipeline": definition.name,
        "topic": dead_letter_topic(definition),
        "letters": sum(one["letters"] for one in groups),
        "replayed": sum(one["replayed"] for one in groups),
        "repeats": repeats.total(),
        "of_former_topic": sum(one["letters"] for one in groups) if former else others,
        "errors": groups,
    }
    if as_json:
        click.echo(json.dumps(answer, indent=1))
        return
    of_former = " of a former topic" if former else ""
    click.echo(
        f"{definition.name}: {answer['letters']:,} dead letters{of_former} in {answer['topic']}, "
        f"{answer['replayed']:,} of them replayed"
    )
    if others and not former:
        click.echo(f"{others:,} are of a former topic {definition.topic}: --former lists these")
    rows = [("letters", "replayed", "partition", f"{'first':24}", f"{'last':24}", "error")] if groups else []
    for one in groups:
        numbers = (f"{one['letters']:,}", f"{one['replayed']:,}", str(one["partition"]))
        rows.append((*numbers, one["first"], one["last"], f"the record {one['error']}"))
    for letters, replays, partition, *texts in rows:
        click.echo(f"{letters:>7}  {replays:>8}  {partition:>9}  " + "  ".join(texts))


@dlq.command()
@click.argument("pipeline", metavar="PIPELINE")
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), default=10, help="Show the last N; default: 10."
)
@click.option("--source", metavar="TOPIC-PARTITION-OFFSET", help="Show only that of this record.")
@_former
def show(pipeline: str, limit: int, source: str | None, former: bool) -> None:
    """Print dead letters: error, key, value and headers.

    Bytes that are not text are shown in hex.
    """
    from kafkapy.pipeline.dead_letters.reader import dead_letters
    from kafkapy.pipeline.dead_letters.replay import replayed_sources
    from kafkapy.pipeline.dead_letters.source import Source
    from kafkapy.pipeline.topics import Topics

    definition = _load(pipeline)
    if source is not None and Source.parse(source) is None:
        raise PipelineError(f"--source: expected TOPIC-PARTITION-OFFSET, not {source!r}")
    topics = Topics(definition.bootstrap, definition.kafka_options)
    letters = (one for one in dead_letters(definition, topics) if one.former == former)
    chosen = deque((one for one in letters if source in (None, str(one.source))), maxlen=limit)
    if not chosen:
        of_record = f" of {source}" if source else ""
        click.echo(f"{definition.name} has no dead letter{of_record}.")
    replayed = replayed_sources(definition)
    for number, letter in enumerate(chosen):
        click.echo(("\n" if number else "") + "\n".join(_lines(letter, replayed)))


@dlq.command()
@click.argument("pipeline", metavar="PIPELINE")
@click.option("--to", metavar="TOPIC", help="Send them to TOPIC instead of the topic they come from.")
@click.option("--where-error", metavar="TEXT", help="Only those whose error contains TEXT.")
@_former
def replay(pipeline: str, to: str | None, where_error: str | None, former: bool) -> None:
    """Send dead letters back into their topic, for the pipeline to read them again.

    Each is sent once: those that were replayed before are skipped. All readers of the topic get them. In an
    upsert table, a replayed record counts as the newest of its key.
    """
    from kafkapy.pipeline.dead_letters.replay import replay_dead_letters

    definition = _load(pipeline)
    result = replay_dead_letters(definition, to=to, where_error=where_error, former=former)
    before = f"; {result.before:,} had been replayed before" if result.before else ""
    click.echo(f"{definition.name}: {result.replayed:,} dead letters replayed into {result.topic}{before}")


def _load(pipeline: str) -> PipelineDefinition:
    from kafkapy.spark.cli import notes

    with notes("kafkapy.spark"):
        return PipelineDefinition.load(pipeline)


def _lines(letter: DeadLetter, replayed: SourceSet) -> list[str]:
    from kafkapy.pipeline.dead_letters.reader import iso

    lines = [f"{letter.source}: the record {letter.error}"]
    facts = {
        "timestamp": None if letter.timestamp is None else iso(letter.timestamp),
        "written": iso(letter.written),
        "schema id": letter.schema_id,
        "replayed from": letter.replayed_from,
        "replayed": "yes" if letter.source in replayed else None,
    }
    lines += [f"  {name:14}{value}" for name, value in facts.items() if value is not None]
    lines += [f"  {'header':14}{name}: {_readable(value)}" for name, value in letter.headers]
    lines += [f"  {'key':14}{_readable(letter.key)}", f"  {'value':14}{_readable(letter.value)}"]
    return lines


def _readable(content: bytes | None) -> str:
    """The content as text, or in hex if it is not UTF-8."""
    if content is None:
        return "null"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""
    if not all(one.isprintable() or one in "\n\t" for one in text) or (content and not text):
        shown = content[:_MOST_SHOWN].hex(" ")
        return f"hex {shown}" + _rest(len(content) - _MOST_SHOWN, "bytes")
    indented = text[:_MOST_SHOWN].replace("\n", "\n" + " " * 16)
    return indented + _rest(len(text) - _MOST_SHOWN, "characters")


def _rest(more: int, unit: str) -> str:
    return f" ... and {more:,} {unit} more" if more > 0 else ""
