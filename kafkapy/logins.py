"""Login checks: an operator's own check of passwords and tokens.

A check is a subclass of `PasswordChecker` (SASL PLAIN) or `TokenChecker` (OAUTHBEARER) in a module that the
broker can import. The setting
`listener.name.<listener>.<mechanism>.sasl.server.callback.handler.class` names it as `module:Class`:

    from kafkapy.logins import PasswordChecker

    class Directory(PasswordChecker):
        def check(self, username: str, password: str) -> bool:
            return ldap_bind(username, password)

A broker makes one object of the class for each listener when it starts. Methods are called in a thread, by
several threads at once, and may block. An exception refuses the login. Source: the callback handlers of Kafka
(KIP-86).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass


class LoginChecker:
    """The common part of both checks."""

    def __init__(self, configs: Mapping[str, str], options: Mapping[str, str]) -> None:
        """Take the broker's settings, as they were given, and the options of the JAAS line."""
        self.configs = configs
        self.options = options


class PasswordChecker(LoginChecker, ABC):
    """A check of passwords."""

    @abstractmethod
    def check(self, username: str, password: str) -> bool:
        """Whether the password is the user's."""


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """Whom a token lets in."""

    name: str
    """The name of the client's principal."""
    expires_at_ms: int | None = None
    """When the login ends, in milliseconds since the epoch; None: never."""


class TokenChecker(LoginChecker, ABC):
    """A check of bearer tokens."""

    @abstractmethod
    def check(self, token: str) -> TokenOwner | None:
        """The owner of a token; None if it lets nobody in."""
