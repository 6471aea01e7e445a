"""Encryption and logins on kafkapy and Apache Kafka, measured in turn.

scripts/bench security --warm-up 45                    all loads, kafkapy (durability=os) and Apache Kafka
scripts/bench security --load ssl-1k --repeat 5 --scale 0.3                            one load, smaller

All have the same certificates, with keys on the curve P-256. librdkafka and Java agree on TLS 1.3 with
AES-256-GCM. The clients of handshakes and logins are new connections, each with a handshake of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from scripts.benchmarks.comparison import Loads, compare
from scripts.benchmarks.load import Figures, Load
from scripts.benchmarks.logins import logins
from scripts.benchmarks.secure_target import SecureTarget, secure_server
from scripts.benchmarks.servers import DESCRIPTIONS
from scripts.benchmarks.streaming import streaming


def _streaming_by(protocol: str) -> Callable[[SecureTarget, float], Figures]:
    stream = streaming(6, 1024, 1000)
    return lambda target, scale: stream(target.by(protocol), scale)


LOADS: Final[Loads[SecureTarget]] = {
    "plaintext-1k": Load("1 KiB records over 6 partitions, PLAINTEXT", _streaming_by("PLAINTEXT")),
    "ssl-1k": Load("1 KiB records over 6 partitions, SSL", _streaming_by("SSL")),
    "sasl-ssl-1k": Load("1 KiB records over 6 partitions, SASL_SSL with PLAIN", _streaming_by("SASL_SSL")),
    "handshakes": Load("handshakes of TLS", logins("SSL")),
    "plain-logins": Load("logins by PLAIN, SASL_PLAINTEXT", logins("SASL_PLAINTEXT", "PLAIN")),
    "scram-logins": Load(
        "logins by SCRAM-SHA-256, SASL_PLAINTEXT", logins("SASL_PLAINTEXT", "SCRAM-SHA-256")
    ),
    "tls-scram-logins": Load("logins by SCRAM-SHA-256, SASL_SSL", logins("SASL_SSL", "SCRAM-SHA-256")),
}


def main(options: Sequence[str]) -> int:
    return compare(
        __name__, __doc__, options, LOADS, secure_server, DESCRIPTIONS, ["kafkapy", "kafka"], in_turn=True
    )
