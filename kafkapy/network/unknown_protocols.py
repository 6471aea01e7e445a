"""Clients that come in the wrong way, and how often the log says so.

A TLS or HTTP client begins with bytes that would be the size of a request of hundreds of megabytes. Such
clients try again for ever: health checks, browsers, clients with wrong settings. So do those that fail to log
in, or whose requests cannot be read. Each address gets one line a minute; the others are logged at debug
level.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

SECONDS: Final = 60.0
"""How long further lines about an address are left out."""

MOST: Final = 1000
"""The addresses that are remembered; the oldest is forgotten."""

_TLS_HANDSHAKE: Final = b"\x16\x03"
_NOT_TLS: Final = frozenset({"HTTP_REQUEST", "WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_TOO_SMALL"})
"""OpenSSL's reasons for refusing the first bytes of a client."""
_HTTP: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")


def protocol_of(first_bytes: bytes) -> str | None:
    """The protocol that a client speaks, by its first four bytes; None if it is unknown."""
    if first_bytes.startswith(_TLS_HANDSHAKE):
        return "TLS"
    return "HTTP" if first_bytes.startswith(_HTTP) else None


def why_no_handshake(error: OSError) -> str:
    """Why a TLS handshake failed."""
    reason: str = getattr(error, "reason", None) or error.strerror or str(error)
    if reason in _NOT_TLS:
        return "the client does not speak TLS, and this listener nothing else"
    if reason == "UNSUPPORTED_PROTOCOL":
        return "the client offers no version of TLS that ssl.enabled.protocols has"
    return f"the TLS handshake failed: {reason.replace('_', ' ').lower()}"


class Complaints:
    """The addresses that the log has named of late."""

    def __init__(self) -> None:
        self._named_at: OrderedDict[str, float] = OrderedDict()
        """By address, oldest first."""

    def level(self, address: str, now: float) -> int:
        """The level at which to log a line about an address at the time `now`, in seconds."""
        named_at = self._named_at.get(address)
        if named_at is not None and now - named_at < SECONDS:
            return logging.DEBUG
        self._named_at[address] = now
        self._named_at.move_to_end(address)
        if len(self._named_at) > MOST:
            self._named_at.popitem(last=False)
        return logging.WARNING
