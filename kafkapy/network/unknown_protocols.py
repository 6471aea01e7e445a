"""Clients that come in the wrong way, and how often the log says so.

A TLS or HTTP client begins with bytes that would be the size of a request of hundreds of megabytes. Such
clients try again for ever: health checks, browsers, clients with wrong settings. So do those that fail to log
in, or whose requests cannot be read. Each address gets a line a minute for each thing that is wrong, and five
at most; the others are logged at debug level. Behind one address there may be many clients, such as a health
check that is always wrong and a service that fails for the first time.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

SECONDS: Final = 60.0
"""How long further lines about the same are left out."""

REASONS: Final = 5
"""The lines about an address within these seconds, since a client can choose what the lines say."""

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
    """What the log has said of late about addresses."""

    def __init__(self) -> None:
        self._said: OrderedDict[str, tuple[float, set[int]]] = OrderedDict()
        """By address, the time of the first line and the hashes of all, oldest first."""

    def level(self, address: str, why: str, now: float) -> int:
        """The level at which to log `why` about an address at the time `now`, in seconds."""
        since, said = self._said.get(address, (0.0, None))
        if said is None or now - since >= SECONDS:
            self._said[address] = now, {hash(why)}
            self._said.move_to_end(address)
            if len(self._said) > MOST:
                self._said.popitem(last=False)
        elif hash(why) in said or len(said) >= REASONS:
            return logging.DEBUG
        else:
            said.add(hash(why))
        return logging.WARNING
