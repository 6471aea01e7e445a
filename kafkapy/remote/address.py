"""Where faults, brokers and the clock are served by HTTP, and where commands find that."""

from __future__ import annotations

from typing import Final

HOST: Final = "127.0.0.1"
FAULTS: Final = "/faults"
"""Those of all brokers."""
BROKERS: Final = "/brokers"
"""The brokers; `/brokers/2` is one of them, and `/brokers/2/faults` are its faults."""
CLOCK: Final = "/clock"
FAULTS_VARIABLE: Final = "KAFKAPY_FAULTS_URL"
CLOCK_VARIABLE: Final = "KAFKAPY_CLOCK_URL"
"""The variables of the environment in which `kafkapy run` tells its command the URL."""
