"""Source partitions are dealt out to tasks, and a rate with them."""

from __future__ import annotations

import pytest

from kafkapy.pipeline.replay.plan import plan_replay


def test_without_a_rate_each_partition_has_a_task_of_its_own() -> None:
    plan = plan_replay({0: 10, 1: 20, 5: 1}, at_once=2, rate=None)
    assert plan.tasks == 3
    assert sorted(plan.task_of) == [0, 1, 5]
    assert sorted(plan.task_of.values()) == [0, 1, 2]
    assert plan.rates is None


def test_with_a_rate_there_are_no_more_tasks_than_run_at_once() -> None:
    plan = plan_replay({0: 50, 1: 30, 2: 20, 3: 100}, at_once=2, rate=1_000)
    assert plan.tasks == 2
    assert plan.task_of[3] != plan.task_of[0] == plan.task_of[1] == plan.task_of[2]


def test_tasks_share_the_rate_by_their_records() -> None:
    plan = plan_replay({0: 300, 1: 100}, at_once=8, rate=100)
    assert plan.rates == pytest.approx({0: 75, 1: 25})


def test_partitions_of_one_task_have_its_rate() -> None:
    plan = plan_replay({0: 300, 1: 100, 2: 100}, at_once=2, rate=100)
    assert plan.rates == pytest.approx({0: 60, 1: 40, 2: 40})


def test_one_partition_has_the_whole_rate() -> None:
    plan = plan_replay({7: 3}, at_once=4, rate=2.5)
    assert (plan.tasks, plan.task_of, plan.rates) == (1, {7: 0}, {7: 2.5})
