"""Builds kafka-go's own tests.

They expect broker 1 at localhost:9092. They are changed to ask it at localhost and the port in KAFKA_PORT.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from interop.support.go_module import GoModule

KAFKA_GO: Final = GoModule(
    "kafka-go",
    "github.com/segmentio/kafka-go",
    "v0.4.51",
    "h1:JgDPPG75tC1rWIS2Me6MwcvXJ6f49UQ4HjAOef71Hno=",
)
_ADDRESS: Final = """\
package kafka

import (
	"os"
	"strconv"
)

var kafkaPort, _ = strconv.Atoi(os.Getenv("KAFKA_PORT"))
var kafkaAddress = "localhost:" + os.Getenv("KAFKA_PORT")
"""
_CHANGES: Final = {
    'const broker = "localhost:9092"': "var broker = kafkaAddress",
    'const (\n\t\ttcp   = "tcp"\n\t\tkafka = ': 'var (\n\t\ttcp   = "tcp"\n\t\tkafka = ',
    '"localhost:9092"': "kafkaAddress",
    'TCP("localhost")': "TCP(kafkaAddress)",
    'Host: "localhost", Port: 9092': 'Host: "localhost", Port: kafkaPort',
    "Port != 9092": "Port != kafkaPort",
}


def built_tests() -> Path:
    """The path of a program with the tests; skips the test if it is not to be had."""
    return KAFKA_GO.built_tests(_for_a_port, "-mod=mod")


def _for_a_port(source: Path) -> None:
    (source / "port_of_kafka_test.go").write_text(_ADDRESS)
    for path in source.glob("*_test.go"):
        if not path.name.startswith(("example_", "address_")):
            text = path.read_text()
            for before, after in _CHANGES.items():
                text = text.replace(before, after)
            path.write_text(text)
