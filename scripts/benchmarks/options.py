"""Options that suites have in common."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class Titled(Protocol):
    """Has a title."""

    @property
    def title(self) -> str: ...


def parser_of(module: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser for a suite, by its module's name; its help is the module's docstring."""
    suite = module.rpartition(".")[2].replace("_", "-")
    return argparse.ArgumentParser(
        prog=f"scripts/bench {suite}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_loads(parser: argparse.ArgumentParser, loads: Mapping[str, Titled]) -> None:
    """--load, as often as one likes."""
    told = "; ".join(f"{name}: {load.title}" for name, load in loads.items())
    parser.add_argument("--load", action="append", choices=loads, metavar="NAME", help=told)


def add_repeat(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeat", type=int, default=3, help="repetitions; the median counts")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, help="write every figure to this file")


def add_markdown(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--markdown", type=Path, help="write the table to this file")


def add_dir(parser: argparse.ArgumentParser) -> None:
    """--dir, for data that a temporary file system would not hold."""
    parser.add_argument("--dir", type=Path, help="where the data goes; a temporary directory by default")
