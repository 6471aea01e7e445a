"""Loops over what a request names: the order of the answers, and a step for each thing."""

from __future__ import annotations

from typing import TypeVar

from kafkapy.handlers.per_partition import answer_each, answer_partitions, visit_partitions
from kafkapy.loop.turns import Steps

T = TypeVar("T")

TOPICS = {"a": [0, 2], "b": [], "c": [1]}


def run(steps: Steps[T]) -> tuple[T, int]:
    """The result, and the number of steps."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result, count
        count += 1


def test_each_thing_is_answered_in_order_with_a_step_for_each() -> None:
    assert run(answer_each([3, 1, 3], str)) == (["3", "1", "3"], 3)


def test_topics_are_answered_in_order_with_their_partitions() -> None:
    answers, _ = run(
        answer_partitions(
            TOPICS,
            TOPICS.__getitem__,
            lambda topic, partition: f"{topic}-{partition}",
            lambda topic, partitions: (topic, partitions),
        )
    )
    assert answers == [("a", ["a-0", "a-2"]), ("b", []), ("c", ["c-1"])]


def test_topics_without_partitions_take_steps_too() -> None:
    def no_partitions(_: int) -> list[int]:
        return []

    def answer(topic: int, _: int) -> int:
        return topic

    _, steps = run(answer_partitions(range(1_000), no_partitions, answer, lambda topic, _: topic))
    assert steps == 1_000
    assert run(visit_partitions(range(1_000), no_partitions, answer)) == (None, 1_000)


def test_each_partition_is_visited_with_its_topic() -> None:
    visited: list[tuple[str, int]] = []
    _, steps = run(
        visit_partitions(
            TOPICS, TOPICS.__getitem__, lambda topic, partition: visited.append((topic, partition))
        )
    )
    assert visited == [("a", 0), ("a", 2), ("c", 1)]
    assert steps == 3 + 3
