"""The first offset and the high watermark of a partition.

They are right even just after its leader has changed.
"""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, TopicPartition

from interop.support.waiting import wait_until


def watermarks(consumer: Consumer, partition: TopicPartition, *, timeout: float = 60.0) -> tuple[int, int]:
    """Ask until the leader tells them.

    A new leader answers OFFSET_NOT_AVAILABLE until its high watermark has reached the start of its epoch, as
    Apache Kafka's does (KIP-207), and librdkafka hands that on to its caller.
    """

    def ask() -> tuple[int, int]:
        answer: tuple[int, int] = consumer.get_watermark_offsets(partition, timeout)
        return answer

    return wait_until(ask, timeout=timeout, ignoring=KafkaException)
