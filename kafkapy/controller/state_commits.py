"""Commits what the state machines decide, publishes it, and sends the requests.

The order is that of Apache Kafka's controller: what is in the metadata tree is true, whether or not a
broker has heard of it. A controller that stops in between is followed by one that tells the brokers again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from kafkapy.controller.channels import Channels
from kafkapy.controller.context import ControllerContext
from kafkapy.controller.request_batch import RequestBatch, Sender
from kafkapy.controller.state_changes import StateChanges
from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.writer import MetadataWriter

PARTITIONS_AT_ONCE: Final = 100
"""How many partitions are changed in one transaction, and in one turn of the event loop."""

T = TypeVar("T")


class StateCommits:
    """The commits of one controller, from its election on.

    The caller holds the writer's turn.
    """

    def __init__(self, writer: MetadataWriter, channels: Channels, node_id: int, listener: str) -> None:
        self.context = ControllerContext()
        self.elections = self.unclean_elections = 0
        """How many partitions got another leader, and how many of these one that was not in sync."""
        self.is_publishing = False
        """Whether an image is being published whose changes are already acted on."""
        self._writer = writer
        self._channels = channels
        self._sender = Sender(node_id, writer.controller_epoch, listener)

    @property
    def image(self) -> MetadataImage:
        return self._writer.image

    async def make(self, build: Callable[[StateChanges], T]) -> T:
        """Have `build` collect changes, and make them; return its result.

        It is called again if other sessions have changed the same nodes.

        Raises:
            KafkaError: raised by `build`; NOT_CONTROLLER, KAFKA_STORAGE_ERROR or REQUEST_TIMED_OUT. No
            request
                was sent.
        """

        async def attempt() -> T:
            changes = StateChanges(self.image, self.context, self._sender.epoch)
            result = build(changes)
            operations = changes.operations()
            if operations:
                await self._writer.commit(operations)
            if changes:
                self.publish(changes.image())
            self.elections += changes.elections
            self.unclean_elections += changes.unclean_elections
            changes.put_into_context()
            self.send(changes.requests)
            return result

        return await self._writer.until_current(attempt)

    def publish(self, image: MetadataImage) -> None:
        """Publish an image whose changes are already acted on."""
        self.is_publishing = True
        try:
            self._writer.publish(image)
        finally:
            self.is_publishing = False

    def send(self, requests: RequestBatch) -> None:
        """Queue requests for their brokers, with what the image says now."""
        for broker, request in requests.requests(self.image, self.context, self._sender):
            self._channels.send(broker, request)
