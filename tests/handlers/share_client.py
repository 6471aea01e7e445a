"""A member of a share group over one raw connection."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from kafkapy.protocol.messages.share_acknowledge import (
    AcknowledgementBatch as LateBatch,
)
from kafkapy.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from kafkapy.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kafkapy.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafkapy.protocol.records import decode_records, iter_headers
from tests.network.raw_client import DEADLINE, RawClient

Said = tuple[int, int, Sequence[int]]
"""Offsets from one to another, with a type for all of them or for each."""


class Given(NamedTuple):
    """What a member was given of a partition."""

    ranges: list[tuple[int, int, int]]
    values: list[bytes]
    """The values of the records in these ranges."""
    error: int
    acknowledge_error: int


class ShareMember:
    """A member, which fetches one partition of a topic."""

    def __init__(
        self, client: RawClient, topic: str, topic_id: bytes, *, group: str = "g", member: str = "m"
    ) -> None:
        self.client = client
        self.topic, self.topic_id = topic, topic_id
        self.group, self.member = group, member
        self.epoch = 0
        self.session_epoch = 0

    def heartbeat(self, **fields: Any) -> ShareGroupHeartbeatResponse:
        names = [self.topic] if self.epoch == 0 else None
        given = {"subscribed_topic_names": names, "member_epoch": self.epoch, **fields}
        request = ShareGroupHeartbeatRequest(group_id=self.group, member_id=self.member, **given)
        response: ShareGroupHeartbeatResponse = self.client.ask(request, 1)
        if not response.error_code:
            self.epoch = response.member_epoch
        return response

    def join(self) -> list[int]:
        """Send heartbeats until there is an assignment; its partitions."""
        deadline = time.monotonic() + DEADLINE
        while True:
            response = self.heartbeat()
            assert response.error_code == 0, response
            if response.assignment is not None and response.assignment.topic_partitions:
                (topic,) = response.assignment.topic_partitions
                assert topic.topic_id == self.topic_id
                return topic.partitions
            assert time.monotonic() < deadline, "no assignment in time"
            time.sleep(0.05)

    def leave(self) -> int:
        return self.heartbeat(member_epoch=-1, subscribed_topic_names=None).error_code

    def request(self, *said: Said, partition: int = 0, version: int = 2, **fields: Any) -> ShareFetchRequest:
        data = FetchPartition(
            partition_index=partition,
            acknowledgement_batches=[
                AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
                for first, last, types in said
            ],
        )
        given = {"max_records": 500, "batch_size": 500, "max_wait_ms": 5000, "min_bytes": 1, **fields}
        return ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.session_epoch,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=[data])],
            **given,
        )

    def ask_for(self, request: ShareFetchRequest, version: int = 2) -> ShareFetchResponse:
        """Send a fetch of the session."""
        response: ShareFetchResponse = self.client.ask(request, version)
        if not response.error_code:
            self.session_epoch += 1
        return response

    def fetch(self, *said: Said, **fields: Any) -> Given:
        """Fetch, after saying what became of earlier records."""
        response = self.ask_for(self.request(*said, **fields))
        assert response.error_code == 0, response
        if not response.responses:
            return Given([], [], 0, 0)
        ((data,),) = [topic.partitions for topic in response.responses]
        ranges = [
            (each.first_offset, each.last_offset, each.delivery_count) for each in data.acquired_records
        ]
        wanted = {offset for first, last, _ in ranges for offset in range(first, last + 1)}
        assert isinstance(data.records, (bytes, memoryview))
        records = memoryview(data.records)
        values = [
            record.value or b""
            for position, header in iter_headers(records)
            if not header.is_control
            for record in decode_records(records, position, header)
            if record.offset in wanted
        ]
        return Given(ranges, values, data.error_code, data.acknowledge_error_code)

    def acknowledge(self, *said: Said, partition: int = 0, last: bool = False, **fields: Any) -> int:
        """Say what became of records; the error of the partition, or of the request."""
        data = AcknowledgePartition(
            partition_index=partition,
            acknowledgement_batches=[
                LateBatch(first_offset=first, last_offset=end, acknowledge_types=list(types))
                for first, end, types in said
            ],
        )
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=-1 if last else self.session_epoch,
            topics=[AcknowledgeTopic(topic_id=self.topic_id, partitions=[data])],
            **fields,
        )
        response: ShareAcknowledgeResponse = self.client.ask(request, 2)
        if response.error_code:
            return response.error_code
        if not last:
            self.session_epoch += 1
        ((answer,),) = [topic.partitions for topic in response.responses]
        return answer.error_code
