"""Password checkers: an operator's own check of the passwords of SASL PLAIN.

A checker is a subclass of `PasswordChecker` in a module that the broker can import. The setting
`listener.name.<listener>.plain.sasl.server.callback.handler.class` names it as `module:Class`:

    from kafkapy.passwords import PasswordChecker

    class Directory(PasswordChecker):
        def check(self, username: str, password: str) -> bool:
            return ldap_bind(username, password)

A broker makes one object of the class for each listener when it starts. Source: the callback handlers of
Kafka (KIP-86).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping


class PasswordChecker(ABC):
    """A check of passwords."""

    def __init__(self, configs: Mapping[str, str], options: Mapping[str, str]) -> None:
        """Take the broker's settings, as they were given, and the options of the JAAS line."""
        self.configs = configs
        self.options = options

    @abstractmethod
    def check(self, username: str, password: str) -> bool:
        """Whether the password is the user's.

        It is called in a thread, by several threads at once, and may block. An exception counts as no.
        """
