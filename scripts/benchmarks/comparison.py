"""A suite that runs loads on one server after the other and compares their figures."""

from __future__ import annotations

import argparse
import datetime
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from scripts.benchmarks.load import ColdLoad, Figures, Load, Size, Target, TargetT
from scripts.benchmarks.servers import DESCRIPTIONS, FAILURES, new_server
from scripts.benchmarks.table import machine, markdown, medians, told
from scripts.results import write_results

Loads = Mapping[str, Load[TargetT] | ColdLoad]
Started = Callable[[str, Path], AbstractContextManager[TargetT]]
"""Runs the server, or the cluster, of a name in a folder."""


def parser_of(module: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser for a suite, by its module's name; its help is the module's docstring."""
    suite = module.rpartition(".")[2].replace("_", "-")
    return argparse.ArgumentParser(
        prog=f"scripts/bench {suite}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def compare_one_server(
    module: str,
    doc: str | None,
    options: Sequence[str],
    loads: Loads[Target],
    properties: Mapping[str, str] | None = None,
) -> int:
    """Run the loads of a suite on kafkapy and on Apache Kafka; the exit status.

    A server is started for each load. It has the settings of its column, and `properties` besides.
    """

    @contextmanager
    def started(name: str, folder: Path) -> Iterator[Target]:
        with new_server(name, folder, properties) as server:
            yield Target(server)

    return compare(module, doc, options, loads, started, DESCRIPTIONS, ["kafkapy", "kafka"])


def compare(
    module: str,
    doc: str | None,
    options: Sequence[str],
    loads: Loads[TargetT],
    started: Started[TargetT],
    descriptions: Mapping[str, str],
    by_default: Sequence[str],
    *,
    in_turn: bool = False,
) -> int:
    """Run the loads of a suite and print their tables; 1 if one of them failed.

    `descriptions` are those of the servers by name, and `by_default` those that are compared. With `in_turn`
    all servers run at once, and each repetition is one on every server, so that a busy hour meets them all.
    """
    arguments = _arguments(module, doc, options, loads, descriptions)
    names = arguments.load or [name for name, load in loads.items() if load.by_default]
    servers = arguments.server or by_default
    size = Size(arguments.scale, arguments.repeat, arguments.warm_up)
    results: dict[str, dict[str, list[Figures]]] = {name: {} for name in names}
    for name in names:
        for together in [servers] if in_turn else [[server] for server in servers]:
            start = time.monotonic()
            try:
                measured = _measure(loads[name], together, started, size)
            except FAILURES as problem:
                print(f"{name} on {' and '.join(together)} failed: {problem}", file=sys.stderr)
                continue
            results[name].update(measured)
            seconds = time.monotonic() - start
            for server, repetitions in measured.items():
                print(f"{name} on {server} ({seconds:.0f} s): {told(medians(repetitions))}", file=sys.stderr)

    lines = [f"Measured {datetime.date.today().isoformat()} on {machine()}; {_conditions(size)}.", ""]
    lines += [f"- `{server}`: {descriptions[server]}" for server in servers]
    for name, by_server in results.items():
        figures = {server: medians(repetitions) for server, repetitions in by_server.items()}
        lines += ["", markdown(f"`{name}`: {loads[name].title}", figures, servers).rstrip()]
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.markdown:
        arguments.markdown.write_text(text)
    if arguments.json:
        write_results(arguments.json, {"machine": machine(), "size": size._asdict(), "loads": results})
    return 0 if all(len(by_server) == len(servers) for by_server in results.values()) else 1


def _measure(
    load: Load[TargetT] | ColdLoad, servers: Sequence[str], started: Started[TargetT], size: Size
) -> dict[str, list[Figures]]:
    """The figures of each repetition of one load, by server."""
    found: dict[str, list[Figures]] = {server: [] for server in servers}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        if isinstance(load, ColdLoad):
            for number, server in itertools.product(range(size.repetitions), servers):
                found[server].append(load.run(server, folder / f"{server}-{number}"))
            return found
        targets = {server: stack.enter_context(started(server, folder / server)) for server in servers}
        for target in targets.values():
            load.warm(target, size)
        for _ in range(size.repetitions):
            for server, target in targets.items():
                found[server].append(load.run(target, size.scale))
    return found


def _conditions(size: Size) -> str:
    warm_up = f" after {size.warm_up_seconds:g} s of the load" if size.warm_up_seconds else ""
    return f"scale {size.scale:g}, median of {size.repetitions}{warm_up}"


def _arguments(
    module: str,
    doc: str | None,
    options: Sequence[str],
    loads: Loads[TargetT],
    descriptions: Mapping[str, str],
) -> argparse.Namespace:
    parser = parser_of(module, doc)
    titles = "; ".join(f"{name}: {load.title}" for name, load in loads.items())
    servers = "; ".join(f"{name}: {text}" for name, text in descriptions.items())
    parser.add_argument("--load", action="append", choices=loads, metavar="NAME", help=titles)
    parser.add_argument("--server", action="append", choices=descriptions, metavar="NAME", help=servers)
    parser.add_argument("--scale", type=float, default=1.0, help="size of the loads, 1 by default")
    parser.add_argument(
        "--warm-up",
        type=float,
        default=0,
        metavar="SECONDS",
        help="repeat each load for so long before it counts (default: a fifth of one repetition)",
    )
    parser.add_argument("--repeat", type=int, default=3, help="repetitions; the median counts")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file")
    return parser.parse_args(options)
