"""Java clients of 0.8.2, 0.10.2 and 2.8.

Tested are groups and committed offsets, and where segments start.
"""

from __future__ import annotations

import pytest

from interop.confluent_kafka.client import produce
from interop.conftest import MakeTopic
from interop.old_clients.java_clients import (
    FIRST_WITH_SIMPLE_CONSUMER,
    RELEASES,
    consume_in_group,
    jars,
    run,
)
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.records import text_records

pytestmark = pytest.mark.jvm


@pytest.fixture(autouse=True)
def _jars() -> None:
    with skipped_without_jars():
        for release in RELEASES:
            jars(release)


@pytest.mark.capability("groups")
def test_a_group_goes_on_across_releases(bootstrap_servers: str, make_topic: MakeTopic, name: str) -> None:
    topic, sent = make_topic(), text_records(90)
    produce(bootstrap_servers, topic, sent, partition=0)
    for number, release in enumerate(RELEASES[1:]):
        received = consume_in_group(release, bootstrap_servers, topic, 30, name)
        first = 30 * number
        assert [got.offset for got in received] == list(range(first, first + 30))
        assert [got.record.value for got in received] == [record.value for record in sent[first : first + 30]]


@pytest.mark.capability("groups")
@pytest.mark.usefixtures("offsets_of_v0")
def test_offsets_are_committed_with_the_requests_of_0_8(
    bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    release, topic = FIRST_WITH_SIMPLE_CONSUMER, make_topic()
    produce(bootstrap_servers, topic, text_records(10), partition=0)
    assert run(release, "committed", bootstrap_servers, topic, "0", name) == ["-1", "-1"]
    run(release, "commit", bootstrap_servers, topic, "7", name)
    assert run(release, "committed", bootstrap_servers, topic, "0", name) == ["7", "8"]


@pytest.mark.capability("positions")
def test_0_8_finds_where_segments_start(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic = make_topic(segment_bytes=str(1 << 20))
    for record in text_records(14):
        produce(bootstrap_servers, topic, [record._replace(value=b"x" * 400_000)], partition=0)
    found = run(FIRST_WITH_SIMPLE_CONSUMER, "offsets", bootstrap_servers, topic, "100")
    assert [int(line) for line in found] == [14, 12, 10, 8, 6, 4, 2, 0]
    assert run(FIRST_WITH_SIMPLE_CONSUMER, "offsets", bootstrap_servers, topic, "1") == ["14"]
