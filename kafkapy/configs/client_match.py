"""The setting `match` of client metrics: which clients a subscription asks for metrics.

Each entry is `property=expression`, and a client must match all. Of two entries for a property, the last one
counts, as in Apache Kafka. The expressions there are Java's; here they are RE2's, which has neither
backreferences nor lookaround, and matches in linear time.

Source: Apache Kafka's ClientMetricsConfigs, ClientMetricsInstanceMetadata; KIP-714.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kafkapy.logs.text import shortened
from kafkapy.patterns import Pattern, PatternError, compile_pattern
from kafkapy.protocol.errors import ErrorCode, KafkaError

PROPERTIES: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
"""The properties of a client that `match` can name."""

LONGEST: Final = 512
"""The most characters of all entries together: they are compiled on the event loop, in less than 20 ms."""

MAX_MEMORY: Final = 1 << 17
"""The most bytes of a compiled expression."""

LONGEST_VALUE: Final = 1_024
"""A longer property of a client matches nothing: an expression may cost 100 µs a character."""

ClientProperties = Mapping[str, str | None]
"""The properties of a client by name; None if it has not told it."""


class ClientMatch:
    """The clients that match all entries; without entries, every client."""

    def __init__(self, entries: Sequence[str]) -> None:
        """Compile the entries.

        Raises:
            KafkaError: INVALID_CONFIG, an entry is wrong, or they are too long.
        """
        if sum(map(len, entries)) > LONGEST:
            raise _invalid(f"The client matching patterns have more than {LONGEST} characters together.")
        self._patterns: dict[str, Pattern] = {}
        for entry in entries:
            name, *rest = (part.strip() for part in entry.split("="))
            if name not in PROPERTIES or len(rest) != 1 or not rest[0]:
                raise _illegal(entry)
            try:
                self._patterns[name] = compile_pattern(rest[0], MAX_MEMORY)
            except PatternError:
                raise _illegal(entry) from None

    def matches(self, client: ClientProperties) -> bool:
        """Whether a client matches."""
        for name, pattern in self._patterns.items():
            value = client.get(name)
            if value is None or len(value) > LONGEST_VALUE or not pattern.fullmatch(value):
                return False
        return True


def _illegal(entry: str) -> KafkaError:
    return _invalid(f"Illegal client matching pattern: {shortened(entry)}")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
