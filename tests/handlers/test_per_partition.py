"""Loops over what a request names: the order of the answers, and a step for each thing."""

from __future__ import annotations

from typing import TypeVar

from kafkapy.handlers.per_partition import (
    answer_by_topic,
    answer_each,
    answer_in_steps,
    answer_partitions,
    visit_each,
    visit_partitions,
)
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


def test_an_answer_of_none_is_left_out_and_takes_a_step_all_the_same() -> None:
    def if_even(number: int) -> int | None:
        return None if number % 2 else number

    assert run(answer_each(range(1_000), if_even)) == (list(range(0, 1_000, 2)), 1_000)
    by_topic, steps = run(
        answer_partitions(
            TOPICS, TOPICS.__getitem__, lambda _, partition: if_even(partition), lambda *found: found
        )
    )
    assert (by_topic, steps) == ([("a", [0, 2]), ("b", []), ("c", [])], 3 + 3)


def test_answers_are_put_by_topic_in_the_order_in_which_topics_are_met() -> None:
    things = [("b", 1), ("a", 0), ("none", 7), ("b", 0)]
    answers, steps = run(
        answer_by_topic(
            things,
            lambda thing: None if thing[0] == "none" else thing,
            lambda topic, partitions: f"{topic}: {partitions}",
        )
    )
    assert (answers, steps) == (["b: [1, 0]", "a: [0]"], len(things) + 2)


def test_an_answer_that_takes_steps_adds_them() -> None:
    answers, steps = run(answer_in_steps([3, 0, 2], lambda count: answer_each(range(count), str)))
    assert (answers, steps) == ([["0", "1", "2"], [], ["0", "1"]], 3 + 5)


def test_each_thing_is_visited_with_a_step_for_each() -> None:
    visited: list[int] = []
    assert run(visit_each(range(100), visited.append)) == (None, 100)
    assert visited == list(range(100))
