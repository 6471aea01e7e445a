"""The SASL mechanisms of a listener, from its settings.

`sasl.enabled.mechanisms` names them, and `listener.name.<listener>.<mechanism>.sasl.jaas.config` has what
they need. Source: Kafka's SaslChannelBuilder and JaasContext.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from kafkapy.configs.keys import ConfigError
from kafkapy.configs.listener_config import ListenerConfig
from kafkapy.operator_class import UnusableClassError, find_class, one_line
from kafkapy.passwords import PasswordChecker
from kafkapy.security.sasl.exchange import Mechanism
from kafkapy.security.sasl.jaas import JaasError, LoginModule, parse_jaas
from kafkapy.security.sasl.plain import Check, ListedUsers, PlainMechanism
from kafkapy.security.sasl.scram import Find, Scram
from kafkapy.security.sasl.scram_credential import MECHANISMS

logger = logging.getLogger(__name__)

JAAS: Final = "sasl.jaas.config"
HANDLER: Final = "sasl.server.callback.handler.class"


class LoginParts(NamedTuple):
    """What the mechanisms need of the broker."""

    find_credential: Find
    in_thread: Callable[..., Awaitable[Any]]
    """Runs a call that may block in a worker thread."""


def mechanisms_of(
    config: ListenerConfig, settings: Mapping[str, str], parts: LoginParts
) -> dict[str, Mechanism]:
    """The mechanisms of a listener by name, in the order of the setting.

    `settings` are the broker's, as they were given, for the operator's own classes.

    Raises:
        ConfigError: one is unknown, or lacks what it needs.
    """
    setting = "sasl.enabled.mechanisms"
    names = config[setting]
    if not names:
        raise config.wrong(setting, "name at least one mechanism, such as SCRAM-SHA-256")
    return {name: _mechanism(name, config, settings, parts) for name in names}


def _mechanism(
    name: str, listener: ListenerConfig, settings: Mapping[str, str], parts: LoginParts
) -> Mechanism:
    config = listener.of_mechanism(name)
    if name == "PLAIN":
        return PlainMechanism(_password_check(config, settings, parts))
    if name in MECHANISMS:
        _login_module(config, "ScramLoginModule")
        return Scram(MECHANISMS[name], parts.find_credential)
    known = ", ".join(("PLAIN", *MECHANISMS))
    raise listener.wrong("sasl.enabled.mechanisms", f"{name} is not supported; expected {known}")


def _password_check(config: ListenerConfig, settings: Mapping[str, str], parts: LoginParts) -> Check:
    module = _login_module(config, "PlainLoginModule")
    if config[HANDLER] is None:
        return ListedUsers(module.options).check
    checker = _new_checker(config.own_name(HANDLER), config[HANDLER], settings, module.options)

    async def check(username: str, password: str) -> bool:
        try:
            return bool(await parts.in_thread(checker.check, username, password))
        except Exception:  # the operator's code fails, and nobody comes in
            logger.exception("The password checker failed")
            return False

    return check


def _new_checker(
    setting: str, name: str, settings: Mapping[str, str], options: Mapping[str, str]
) -> PasswordChecker:
    """The checker of the class that `setting` names; raises ConfigError."""
    try:
        checker: PasswordChecker = find_class(setting, name, PasswordChecker)(settings, options)
    except UnusableClassError as error:
        raise ConfigError(str(error)) from None
    except BaseException as error:  # SystemExit too: it is the operator's code
        raise ConfigError(f"{setting}={name}: it refuses its settings: {one_line(error)}") from None
    return checker


def _login_module(config: ListenerConfig, expected: str) -> LoginModule:
    """The login module of a mechanism, whose class must be `expected`.

    Raises:
        ConfigError: there is none, or another one.
    """
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
