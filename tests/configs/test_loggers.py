"""Levels are those of Kafka, and no client reaches another logger of the process."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kafkapy.configs import loggers as broker_loggers
from kafkapy.configs.changes import Change, Operator
from kafkapy.protocol.errors import ErrorCode, KafkaError

NAME = "kafkapy.tests.some_module"
SET, DELETE, APPEND = Operator.SET, Operator.DELETE, Operator.APPEND


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger(NAME)
    root = logging.getLogger("kafkapy")
    before = root.level
    yield found
    found.setLevel(logging.NOTSET)
    root.setLevel(before)


@pytest.mark.parametrize(
    ("level", "number"),
    [("TRACE", 5), ("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)],
)
def test_each_level_is_set_and_shown(logger: logging.Logger, level: str, number: int) -> None:
    broker_loggers.alter([Change(NAME, SET, level)])
    assert logger.level == number
    assert broker_loggers.levels()[NAME] == level


def test_the_root_is_above_the_brokers_loggers_and_no_others(logger: logging.Logger) -> None:
    before = logging.getLogger().level
    broker_loggers.alter([Change("root", SET, "ERROR")])
    assert broker_loggers.levels()[NAME] == "ERROR"
    assert logging.getLogger().level == before
    assert {"root", NAME} <= broker_loggers.levels().keys()
    assert not any(name.startswith(("pytest", "asyncio")) for name in broker_loggers.levels())


def test_a_level_that_is_taken_back_is_that_of_the_logger_above(logger: logging.Logger) -> None:
    broker_loggers.alter([Change("root", SET, "INFO"), Change(NAME, SET, "ERROR")])
    broker_loggers.alter([Change(NAME, DELETE, None)])
    assert broker_loggers.levels()[NAME] == "INFO"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (Change(NAME, SET, "debug"), ErrorCode.INVALID_CONFIG),
        (Change(NAME, SET, ""), ErrorCode.INVALID_CONFIG),
        (Change(NAME, SET, None), ErrorCode.INVALID_REQUEST),
        (Change(NAME, APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        (Change("asyncio", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (Change("kafkapy.no_such_logger", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (Change("root", DELETE, None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_changes_are_made_all_or_none(logger: logging.Logger, change: Change, code: ErrorCode) -> None:
    first = Change("root", SET, "FATAL")
    if change.name == "root":
        first = Change(NAME, SET, "FATAL")
    with pytest.raises(KafkaError) as refused:
        broker_loggers.alter([first, change])
    assert refused.value.code == code
    assert "FATAL" not in broker_loggers.levels().values()


def test_validation_alone_changes_nothing(logger: logging.Logger) -> None:
    broker_loggers.alter([Change(NAME, SET, "FATAL")], validate_only=True)
    assert logger.level == logging.NOTSET
