"""The plan of a replay: the task and the rate of each source partition.

A partition is produced by one task, which keeps its order. Partitions are assigned largest first, each to the
task with the fewest records. With a rate, the number of tasks is the number that can run at once. Each gets a
share of the rate in proportion to its records. So all tasks end together, and their sum keeps to the rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ReplayPlan:
    """The task of each partition, and its rate.

    `task_of` maps each partition to its task. `rates` maps it to the task's records per second; it is empty
    without a limit.
    """

    tasks: int
    task_of: dict[int, int]
    rates: dict[int, float] | None


def plan_replay(counts: Mapping[int, int], at_once: int, rate: float | None) -> ReplayPlan:
    """Assigns the partitions to tasks.

    `counts` is the number of records of each partition, at least one. `at_once` is the number of tasks that
    run at the same time.
    """
    tasks = len(counts) if rate is None else min(len(counts), at_once)
    loads = [0] * tasks
    task_of: dict[int, int] = {}
    for partition in sorted(counts, key=lambda one: (-counts[one], one)):
        task = loads.index(min(loads))
        task_of[partition] = task
        loads[task] += counts[partition]
    if rate is None:
        return ReplayPlan(tasks, task_of, None)
    shares = [rate * load / sum(loads) for load in loads]
    return ReplayPlan(tasks, task_of, {partition: shares[task] for partition, task in task_of.items()})
