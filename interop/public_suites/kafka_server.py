"""An Apache Kafka for a suite in another venv.

It prints its address, and ends with its standard input.

python -m interop.public_suites.kafka_server '{"num.partitions": "3", "listeners": "PLAINTEXT://127.0.0.1:9092"}'

Of listeners only the port counts.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Final

from interop.support.kafka_process import KafkaProcess

_OWN: Final = frozenset({"listeners", "node.id", "broker.id"})
START_SECONDS: Final = 300.0


def kafka(folder: Path, config: dict[str, str]) -> KafkaProcess:
    """An Apache Kafka that is not started, with the settings of a stand-in."""
    process = KafkaProcess(
        folder, properties={name: each for name, each in config.items() if name not in _OWN}
    )
    port = config.get("listeners", ":0").rpartition(":")[2]
    if port != "0":
        address = f"127.0.0.1:{port}"
        listeners = process.properties["listeners"].replace(process.bootstrap_servers, address)
        process.properties |= {"listeners": listeners, "advertised.listeners": f"PLAINTEXT://{address}"}
        process.bootstrap_servers = address
    return process


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        process = kafka(Path(folder) / "kafka", json.loads(sys.argv[1]))
        process.start(START_SECONDS)
        try:
            print(process.bootstrap_servers, flush=True)
            sys.stdin.read()
        finally:
            process.stop()


if __name__ == "__main__":
    main()
