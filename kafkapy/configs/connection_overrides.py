"""`max.connections.per.ip.overrides`: the limits of some addresses."""

from __future__ import annotations

from kafkapy.configs.keys import ConfigError


def parse_overrides(text: str) -> dict[str, int]:
    """Parse `address:limit` pairs, separated by commas.

    Raises ConfigError.
    """
    overrides = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        address, _, limit = item.rpartition(":")
        if not address or not limit.isdecimal():
            raise ConfigError(f"max.connections.per.ip.overrides={item}: expected ADDRESS:LIMIT")
        overrides[address.strip("[]")] = int(limit)
    return overrides
