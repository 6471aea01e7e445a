"""Stands for python-gssapi, with tickets that anybody can write.

A client's first token is `ticket:alice@REALM`, perhaps with ` mutual`, which asks for proof of the broker. A
signed message is `signed:` and the message.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

KEYTAB: Final = "/keys"
REPLAY: Final = -1765328384 + 34
SIGNED: Final = b"signed:"


class GSSError(Exception):
    """An error of Kerberos."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.maj_code = 851968
        self.min_code = code & 0xFFFFFFFF

    def get_all_statuses(self, _code: int, _is_major: bool) -> list[str]:
        return [str(self)]


class Name(str):
    """The name of a principal."""

    def __new__(cls, text: str, _type: str = "") -> Name:
        return super().__new__(cls, text)

    def canonicalize(self, _mechanism: str) -> Name:
        return Name(f"{self}@REALM")


class Credentials:
    """Keys of a keytab, which has one."""

    def __init__(self, *, name: str, store: dict[str, str], **_: Any) -> None:
        if store.get("keytab", KEYTAB) != KEYTAB:
            raise GSSError(f"Key table file '{store['keytab']}' not found", 2)
        if name != "kafka/host@REALM":
            raise GSSError(f"No key table entry found for {name}", 3)


class SecurityContext:
    """A broker's end."""

    def __init__(self, *, creds: Credentials, usage: str) -> None:
        assert usage == "accept"
        self.complete = False
        self.initiator_name = ""

    def step(self, token: bytes) -> bytes | None:
        kind, _, rest = token.decode().partition(":")
        if kind == "replay":
            raise GSSError("Request is a replay", REPLAY)
        if kind != "ticket":
            raise GSSError("Clock skew too great", -1765328384 + 37)
        self.initiator_name, _, mutual = rest.partition(" ")
        self.complete = True
        return b"proof" if mutual else None

    def wrap(self, message: bytes, encrypt: bool) -> SimpleNamespace:
        assert not encrypt
        return SimpleNamespace(message=SIGNED + message)

    def unwrap(self, token: bytes) -> SimpleNamespace:
        if not token.startswith(SIGNED):
            raise GSSError("Message stream modified")
        return SimpleNamespace(message=token.removeprefix(SIGNED))


exceptions = SimpleNamespace(GSSError=GSSError)
MechType = SimpleNamespace(kerberos="kerberos")
NameType = SimpleNamespace(kerberos_principal="principal", hostbased_service="service")
