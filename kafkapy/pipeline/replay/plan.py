"""Which task of a replay produces which source partitions, and how fast.

All of a partition is in one task, for its order. Partitions are dealt out largest first, each to the task
that has least. With a rate there are as many tasks as run at once, each with the share of the rate that it
has of the records. So they end together, and in sum keep to the rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ReplayPlan:
    """The task of each partition, and its rate.

    `task_of` has the task of each partition. `rates` has that task's records a second, if there is a bound.
    """

    tasks: int
    task_of: dict[int, int]
    rates: dict[int, float] | None


def plan_replay(counts: Mapping[int, int], at_once: int, rate: float | None) -> ReplayPlan:
    """Deals the partitions out to tasks.

    `counts` has the records of each partition, at least one. `at_once` is how many tasks run at a time.
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
