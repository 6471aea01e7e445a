"""What is counted of topics, where metrics are on: records, bytes and requests, in and out.

The partitions of a topic share its numbers. A deleted topic's numbers go with it, and are added to those of
all topics, which never fall. The meaning of each is that of Apache Kafka's BrokerTopicMetrics.
"""

from __future__ import annotations

from collections.abc import Iterator


class TopicTraffic:
    """The numbers of one topic."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "failed_share_acknowledgements",
        "failed_share_fetches",
        "fetch_conversions",
        "fetches",
        "messages_in",
        "produce_conversions",
        "produces",
        "replication_bytes_in",
        "replication_bytes_out",
        "share_acknowledgements",
        "share_fetches",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        """Records appended by this broker as the leader, as by producers and coordinators."""
        self.bytes_in = 0
        self.bytes_out = 0
        """Bytes in answers to consumers."""
        self.bytes_rejected = 0
        """Bytes of batches that were too large."""
        self.produces = 0
        """Batches that this broker was asked to append, one for each partition of a request."""
        self.failed_produces = 0
        self.fetches = 0
        """Reads of partitions for fetches. A fetch that waits reads again when there is more."""
        self.failed_fetches = 0
        self.produce_conversions = 0
        """Records that came as message sets, from clients that know no record batches."""
        self.fetch_conversions = 0
        """Records that went out in message sets, to such clients."""
        self.share_fetches = 0
        """Requests of members of share groups that read from the topic."""
        self.failed_share_fetches = 0
        self.share_acknowledgements = 0
        """Requests that say what became of records of the topic."""
        self.failed_share_acknowledgements = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0

    def add(self, other: TopicTraffic) -> None:
        """Add the numbers of another topic."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Traffic:
    """The numbers of all topics; they belong to the event loop."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicTraffic] = {}
        self._retired = TopicTraffic()
        """The numbers of the topics that are gone."""

    def __iter__(self) -> Iterator[tuple[str, TopicTraffic]]:
        return iter(self._topics.items())

    def of(self, topic: str) -> TopicTraffic:
        """The numbers of a topic that exists."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicTraffic()
        return found

    def retire(self, topic: str) -> None:
        """Keep the numbers of a topic that is gone in the total only."""
        gone = self._topics.pop(topic, None)
        if gone is not None:
            self._retired.add(gone)

    def total(self) -> TopicTraffic:
        """The numbers of all topics together, with those of the topics that are gone."""
        total = TopicTraffic()
        total.add(self._retired)
        for each in self._topics.values():
            total.add(each)
        return total
