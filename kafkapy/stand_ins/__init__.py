"""Stand-ins for what starts Kafka in tests.

Suites run unedited, with brokers of kafkapy.

`kafka_stand_in = testcontainers`, `pytest_kafka` or `pytest_kafka_broker` in pytest's configuration replaces
the modules of that name before the suite imports them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import pytest

NAMES: Final = ("pytest_kafka", "pytest_kafka_broker", "testcontainers")
"""What can be stood in for; each is a module of this package with `install`."""


def install(name: str, config: pytest.Config) -> None:
    """Let the modules that a suite imports be the stand-in's, and its fixtures."""
    import_module(f"{__name__}.{name}").install(config)
