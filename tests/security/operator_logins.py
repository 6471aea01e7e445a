"""Checks of logins that an operator could have written."""

from __future__ import annotations

from kafkapy.logins import CredentialFinder, PasswordChecker, ScramCredential, TokenChecker, TokenOwner
from kafkapy.security.sasl.scram_credential import ScramMechanism, credential_of
from tests.security.scram_client import salted

END_MS = 4_000_000_000_000


class Directory(PasswordChecker):
    """Passwords are names, with an ending that the JAAS line and the settings say."""

    def check(self, username: str, password: str) -> bool:
        return password == username + self.options["ending"] + self.configs["our.ending"]


class Tokens(TokenChecker):
    """Tokens are names, with an ending."""

    def check(self, token: str) -> TokenOwner | None:
        name, _, ending = token.partition(".")
        if name == "broken":
            raise RuntimeError("the directory is away")
        return TokenOwner(name, END_MS) if ending == "good" else None


class Vault(CredentialFinder):
    """Credentials from elsewhere: the password is the name in reverse."""

    def find(self, mechanism: str, username: str) -> ScramCredential | None:
        if username == "broken":
            raise RuntimeError("the vault is away")
        if username == "nobody":
            return None
        iterations = 1000 if username == "weak" else 5000
        which = ScramMechanism.SCRAM_SHA_256 if mechanism == "SCRAM-SHA-256" else ScramMechanism.SCRAM_SHA_512
        key = salted(which, username[::-1], b"of the vault", iterations)
        return credential_of(which, b"of the vault", key, iterations)
