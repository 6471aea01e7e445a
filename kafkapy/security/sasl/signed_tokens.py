"""Bearer tokens that are signed (JWT): whose they are, and until when they count.

A token must be signed with a public key of the issuer, and say who issued it, for whom, and when it ends.
Without an issuer, an audience and keys in the settings, the broker does not start: a token that is not
checked lets everybody in. Source: RFC 7519, Kafka's BrokerJwtValidator.
"""

from __future__ import annotations

import logging
from typing import Any, Final
from urllib.parse import urlsplit

from kafkapy.configs.listener_config import ListenerConfig
from kafkapy.logins import TokenOwner
from kafkapy.security.sasl.jaas import LoginModule

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""The signatures that are accepted: those with a public key. All who read another key could sign with it."""

logger = logging.getLogger(__name__)


class SignedTokens:
    """The check of the tokens of one listener."""

    def __init__(self, config: ListenerConfig, module: LoginModule) -> None:
        """Raises ConfigError: what is needed to check tokens is not set."""
        try:
            import jwt  # noqa: F401

            from kafkapy.security.sasl.json_web_keys import JsonWebKeys, KeysError
        except ImportError:
            raise config.wrong(
                "sasl.enabled.mechanisms",
                "OAUTHBEARER needs the package PyJWT: pip install 'kafkapy[security]'",
            ) from None
        url = self._required(config, "sasl.oauthbearer.jwks.endpoint.url")
        parts = urlsplit(url)
        if parts.scheme not in ("file", "https"):
            raise config.wrong("sasl.oauthbearer.jwks.endpoint.url", "expected https://… or file:///…")
        self._issuer = self._required(config, "sasl.oauthbearer.expected.issuer")
        self._audience = list(self._required(config, "sasl.oauthbearer.expected.audience"))
        self._name_claim: str = config["sasl.oauthbearer.sub.claim.name"]
        self._leeway: int = config["sasl.oauthbearer.clock.skew.seconds"]
        context = None
        if parts.scheme == "https":
            from kafkapy.security.tls.issuer_tls import issuer_context

            context = issuer_context(config, module.options)
        self._keys = JsonWebKeys(
            url,
            config["sasl.oauthbearer.jwks.endpoint.refresh.ms"] / 1000,
            config["sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"] / 1000,
            context,
        )
        if parts.scheme == "file":
            try:
                self._keys.read()
            except KeysError as error:
                raise config.wrong("sasl.oauthbearer.jwks.endpoint.url", str(error)) from None

    def owner(self, token: str) -> TokenOwner | None:
        """The owner of a token; None, and a line in the log, if it lets nobody in.

        It may wait for the keys.
        """
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            key = self._keys.find(header.get("kid"))
            if key is None:
                raise jwt.InvalidTokenError("it names a key that is not among those of the issuer")
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._leeway,
                options={"require": ["exp", "iat", self._name_claim]},
            )
            # It may be text, and beyond what counts.
            expires_at_ms = int(float(claims["exp"]) * 1000)
        except (jwt.PyJWTError, ValueError, OverflowError) as error:
            logger.info("A token was refused: %s", error)
            return None
        name = claims[self._name_claim]
        if not isinstance(name, str) or not name.strip():
            logger.info("A token was refused: its claim %s is no name", self._name_claim)
            return None
        return TokenOwner(name, expires_at_ms)

    @staticmethod
    def _required(config: ListenerConfig, name: str) -> Any:
        value = config[name]
        if not value:
            raise config.wrong(name, "not set; OAUTHBEARER lets nobody in without it")
        return value
