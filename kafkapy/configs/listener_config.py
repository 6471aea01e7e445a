"""The settings of one listener: its own where it has some, else the broker's.

A listener's own settings are named `listener.name.<listener>.<setting>`, and those of one SASL mechanism
`listener.name.<listener>.<mechanism>.<setting>`, with the names in lower case. Source: Kafka's
ListenerName.configPrefix, saslMechanismConfigPrefix.
"""

from __future__ import annotations

from typing import Any

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError, broker_key


class ListenerConfig:
    """The settings of one listener, or of one mechanism of it.

    They are read when asked for, so dynamic changes count.
    """

    def __init__(self, config: BrokerConfig, listener: str, mechanism: str | None = None) -> None:
        self._config = config
        self.listener = listener
        """The listener's name."""
        of_listener = f"listener.name.{listener.lower()}."
        self._prefixes: tuple[str, ...] = (of_listener,)
        if mechanism is not None:
            self._prefixes = (f"{of_listener}{mechanism.lower()}.", of_listener)

    def __getitem__(self, name: str) -> Any:
        """The typed value in effect."""
        own = self.own(name)
        return self._config[name] if own is None else own

    def own(self, name: str) -> Any:
        """The typed value that only this listener or mechanism has; None if it has none."""
        for prefix in self._prefixes:
            key = broker_key(prefix + name)
            value = key.parse(self._config.text(key.name))
            if value is not None:
                return value
        return None

    def of_mechanism(self, mechanism: str) -> ListenerConfig:
        """The settings of a SASL mechanism of this listener."""
        return ListenerConfig(self._config, self.listener, mechanism)

    def own_name(self, name: str) -> str:
        """The full name of a setting that only this listener or mechanism has."""
        return self._prefixes[0] + name

    def wrong(self, name: str, reason: str) -> ConfigError:
        """The error for a setting; `reason` is one line with the remedy."""
        written = next(
            (prefix + name for prefix in self._prefixes if self._config.text(prefix + name) is not None), name
        )
        return ConfigError(f"{written}: {reason}")
