"""A SCRAM login by a delegation token, for kafka-python, which has none.

The client says in its first message that the user is the id of a token: `n=<id>,r=<nonce>,tokenauth=true`.
Source: Kafka's ScramExtensions.
"""

from __future__ import annotations

from typing import Any, Final

_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_EXTENSION: Final = b",tokenauth=true"


class TokenId(str):
    """The user of such a login."""

    __slots__ = ()


def teach_token_logins() -> None:
    """Let kafka-python's SCRAM log in by a token where the user is a `TokenId`."""
    from kafka.net.sasl import register_sasl_mechanism
    from kafka.net.sasl.scram import SaslMechanismScram, ScramClient

    class TokenScramClient(ScramClient):  # type: ignore[misc]
        """The exchange with the extension, which the proof covers too."""

        def first_message(self) -> bytes:
            message: bytes = super().first_message() + _EXTENSION
            self.auth_message += _EXTENSION
            return message

    class Mechanism(SaslMechanismScram):  # type: ignore[misc]
        """Logs in by a token or as a user."""

        def __init__(self, **config: Any) -> None:
            super().__init__(**config)
            user, password = config["sasl_plain_username"], config["sasl_plain_password"]
            if isinstance(user, TokenId):
                self._scram_client = TokenScramClient(user, password, config["sasl_mechanism"])

    for name in _MECHANISMS:
        register_sasl_mechanism(name, Mechanism, overwrite=True)
