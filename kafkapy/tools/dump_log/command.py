"""`kafkapy dump-log FILE…`: what is in the files of a data directory.

Exit status: 0 all was shown; 1 something cannot be read, or with --verify something is wrong; 2 wrong usage.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from kafkapy.terminal.os_failure import end_with

if TYPE_CHECKING:
    from kafkapy.tools.dump_log.batches import Offsets
    from kafkapy.tools.dump_log.dump import Options
    from kafkapy.tools.dump_log.fact import Fact

_DECODERS = ("auto", "none", "offsets", "transactions", "share-state", "cluster-metadata")
_LINES = 1000
"""How many lines are written at once."""


@click.command("dump-log")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option("--deep", is_flag=True, help="Show records too.")
@click.option("--print-data", is_flag=True, help="Show keys and values too; implies --deep.")
@click.option(
    "--verify", is_flag=True, help="Show only what is wrong: CRCs, and indexes that contradict the log."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.option("--offsets", metavar="FIRST-LAST", help="Show only these offsets: 100-200, 100-, -200 or 100.")
@click.option(
    "--decoder",
    type=click.Choice(_DECODERS),
    default="auto",
    show_default=True,
    help="How to decode keys and values; auto knows the broker's own topics by name.",
)
def dump_log(
    paths: tuple[str, ...],
    deep: bool,
    print_data: bool,
    verify: bool,
    as_json: bool,
    offsets: str | None,
    decoder: str,
) -> None:
    """Show the files of a data directory: segments, indexes, checkpoints and all others.

    For a directory, all files in it are shown. Nothing is changed; a broker may be running.
    """
    from kafkapy.tools.dump_log.decoders import decoder_named
    from kafkapy.tools.dump_log.dump import Options

    options = Options(
        deep=deep,
        data=print_data,
        verify=verify,
        decode=decoder == "auto",
        decoder=None if decoder in ("auto", "none") else decoder_named(decoder),
        offsets=_range(offsets),
    )
    write = _json_lines if as_json else _text_lines
    try:
        wrong = _write(write, paths, options)
        sys.stdout.flush()
    except OSError as error:
        end_with(error, code=1)
    if wrong:
        sys.exit(1)


def _range(text: str | None) -> Offsets:
    from kafkapy.tools.dump_log.batches import ALL, Offsets

    if text is None:
        return ALL
    first, dash, last = text.strip().partition("-")
    if not (first or last) or not all(part.isascii() and part.isdecimal() for part in (first, last) if part):
        raise click.UsageError(f"--offsets {text}: give FIRST-LAST, such as 100-200, 100-, -200 or 100.")
    found = Offsets(int(first or 0), int(last) if last else ALL.last if dash else int(first))
    if found.last < found.first:
        raise click.UsageError(f"--offsets {text}: the last offset is below the first.")
    return found


def _write(write: Any, paths: tuple[str, ...], options: Options) -> bool:
    """Write the facts of all files, and return whether something is wrong."""
    from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
    from kafkapy.tools.dump_log.dump import dump_file
    from kafkapy.tools.dump_log.file_kinds import expand

    files = ReadOnlyFiles()
    wrong = False
    lines: list[str] = []
    for path in list(expand(paths)):
        for fact in dump_file(files, path, options):
            wrong = wrong or fact.is_problem or (options.verify and fact.kind == "batch")
            lines += write(path, fact)
            if len(lines) >= _LINES:
                print("\n".join(lines))
                lines.clear()
    if lines:
        print("\n".join(lines))
    return wrong


def _text_lines(_: str, fact: Fact) -> Iterator[str]:
    from kafkapy.tools.dump_log.text import text

    yield text(fact)


def _json_lines(path: str, fact: Fact) -> Iterator[str]:
    if fact.kind != "segment":
        values = {"kind": fact.kind, "file": path, **fact.values}
        yield json.dumps(values, ensure_ascii=False, separators=(",", ":"), default=_bytes)


def _bytes(value: Any) -> dict[str, str]:
    """Return JSON for keys and values that are not text."""
    return {"base64": base64.b64encode(value).decode()}
