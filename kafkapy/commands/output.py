"""The output of a command, as the user wants it: aligned text, JSON or YAML.

Text is a table in colour on a terminal; elsewhere the same columns, with the header, without colours. JSON
and YAML have the same names, and values in their types. A command's output is one document; with `lines`,
each row is one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from rich.table import Table

FORMATS: Final = ("text", "json", "yaml")

Row = Mapping[str, Any]


class Output:
    """Writes rows and objects in one of FORMATS."""

    def __init__(self, format_: str) -> None:
        self.format = format_

    def rows(self, rows: Iterable[Row], columns: Sequence[str], *, empty: str = "") -> None:
        """Write a table of these columns; JSON and YAML have all values of the rows.

        `empty` is the text if there are no rows; it goes to standard error.
        """
        rows = list(rows)
        if self.format != "text":
            self._document(rows)
        elif not rows:
            click.echo(empty or "nothing was found.", err=True)
        elif sys.stdout.isatty():
            _print_table(table(rows, columns))
        else:
            for line in aligned(rows, columns):
                click.echo(line)

    def item(self, item: Row) -> None:
        """Write one object, in text a line a value."""
        if self.format != "text":
            self._document(item)
            return
        width = max(map(len, item), default=0)
        for name, value in item.items():
            click.echo(f"{_heading(name) + ':':{width + 1}} {printable(cell(value))}")

    def line(self, row: Row, text: str) -> None:
        """Write one of many rows at once: `text`, or a document of one line."""
        if self.format == "text":
            click.echo(_harmless(text))
        elif self.format == "json":
            click.echo(_json(row))
        else:
            self._document([row])

    def note(self, text: str) -> None:
        """Tell the user something that is no output of the command."""
        click.echo(text, err=True)

    def _document(self, value: object) -> None:
        if self.format == "json":
            click.echo(_json(value, indent=2))
        else:
            import yaml

            plain = json.loads(json.dumps(value, default=str))
            try:
                text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
            except RecursionError:
                text = _json(value) + "\n"  # which is YAML, too
            click.echo(text, nl=False)


def cell(value: Any) -> str:
    """A value in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={cell(each)}" for name, each in value.items()) or "-"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(cell, value)) or "-"
    return str(value) or "-"


def aligned(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """The rows as lines, with a header; numbers are at the right of their column."""
    cells = [[_heading(column).upper() for column in columns]]
    cells += [[printable(cell(row.get(column))) for column in columns] for row in rows]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    right = [_is_number(rows, column) for column in columns]
    return [
        "  ".join(
            text.rjust(width) if at_right else text.ljust(width)
            for text, width, at_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in cells
    ]


def table(rows: Sequence[Row], columns: Sequence[str]) -> Table:
    """The rows as a table for a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold cyan")
    for column in columns:
        made.add_column(
            _heading(column), justify="right" if _is_number(rows, column) else "left", overflow="fold"
        )
    for row in rows:
        made.add_row(*(escape(printable(cell(row.get(column)))) for column in columns))
    return made


def _print_table(made: Table) -> None:
    from rich.console import Console

    Console(highlight=False).print(made)


def printable(text: str) -> str:
    """Names and records come from anybody: no control character reaches the terminal."""
    return "".join(char if char.isprintable() else "�" for char in text)


def _harmless(text: str) -> str:
    """Text of many lines: on a terminal, only tabs and line breaks control it."""
    if sys.stdout.isatty():
        return "".join(char if char.isprintable() or char in "\t\n" else "�" for char in text)
    return text.encode(errors="replace").decode()  # JSON may have half of a surrogate pair


def _json(value: object, indent: int | None = None) -> str:
    """JSON; with escapes if characters cannot be written, or would control the terminal."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    if sys.stdout.isatty():
        is_harmless = text.replace("\n", "").isprintable()
    else:
        is_harmless = not any("\ud800" <= char <= "\udfff" for char in text)
    return text if is_harmless else json.dumps(value, indent=indent, default=str)


def _heading(column: str) -> str:
    return column.replace("_", " ")


def _is_number(rows: Sequence[Row], column: str) -> bool:
    values = [row.get(column) for row in rows if row.get(column) is not None]
    return bool(values) and all(isinstance(each, int | float) and each is not True for each in values)
