"""Builds kafka-go's own tests.

They expect a broker at localhost:9092. They are changed to ask the broker that KAFKA_ADDRESS names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from interop.support.go_module import GoModule

KAFKA_GO: Final = GoModule(
    "kafka-go", "github.com/segmentio/kafka-go", "v0.4.51", "h1:JgDPPG75tC1rWIS2Me6MwcvXJ6f49UQ4HjAOef71Hno="
)
_ADDRESS: Final = """\
package kafka

import "os"

var kafkaAddress = os.Getenv("KAFKA_ADDRESS")
"""


def built_tests() -> Path:
    """The path of a program with the tests; skips the test if it is not to be had."""
    return KAFKA_GO.built_tests(_for_an_address)


def _for_an_address(source: Path) -> None:
    (source / "address_of_kafka_test.go").write_text(_ADDRESS)
    for path in source.glob("*_test.go"):
        if path.name.startswith(("example_", "address_")):
            continue
        text = path.read_text()
        text = text.replace('const broker = "localhost:9092"', "var broker = kafkaAddress")
        text = text.replace('"localhost:9092"', "kafkaAddress").replace(
            'TCP("localhost")', "TCP(kafkaAddress)"
        )
        path.write_text(text)
