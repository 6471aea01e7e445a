"""One term of office of a controller: what it knows, and what it still has to do.

A controller that is elected begins a new term, which knows nothing: others may have changed everything since
an earlier one.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from kafkapy.configs.config import BrokerConfig
from kafkapy.controller.channels import Channels
from kafkapy.controller.context import ControllerContext
from kafkapy.controller.deletions import TopicDeletions
from kafkapy.controller.elections import LeaderElections
from kafkapy.controller.reassignments import Reassignments
from kafkapy.controller.request_batch import ControlRequest
from kafkapy.controller.state_commits import StateCommits
from kafkapy.metadata.image import Broker
from kafkapy.metadata.store import MetadataStore
from kafkapy.metadata.writer import MetadataWriter
from kafkapy.protocol.types import TopicPartition


class Term:
    """The state of a controller from its election to the next one."""

    def __init__(
        self,
        writer: MetadataWriter,
        store: MetadataStore,
        channels: Channels,
        config: BrokerConfig,
        node_id: int,
    ) -> None:
        self.has_begun = False
        """Whether the controller knows the brokers and topics; from then on it answers requests."""
        self.commits = StateCommits(writer, channels, node_id, config.inter_broker_listener)
        self.elections = LeaderElections(self.commits, config)
        self.reassignments = Reassignments(self.commits, writer, store)
        self.deletions = TopicDeletions(self.commits, writer, store)
        self.to_do: dict[TopicPartition, bool] = {}
        """The partitions to look at, each with whether to tell its replicas in any case."""
        self.answers: deque[tuple[Broker, ControlRequest, Any]] = deque()
        """Answers that change something."""
        self.acted_on: dict[int, int] | None = None
        """The broker epochs that the metadata has as acted on; None if they are not there."""

    @property
    def context(self) -> ControllerContext:
        """The controller's knowledge beside the image."""
        return self.commits.context
