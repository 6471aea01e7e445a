"""TLS settings, by the names that they have on a listener, such as `ssl.keystore.location`."""

from __future__ import annotations

from typing import Any, Protocol

from kafkapy.configs.keys import ConfigError


class TlsSettings(Protocol):
    """The settings of a listener (configs/listener_config.py), or of the links to ZooKeeper."""

    def __getitem__(self, name: str, /) -> Any:
        """The typed value in effect."""

    def wrong(self, name: str, reason: str) -> ConfigError:
        """The error for a setting; `reason` is one line with the remedy."""
