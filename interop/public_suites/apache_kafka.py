"""A plugin of pytest: stand-ins for containers start Apache Kafka as a process.

So the seconds can be compared. It is as a container is, without what Docker adds. A schema registry beside it
is kafkapy's. KAFKAPY_PYTHON is the interpreter of this checkout.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kafkapy.stand_ins import container, testcontainers, testcontainers_core


class ApacheKafka:
    """Has what stand-ins need of a `kafkapy.Broker`."""

    def __init__(self, *, config: Mapping[str, str]) -> None:
        self._config = dict(config)
        self._process: subprocess.Popen[str] | None = None
        self.bootstrap_servers = ""

    def start(self) -> None:
        command = [os.environ["KAFKAPY_PYTHON"], "-m", "interop.public_suites.kafka_server"]
        self._process = subprocess.Popen(
            [*command, json.dumps(self._config)],
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.bootstrap_servers = self._process.stdout.readline().strip()
        assert self.bootstrap_servers, "Apache Kafka could not be started"

    def __exit__(self, *error: object) -> None:
        assert self._process is not None
        self._process.communicate()


for module in (container, testcontainers, testcontainers_core):
    module.Broker = ApacheKafka  # type: ignore[attr-defined]
