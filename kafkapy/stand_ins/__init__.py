"""Stand-ins for what starts Kafka in tests.

Suites run unedited, with brokers of kafkapy.

`kafka_stand_in = testcontainers` or `pytest_kafka` in pytest's configuration replaces the modules of that
name before the suite imports them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

NAMES: Final = ("pytest_kafka", "testcontainers")
"""What can be stood in for; each is a module of this package with `install`."""


def install(name: str) -> None:
    """Let the modules that a suite imports be the stand-in's."""
    import_module(f"{__name__}.{name}").install()
