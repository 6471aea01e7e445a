"""Login checks: an operator's own check of passwords and tokens, or store of credentials.

A check is a subclass of `PasswordChecker` (SASL PLAIN), `CredentialFinder` (SCRAM) or `TokenChecker`
(OAUTHBEARER) in a module that the broker can import. The setting
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
from dataclasses import dataclass, field


class LoginChecker:
    """The common part of all checks."""

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
class ScramCredential:
    """The credential of one user for one mechanism of SCRAM (RFC 5802)."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


class CredentialFinder(LoginChecker, ABC):
    """A store of the credentials of SCRAM, in place of the users in the metadata."""

    @abstractmethod
    def find(self, mechanism: str, username: str) -> ScramCredential | None:
        """The credential of a user for SCRAM-SHA-256 or -512; None if there is no such user.

        One with fewer than 4096 iterations lets nobody in.
        """


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
