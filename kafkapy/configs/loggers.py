"""The levels of the broker's loggers, for clients to read and change (KIP-412).

Loggers have the names of the modules that log. `root` stands for `kafkapy`, the parent of all of them:
clients cannot change other loggers of the process. Levels range from TRACE (5 in Python) to FATAL (Python's
CRITICAL). A changed level lasts until the broker stops. Source: Kafka's RuntimeLoggerManager,
LoggingController.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from kafkapy.configs.changes import Change, Operator, check_changes
from kafkapy.protocol.errors import ErrorCode, KafkaError

ROOT: Final = "root"
LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_PARENT: Final = "kafkapy"


def levels() -> dict[str, str]:
    """The level in effect of each logger, by name."""
    return {name: _level(logger) for name, logger in sorted(_loggers().items())}


def alter(changes: Sequence[Change], *, validate_only: bool = False) -> None:
    """Change the levels of some loggers, all or none.

    A logger whose level is deleted has the level of its parent.

    Raises:
        KafkaError: refused.
    """
    check_changes(changes)
    loggers = _loggers()
    for change in changes:
        _check(change, loggers)
    if validate_only:
        return
    for name, operator, level in changes:
        loggers[name].setLevel(LEVELS[level or ""] if operator == Operator.SET else logging.NOTSET)


def _check(change: Change, loggers: Mapping[str, logging.Logger]) -> None:
    name, operator, level = change
    if operator not in (Operator.SET, Operator.DELETE):
        message = f"{Operator(operator).name} operation is not allowed for the BROKER_LOGGER resource"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if name not in loggers:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operator == Operator.DELETE and name == ROOT:
        message = "Removing the log level of the root logger is not allowed"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if operator == Operator.SET and level not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}",
        )


def _loggers() -> dict[str, logging.Logger]:
    """The existing loggers, by their names for clients."""
    found = {
        name: logger
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and name.startswith(f"{_PARENT}.")
    }
    return {ROOT: logging.getLogger(_PARENT), **found}


def _level(logger: logging.Logger) -> str:
    """The highest of Kafka's levels that is not above a logger's own."""
    number = logger.getEffectiveLevel()
    return next((name for name, each in reversed(LEVELS.items()) if number >= each), "TRACE")
