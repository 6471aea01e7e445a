"""scripts/simulate: run seeds, and tell which of them break a promise."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from kafkapy.virtual.world import SimulationError
from tests.simulation.bugs import BUGS_OF_CONTROLLERS, BUGS_OF_ONE_BROKER, BUGS_OF_THREE_BROKERS, Bug
from tests.simulation.deposed_controllers import deposed_controllers
from tests.simulation.report import Finding, FoundBug, Report
from tests.simulation.run import FAULT_SECONDS, Outcome, Scene, simulate
from tests.simulation.seeds import SEEDS_TO_FIND_A_BUG
from tests.simulation.single_broker import single_broker
from tests.simulation.three_brokers import three_brokers

SCENES: Final[Mapping[str, Scene]] = {
    "deposed": deposed_controllers,
    "one": single_broker,
    "three": three_brokers,
}

BUGS: Final[Mapping[str, tuple[Bug, ...]]] = {
    "deposed": BUGS_OF_CONTROLLERS,
    "one": BUGS_OF_ONE_BROKER,
    "three": BUGS_OF_THREE_BROKERS,
}


class Task(NamedTuple):
    """One run."""

    scene: str
    seed: int
    fault_seconds: float


def main() -> int:
    """The command; 1 if a promise was broken, or a planted bug was not found."""
    parser = argparse.ArgumentParser(
        prog="scripts/simulate",
        description="Run brokers in a simulated world. Each seed is another run; a run can be repeated by its"
        " seed. A run that breaks a promise is shown with its last events.",
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many runs of each scene (default: 100)")
    parser.add_argument("--seed", type=int, help="the first seed (default: a random one)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=FAULT_SECONDS,
        help=f"how long the faults of a run continue, in its world's time (default: {FAULT_SECONDS:g})",
    )
    parser.add_argument("--scene", choices=sorted(SCENES), help="only this scene")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes (default: 1)")
    parser.add_argument("--minutes", type=float, help="begin no run after this time")
    parser.add_argument("--bugs", action="store_true", help="also look how soon each planted bug is found")
    parser.add_argument("--report", type=Path, help="write what was run and found to this file")
    parser.add_argument("--trace", type=Path, help="write every event to this file; with one job only")
    arguments = parser.parse_args()
    if arguments.trace is not None and arguments.jobs > 1:
        parser.error("--trace needs --jobs 1")
    first = random.SystemRandom().randrange(10**9) if arguments.seed is None else arguments.seed
    names = sorted(SCENES) if arguments.scene is None else [arguments.scene]
    deadline = None if arguments.minutes is None else time.monotonic() + 60 * arguments.minutes
    report = Report(first, arguments.seconds)
    tasks = (
        Task(name, seed, arguments.seconds)
        for seed in range(first, first + arguments.seeds)
        for name in names
    )
    if arguments.trace is not None:
        with arguments.trace.open("w") as trace:
            for task in tasks:
                _add(report, task, _run(task, trace=lambda line: print(line, file=trace)))
    else:
        for task, result in _in_processes(tasks, arguments.jobs, deadline):
            _add(report, task, result)
    if arguments.bugs:
        report.bugs += [_look_for(bug, name) for name in names for bug in BUGS[name]]
    print(report.summary())
    if arguments.report is not None:
        arguments.report.write_text(report.text())
    return 1 if report.findings or any(each.runs is None for each in report.bugs) else 0


class Result(NamedTuple):
    """What came of a run: an outcome, or how it broke a promise."""

    outcome: Outcome | None
    failure: str
    cpu_seconds: float


def _run(task: Task, trace: object = None) -> Result:
    started = time.process_time()
    try:
        outcome = simulate(
            SCENES[task.scene],
            task.seed,
            trace if callable(trace) else None,
            fault_seconds=task.fault_seconds,
        )
    except SimulationError as error:
        return Result(None, str(error), time.process_time() - started)
    return Result(outcome, "", time.process_time() - started)


def _in_processes(tasks: Iterable[Task], jobs: int, deadline: float | None) -> Iterator[tuple[Task, Result]]:
    """The results, as they come; no run begins after `deadline`."""
    left = iter(tasks)
    running: dict[Future[Result], Task] = {}
    with ProcessPoolExecutor(jobs) as pool:
        while True:
            if deadline is None or time.monotonic() < deadline:
                running |= {pool.submit(_run, task): task for task in islice(left, 2 * jobs - len(running))}
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()


def _add(report: Report, task: Task, result: Result) -> None:
    report.cpu_seconds[task.scene] += result.cpu_seconds
    if result.outcome is not None:
        report.add(task.scene, result.outcome)
    else:
        print(f"--seed {task.seed} --scene {task.scene}: {result.failure}\n", file=sys.stderr, flush=True)
        report.findings.append(Finding(task.scene, task.seed, result.failure.partition("\n")[0]))


def _look_for(bug: Bug, name: str) -> FoundBug:
    """Run seeds with a planted bug until one breaks a promise."""
    for seed in range(SEEDS_TO_FIND_A_BUG):
        try:
            with bug():
                simulate(SCENES[name], seed)
        except SimulationError as error:
            return FoundBug(bug.__name__, name, seed + 1, str(error).partition("\n")[0])
    return FoundBug(bug.__name__, name, None, "")
