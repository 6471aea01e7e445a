"""The SASL mechanisms of a listener, from its settings.

`sasl.enabled.mechanisms` names them, and `listener.name.<listener>.<mechanism>.sasl.jaas.config` has what
they need. Source: Kafka's SaslChannelBuilder and JaasContext.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkapy.configs.keys import ConfigError
from kafkapy.configs.listener_config import ListenerConfig
from kafkapy.configs.unsupported import TOKEN_VALIDATORS
from kafkapy.logins import CredentialFinder, PasswordChecker, ScramCredential
from kafkapy.logs.text import quoted
from kafkapy.operator_class import UnusableClassError, find_class, one_line
from kafkapy.security.sasl.exchange import Mechanism
from kafkapy.security.sasl.jaas import JAAS, JaasError, LoginModule, parse_jaas
from kafkapy.security.sasl.plain import Check, ListedUsers, PlainMechanism
from kafkapy.security.sasl.scram import Find, Scram
from kafkapy.security.sasl.scram_credential import (
    MECHANISMS,
    MIN_ITERATIONS,
    ScramMechanism,
)
from kafkapy.security.sasl.unknown_users import UnknownUsers

if TYPE_CHECKING:
    from kafkapy.security.sasl.oauthbearer import CheckToken
    from kafkapy.security.token_cache import TokenCache

logger = logging.getLogger(__name__)

HANDLER: Final = "sasl.server.callback.handler.class"

LOGIN_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    **dict.fromkeys(MECHANISMS, "ScramLoginModule"),
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}
"""The class in the JAAS line of each mechanism that is supported."""


class LoginParts(NamedTuple):
    """What the mechanisms need of the broker."""

    find_credential: Find
    in_thread: Callable[..., Awaitable[Any]]
    """Runs a call that may block in a worker thread."""
    unknown: UnknownUsers
    """Answers for users of SCRAM that do not exist."""
    tokens: TokenCache | None = None
    """The delegation tokens, by which clients may log in; None if there are none."""


def mechanisms_of(
    config: ListenerConfig, settings: Mapping[str, str], parts: LoginParts
) -> dict[str, Mechanism]:
    """The mechanisms of a listener by name, in the order of the setting.

    `settings` are the broker's, as they were given, for the operator's own classes.

    Raises:
        ConfigError: one is unknown, or lacks what it needs.
    """
    modules = login_modules(config)
    return {
        name: _mechanism(name, config.of_mechanism(name), settings, module, parts)
        for name, module in modules.items()
    }


def login_modules(config: ListenerConfig) -> dict[str, LoginModule]:
    """The login modules of a listener, by mechanism.

    Raises:
        ConfigError: a mechanism is unknown, or its line is missing or wrong.
    """
    setting = "sasl.enabled.mechanisms"
    names = config[setting]
    if not names:
        raise config.wrong(setting, "name at least one mechanism, such as SCRAM-SHA-256")
    for name in names:
        if name not in LOGIN_MODULES:
            known = ", ".join(LOGIN_MODULES)
            raise config.wrong(setting, f"{name} is not supported; expected {known}")
    return {name: login_module(name, config.of_mechanism(name)) for name in names}


def _mechanism(
    name: str, config: ListenerConfig, settings: Mapping[str, str], module: LoginModule, parts: LoginParts
) -> Mechanism:
    if name == "PLAIN":
        return PlainMechanism(_password_check(config, settings, module, parts))
    if name in MECHANISMS:
        find = _credential_finder(config, settings, module, parts)
        return Scram(MECHANISMS[name], find, parts.unknown, parts.tokens)
    if name == "GSSAPI":
        if not _is_ours(config):
            raise config.wrong(HANDLER, "no class checks logins by GSSAPI; remove the setting")
        from kafkapy.security.sasl.kerberos.exchange import Kerberos
        from kafkapy.security.sasl.kerberos.library import key_of, short_names

        return Kerberos(key_of(config, module).accept, short_names(config), parts.in_thread)
    from kafkapy.security.sasl.oauthbearer import OAuthBearer

    return OAuthBearer(_token_check(config, settings, module, parts))


def _password_check(
    config: ListenerConfig, settings: Mapping[str, str], module: LoginModule, parts: LoginParts
) -> Check:
    if config[HANDLER] is None:
        return ListedUsers(module.options).check
    checker: PasswordChecker = _new_checker(config, PasswordChecker, settings, module)
    in_thread = _guarded(checker.check, parts)

    async def check(username: str, password: str) -> bool:
        return bool(await in_thread(username, password))

    return check


def _credential_finder(
    config: ListenerConfig, settings: Mapping[str, str], module: LoginModule, parts: LoginParts
) -> Find:
    if _is_ours(config):
        return parts.find_credential
    finder: CredentialFinder = _new_checker(config, CredentialFinder, settings, module)
    in_thread = _guarded(finder.find, parts)

    async def find(mechanism: ScramMechanism, username: str) -> ScramCredential | None:
        found: ScramCredential | None = await in_thread(mechanism.text, username)
        if found is not None and found.iterations < MIN_ITERATIONS:
            logger.error(
                "The credential of %s has %d iterations, fewer than %d: it lets nobody in",
                quoted(username),
                found.iterations,
                MIN_ITERATIONS,
            )
            return None
        return found

    return find


def _is_ours(config: ListenerConfig) -> bool:
    """Whether a mechanism has no class of the operator's own."""
    return config[HANDLER] is None or config[HANDLER] in TOKEN_VALIDATORS


def _token_check(
    config: ListenerConfig, settings: Mapping[str, str], module: LoginModule, parts: LoginParts
) -> CheckToken:
    from kafkapy.logins import TokenChecker
    from kafkapy.security.sasl.signed_tokens import SignedTokens

    if _is_ours(config):
        return _guarded(SignedTokens(config, module).owner, parts)
    checker: TokenChecker = _new_checker(config, TokenChecker, settings, module)
    return _guarded(checker.check, parts)


def _new_checker(config: ListenerConfig, kind: type, settings: Mapping[str, str], module: LoginModule) -> Any:
    """The operator's own check, of the class that the setting names; raises ConfigError."""
    setting, name = config.own_name(HANDLER), config[HANDLER]
    try:
        return find_class(setting, name, kind)(settings, module.options)
    except UnusableClassError as error:
        raise ConfigError(str(error)) from None
    except BaseException as error:  # SystemExit too: it is the operator's code
        raise ConfigError(f"{setting}={name}: it refuses its settings: {one_line(error)}") from None


def _guarded(call: Callable[..., Any], parts: LoginParts) -> Callable[..., Awaitable[Any]]:
    """`call` in a thread; what it raises is logged, and lets nobody in."""

    async def guarded(*arguments: str) -> Any:
        try:
            return await parts.in_thread(call, *arguments)
        except Exception:
            logger.exception("A login could not be checked")
            return None

    return guarded


def login_module(mechanism: str, config: ListenerConfig) -> LoginModule:
    """The login module of a mechanism, from its settings.

    Raises:
        ConfigError: there is none, or that of another one.
    """
    expected = LOGIN_MODULES[mechanism]
    text = config.own(JAAS)
    if text is None:
        raise ConfigError(
            f"{config.own_name(JAAS)}: not set; expected a line that names {expected} (docs/security.md)"
        )
    try:
        module = parse_jaas(text)
    except JaasError as error:
        raise config.wrong(JAAS, str(error)) from None
    if module.class_name.rpartition(".")[2] != expected:
        raise config.wrong(JAAS, f"expected {expected}, found {module.class_name}")
    return module
