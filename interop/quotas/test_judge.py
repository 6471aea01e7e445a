"""Rates, buckets of tokens and the precedence of quotas are those of Apache Kafka."""

from __future__ import annotations

import random

from interop.quotas.judge import KEPT, KEPT_COUNT, KEPT_SEED, answers, table
from tests.quotas.figures import answer, questions

COUNT = 400


def test_quotas_are_those_of_apache_kafkas_own_classes() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    asked = list(questions(seed, COUNT))
    for question, expected in zip(asked, answers(asked), strict=True):
        assert answer(question) == expected, question


def test_the_kept_figures_are_apache_kafkas() -> None:
    asked = list(questions(KEPT_SEED, KEPT_COUNT))
    assert KEPT.read_text() == table(asked, answers(asked))
