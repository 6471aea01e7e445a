"""How a broker comes in at ZooKeeper, and who may use the nodes that it makes there."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkapy.metadata import znodes

_OPEN: Final = "/consumers"
"""Old consumers write below it. Source: ZkData.defaultAcls."""


Answer = Callable[[bytes | None], bytes | None]
"""The answer to a token, or the first token; None after the last one. It may block, and raise any error."""


class TicketLogin(NamedTuple):
    """A login at ZooKeeper by Kerberos: SASL GSSAPI."""

    username: str
    begin: Callable[[str], Answer]
    """Begins a login at a host."""


class ZooKeeperLogin(NamedTuple):
    """A user of ZooKeeper, by SASL DIGEST-MD5."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"ZooKeeperLogin({self.username!r})"


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """How a broker comes in at ZooKeeper; by default, as everybody does."""

    encryption: ssl.SSLContext | None = None
    """For connections; None: they have none."""
    login: ZooKeeperLogin | TicketLogin | None = None
    """None: there is no login."""
    own_nodes: bool = False
    """Whether nobody else may change the nodes that it makes (zookeeper.set.acl)."""

    def is_owned(self, path: str) -> bool:
        """Whether only the one that makes a node may change it."""
        return self.own_nodes and path != _OPEN

    def is_secret(self, path: str) -> bool:
        """Whether only the one that makes a node may read it."""
        return self.is_owned(path) and path.startswith(znodes.SENSITIVE)


EVERYBODY: Final = ZooKeeperAccess()
"""Comes in without a name, and makes nodes that everybody may change."""
