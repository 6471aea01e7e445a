"""The broker, as its metrics see it."""

from __future__ import annotations

from typing import Protocol

from kafkapy.handlers.context import BrokerParts
from kafkapy.network.server import Server
from kafkapy.replicas.group_commit import GroupCommit


class ServedBroker(BrokerParts, Protocol):
    """A broker that has started, or is about to."""

    server: Server
    group_commit: GroupCommit
