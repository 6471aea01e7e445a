"""Loops over what a request names, which let other requests be served in between.

A request may name a million things. Each loop here takes a step (loop/turns.py) for each of them, topics
without partitions included, so a handler that uses these loops needs no `yield` of its own. An answer of None
is left out.

A call for each thing costs some 50 ns. Only where that shows, in the answers that clients wait for at each
message or each start, a handler writes its loop out and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from kafkapy.loop.turns import Steps

K = TypeVar("K")
T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")
S = TypeVar("S")


def answer_each(things: Iterable[T], answer: Callable[[T], R | None]) -> Steps[list[R]]:
    """The answer to each thing, in their order."""
    answers = []
    for thing in things:
        yield
        if (each := answer(thing)) is not None:
            answers.append(each)
    return answers


def answer_in_steps(things: Iterable[T], answer: Callable[[T], Steps[R | None]]) -> Steps[list[R]]:
    """The answer to each thing, in their order, where a single answer may take long."""
    answers = []
    for thing in things:
        yield
        if (each := (yield from answer(thing))) is not None:
            answers.append(each)
    return answers


def answer_partitions(
    topics: Iterable[T],
    partitions: Callable[[T], Iterable[P]],
    answer: Callable[[T, P], R | None],
    of_topic: Callable[[T, list[R]], S],
) -> Steps[list[S]]:
    """The answer to each topic, which `of_topic` makes of the answers to its partitions."""
    answers = []
    for topic in topics:
        yield
        of_partitions = []
        for partition in partitions(topic):
            yield
            if (each := answer(topic, partition)) is not None:
                of_partitions.append(each)
        answers.append(of_topic(topic, of_partitions))
    return answers


def answer_by_topic(
    things: Iterable[T],
    answer: Callable[[T], tuple[K, R] | None],
    of_topic: Callable[[K, list[R]], S],
) -> Steps[list[S]]:
    """The answer to each topic, where things come without one: `answer` returns the topic too.

    Topics are in the order in which they are met.
    """
    by_topic: dict[K, list[R]] = {}
    for thing in things:
        yield
        if (each := answer(thing)) is not None:
            topic, of_partition = each
            by_topic.setdefault(topic, []).append(of_partition)
    return (yield from answer_each(by_topic.items(), lambda found: of_topic(*found)))


def visit_each(things: Iterable[T], visit: Callable[[T], object]) -> Steps[None]:
    """Call `visit` for each thing."""
    for thing in things:
        yield
        visit(thing)


def visit_partitions(
    topics: Iterable[T], partitions: Callable[[T], Iterable[P]], visit: Callable[[T, P], object]
) -> Steps[None]:
    """Call `visit(topic, partition)` for each partition that is named."""
    for topic in topics:
        yield
        for partition in partitions(topic):
            yield
            visit(topic, partition)
