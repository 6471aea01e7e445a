"""Loops over what a request names, which let other requests be served in between.

A request may name a million things. Each loop here takes a step (loop/turns.py) for each of them, topics
without partitions included, so a handler that uses these loops needs no `yield` of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from kafkapy.loop.turns import Steps

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")
S = TypeVar("S")


def answer_each(things: Iterable[T], answer: Callable[[T], R]) -> Steps[list[R]]:
    """The answer to each thing, in their order."""
    answers = []
    for thing in things:
        yield
        answers.append(answer(thing))
    return answers


def answer_partitions(
    topics: Iterable[T],
    partitions: Callable[[T], Iterable[P]],
    answer: Callable[[T, P], R],
    of_topic: Callable[[T, list[R]], S],
) -> Steps[list[S]]:
    """The answer to each topic, which `of_topic` makes of the answers to its partitions."""
    answers = []
    for topic in topics:
        yield
        of_partitions = []
        for partition in partitions(topic):
            yield
            of_partitions.append(answer(topic, partition))
        answers.append(of_topic(topic, of_partitions))
    return answers


def visit_partitions(
    topics: Iterable[T], partitions: Callable[[T], Iterable[P]], visit: Callable[[T, P], object]
) -> Steps[None]:
    """Call `visit(topic, partition)` for each partition that is named."""
    for topic in topics:
        yield
        for partition in partitions(topic):
            yield
            visit(topic, partition)
