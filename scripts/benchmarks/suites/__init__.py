"""The suites of `scripts/bench`: each module here is one.

A suite is named as its module is, with - for _. Its `main(options)` takes the command line's options and
prints the figures. When it could not measure all of them, it raises one of FAILURES or returns 1. Its
docstring is its help, the first line its line in the list.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from scripts.benchmarks.servers import FAILURES


def descriptions() -> dict[str, str]:
    """The first line of each suite by its name.

    It is read, not imported: one suite's import needs Spark.
    """
    modules = sorted(Path(__file__).parent.glob("[!_]*.py"))
    return {path.stem.replace("_", "-"): _first_line(path) for path in modules}


def _first_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring, f"{path} has no docstring"
    return docstring.splitlines()[0]


def run(name: str, options: Sequence[str]) -> int:
    """Run one suite; the exit status."""
    suite = import_module(f"{__name__}.{name.replace('-', '_')}")
    try:
        status: int = suite.main(options)
    except FAILURES as problem:
        print(f"bench {name}: {problem}", file=sys.stderr)
        return 1
    return status
