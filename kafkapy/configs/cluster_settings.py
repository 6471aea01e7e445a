"""Checks of the settings that only a broker of a cluster obeys."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from kafkapy.configs.keys import ConfigError

_HOST: Final = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s,/:\[\]]+)(?::[0-9]{1,5})?"
_CONNECT: Final = re.compile(rf"{_HOST}(?:\s*,\s*{_HOST})*(?:(?:/[^\s/]+)+/?|/)?")
"""zookeeper.connect: hosts, each with or without a port, and a chroot."""


def check_cluster_settings(config: Mapping[str, Any], inter_broker: str, listeners: Collection[str]) -> None:
    """Refuse settings with which a broker cannot take part in a cluster.

    Args:
        config: its settings.
        inter_broker: the name of the listener to which other brokers connect.
        listeners: the names of its listeners.

    Raises:
        ConfigError: one line with the remedy.
    """
    connect = config["zookeeper.connect"]
    if connect and not _CONNECT.fullmatch(connect):
        raise ConfigError(
            f"zookeeper.connect={connect}: expected HOST:PORT, several with commas, and a chroot or none,"
            " such as localhost:2181/kafka"
        )
    if inter_broker not in listeners:
        raise ConfigError(
            f"inter.broker.listener.name: other brokers connect to the listener {inter_broker}, which is not"
            f" among the listeners ({', '.join(sorted(listeners))}); name one of them"
        )
    _check_generated_ids(config)
    version = config["inter.broker.protocol.version"]
    if version.startswith("4."):
        raise ConfigError(
            f"inter.broker.protocol.version={version}: no release of Kafka with ZooKeeper has it; 3.9 is"
            " the last"
        )
    for setting in ("zookeeper.session.timeout.ms", "zookeeper.connection.timeout.ms"):
        value = config[setting]
        if value is not None and value < 1:
            raise ConfigError(f"{setting}={value}: must be at least 1")


def _check_generated_ids(config: Mapping[str, Any]) -> None:
    own, highest = max(config["broker.id"], config["node.id"]), config["reserved.broker.max.id"]
    if config["broker.id.generation.enable"] and own > highest:
        raise ConfigError(
            f"broker.id={own}: ids above {highest} (reserved.broker.max.id) are generated; choose a lower"
            " one, or set broker.id.generation.enable=false"
        )
