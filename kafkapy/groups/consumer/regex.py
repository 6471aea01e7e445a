"""The topics of subscriptions by regular expression (`kafkapy.process.patterns`).

Source: Apache Kafka's TopicRegexResolver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafkapy.process.patterns import PatternError, compile_pattern
from kafkapy.protocol.errors import ErrorCode, KafkaError


def error_in(regex: str) -> KafkaError | None:
    """INVALID_REGULAR_EXPRESSION unless RE2 can compile the expression.

    It may take long: the first call loads the library, and expressions may be large.
    """
    try:
        compile_pattern(regex)
    except PatternError as error:
        return KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        )
    return None


def matching_topics(regexes: Iterable[str], topics: Collection[str]) -> dict[str, frozenset[str]]:
    """For each expression, the topics whose whole name it matches.

    It may take long with very many topics. An expression that cannot be compiled matches nothing.
    """
    found = {}
    for regex in regexes:
        try:
            pattern = compile_pattern(regex)
        except PatternError:
            found[regex] = frozenset[str]()
        else:
            found[regex] = frozenset(name for name in topics if pattern.fullmatch(name))
    return found
