"""Loads the authorizer that the settings name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from kafkapy.configs.keys import ConfigError
from kafkapy.configs.unsupported import AUTHORIZER, KNOWN_CLASSES
from kafkapy.operator_class import UnusableClassError, find_class, one_line
from kafkapy.security.acls.authorizer import Authorizer
from kafkapy.security.acls.standard_authorizer import StandardAuthorizer


def load_authorizer(configs: Mapping[str, str]) -> Authorizer | None:
    """The configured authorizer; None if everyone may do everything.

    Raises:
        ConfigError: it cannot be used.
    """
    name = configs.get(AUTHORIZER, "").strip()
    if not name:
        return None
    if name not in KNOWN_CLASSES[AUTHORIZER]:
        return _own_authorizer(name, configs)
    authorizer = StandardAuthorizer()
    try:
        authorizer.configure(configs)
    except ValueError as error:
        raise ConfigError(f"{error}; correct it") from None
    return authorizer


def _own_authorizer(name: str, configs: Mapping[str, str]) -> Authorizer:
    """The authorizer of the operator's own class; raises ConfigError."""
    try:
        found = find_class(AUTHORIZER, name, Authorizer)
    except UnusableClassError as error:
        raise ConfigError(str(error)) from None
    if inspect.isabstract(found) or inspect.iscoroutinefunction(found.authorize):
        raise ConfigError(
            f"{AUTHORIZER}={name}: {found.__qualname__} needs a method authorize(self, principal, host,"
            " operation, resource_type, name), which is not a coroutine; define it"
        )
    try:
        authorizer: Authorizer = found()
        authorizer.configure(dict(configs))
    except BaseException as error:  # SystemExit too: it is the operator's code
        raise ConfigError(
            f"{AUTHORIZER}={name}: the authorizer cannot be configured: {one_line(error)}; correct its"
            " settings, or remove this one"
        ) from None
    return authorizer
