"""Where faults are served by HTTP, and where a command finds that."""

from __future__ import annotations

from typing import Final

HOST: Final = "127.0.0.1"
PATH: Final = "/faults"
VARIABLE: Final = "KAFKAPY_FAULTS_URL"
"""The variable of the environment in which `kafkapy run` tells its command the URL."""
