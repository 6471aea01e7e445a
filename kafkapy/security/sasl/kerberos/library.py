"""Kerberos by python-gssapi, which needs the system's library (MIT Kerberos or Heimdal).

The line for clients is that of Java: `com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true
storeKey=true keyTab="/etc/kafka.keytab" principal="kafka/host@REALM";`. The library reads the keytab at each
login, so that new keys count at once. It finds its own settings by KRB5_CONFIG.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from kafkapy.configs.keys import ConfigError
from kafkapy.configs.listener_config import ListenerConfig
from kafkapy.security.sasl.jaas import JAAS, LoginModule
from kafkapy.security.sasl.kerberos.exchange import KerberosError
from kafkapy.security.sasl.kerberos.short_names import ShortNameError, ShortNames

if TYPE_CHECKING:
    import gssapi

_RULES: Final = "sasl.kerberos.principal.to.local.rules"
_SERVICE: Final = "sasl.kerberos.service.name"
_OPTIONS: Final = {"useKeyTab": "true", "storeKey": "true", "keyTab": None, "principal": None}
"""What a line for a broker must have, and the value if there is only one that works."""
_ERRORS: Final = -1765328384
"""The library's number of Kerberos error 0 (RFC 4120, 7.5.9)."""
_PASSING: Final = frozenset((_ERRORS + code) & 0xFFFFFFFF for code in (21, 33, 34))
"""Not yet valid, and replays, as which two at the same microsecond count. Source: Kafka's KerberosError."""


Wrong = Callable[[str], ConfigError]
"""Makes the error for a line; its argument is one line with the remedy."""


def key_of(config: ListenerConfig, module: LoginModule) -> Key:
    """The key of a listener's line; raises ConfigError."""
    return Key(module, _service(config, module), partial(config.wrong, JAAS))


class Key:
    """The key of this broker in a keytab."""

    def __init__(self, module: LoginModule, service: str, wrong: Wrong) -> None:
        """`service` is what is asked for at other hosts, such as kafka for kafka/host@REALM.

        Raises:
            ConfigError: python-gssapi or an option is missing, or the keytab has no such key.
        """
        self._library = _library(wrong)
        options = module.options
        for name, only in _OPTIONS.items():
            given = options.get(name, "")
            if not given or only not in (None, given.lower()):
                raise wrong(f"this broker proves its name by a keytab: add {name}={only or '…'}")
        self._service = service
        self._keytab: str = options["keyTab"]
        # Not shared with a broker that was here before: its tickets may be of keys that are gone.
        self._tickets = f"MEMORY:{uuid.uuid4()}"
        try:
            self._principal = self._library.Name(
                options["principal"], self._library.NameType.kerberos_principal
            )
            self._acceptor = self._credentials("accept", {"keytab": self._keytab})
        except self._library.exceptions.GSSError as error:
            raise wrong(
                f"{self._keytab} has no usable key of {options['principal']}: {_reason(error)}"
            ) from None

    def accept(self) -> Context:
        """Begin to take the tokens of a client."""
        return Context(self._library, lambda: {"creds": self._acceptor, "usage": "accept"})

    def reach(self, host: str) -> Context:
        """Begin a login at another server, with this one's key."""

        def begin() -> dict[str, Any]:
            gss = self._library
            name = gss.Name(f"{self._service}@{host}", gss.NameType.hostbased_service)
            store = {"client_keytab": self._keytab, "ccache": self._tickets}
            # Anew for each login: the library gets another ticket when the last one ends.
            return {
                "name": name,
                "creds": self._credentials("initiate", store),
                "mech": gss.MechType.kerberos,
                "usage": "initiate",
            }

        return Context(self._library, begin)

    def _credentials(self, usage: str, store: dict[str, str]) -> gssapi.Credentials:
        gss = self._library
        found: gssapi.Credentials = gss.Credentials(
            name=self._principal, usage=usage, mechs=[gss.MechType.kerberos], store=store
        )
        return found


class Context:
    """One end of a login, which begins with its first step; calls may block."""

    def __init__(self, library: ModuleType, arguments: Callable[[], dict[str, Any]]) -> None:
        self._library = library
        self._arguments = arguments
        self._context: Any = None

    def step(self, token: bytes | None) -> bytes | None:
        """The answer to a token, or None; raises KerberosError."""

        def step() -> bytes | None:
            if self._context is None:
                self._context = self._library.SecurityContext(**self._arguments())
                # The library would give the token about an error, and raise at the next call.
                self._context.__DEFER_STEP_ERRORS__ = False
            answer: bytes | None = self._context.step(token)
            return answer

        found: bytes | None = self._guarded(step)
        return found

    @property
    def is_complete(self) -> bool:
        """Whether both ends are sure."""
        return self._context is not None and bool(self._context.complete)

    @property
    def initiator(self) -> str:
        """The full name of the client; it is proved if the context is complete."""
        name: str = self._guarded(lambda: str(self._context.initiator_name))
        return name

    def wrap(self, message: bytes) -> bytes:
        """The message, signed; raises KerberosError."""
        signed: bytes = self._guarded(lambda: self._context.wrap(message, False).message)
        return signed

    def unwrap(self, token: bytes) -> bytes:
        """The message that the other end has signed; raises KerberosError."""
        message: bytes = self._guarded(lambda: self._context.unwrap(token).message)
        return message

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except self._library.exceptions.GSSError as error:
            is_passing = error.min_code & 0xFFFFFFFF in _PASSING
            raise KerberosError(_reason(error), is_passing=is_passing) from None
        except UnicodeDecodeError:
            raise KerberosError("the client's name is not in UTF-8") from None


def short_names(config: ListenerConfig) -> ShortNames:
    """The rules of a listener for the names of clients; raises ConfigError."""
    gss = _library(partial(config.wrong, JAAS))
    try:
        name = gss.Name("tmp", gss.NameType.kerberos_principal).canonicalize(gss.MechType.kerberos)
        realm = str(name).rpartition("@")[2]
    except gss.exceptions.GSSError:
        realm = ""  # There is no krb5.conf, or it names no realm: DEFAULT takes no name.
    try:
        return ShortNames(config[_RULES], realm)
    except ShortNameError as error:
        raise config.wrong(_RULES, str(error)) from None


def _library(wrong: Wrong) -> ModuleType:
    try:
        import gssapi
    except (ImportError, OSError):  # OSError: the system's library is missing
        raise wrong(
            "GSSAPI needs the package gssapi: pip install 'kafkapy[kerberos]', with Debian's libkrb5-dev"
        ) from None
    library: ModuleType = gssapi
    return library


def _service(config: ListenerConfig, module: LoginModule) -> str:
    own: str | None = config[_SERVICE]
    of_line = module.options.get("serviceName")
    if own and of_line and own != of_line:
        raise config.wrong(_SERVICE, f"it is {own}, but the line for clients has serviceName={of_line}")
    name = own or of_line
    if not name:
        raise config.wrong(
            _SERVICE, "not set; name the service of the principal, such as kafka of kafka/host"
        )
    return name


def _reason(error: gssapi.exceptions.GSSError) -> str:
    """The library's text for an error: of Kerberos, where it has one, else of the interface."""
    texts = error.get_all_statuses(error.min_code, False) if error.min_code else []
    return " ".join(" ".join(texts or error.get_all_statuses(error.maj_code, True)).split())
