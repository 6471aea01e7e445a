"""Addresses of clients as ACLs have them: as Java's InetAddress.getHostAddress writes them."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


def host_address(peer_host: str) -> str:
    """The host in the form in which ACLs have it: "0:0:0:0:0:0:0:1" for "::1"."""
    return _of_ipv6(peer_host) if ":" in peer_host else peer_host


@lru_cache(maxsize=1_000)
def _of_ipv6(text: str) -> str:
    address, percent, scope = text.partition("%")
    try:
        parsed = ipaddress.IPv6Address(address)
    except ValueError:
        return text
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return ":".join(f"{int(each, 16):x}" for each in parsed.exploded.split(":")) + percent + scope
