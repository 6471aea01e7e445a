"""The broker, as its metrics see it."""

from __future__ import annotations

from typing import Protocol

from kafkapy.handlers.context import BrokerParts
from kafkapy.metadata.store import MetadataStore
from kafkapy.network.server import Server
from kafkapy.replicas.group_commit import GroupCommit
from kafkapy.replicas.log_cleaner import LogCleaner


class ServedBroker(BrokerParts, Protocol):
    """A broker that has started, or is about to."""

    server: Server
    group_commit: GroupCommit
    log_cleaner: LogCleaner
    store: MetadataStore
