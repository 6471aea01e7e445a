"""Kafka's own classes read every message that we write.

They also write every message that we read.

Each (message, version) is put to the newest release that has it: the current one, or the last with ZooKeeper
for what later releases dropped.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from interop.oracle.kafka_json import to_json
from interop.oracle.oracle import CURRENT, LAST_WITH_ZOOKEEPER, Oracle
from interop.support.jars_or_skip import skipped_without_jars
from kafkapy.protocol import codec
from kafkapy.protocol.message import TopMessage
from tests.protocol.random_messages import message_classes, random_message, versions_of

pytestmark = pytest.mark.jvm

VALUES = 20


@pytest.fixture(scope="module")
def oracles() -> Iterator[list[Oracle]]:
    with (
        skipped_without_jars(),
        Oracle(CURRENT) as current,
        Oracle(LAST_WITH_ZOOKEEPER) as last_with_zookeeper,
    ):
        yield [current, last_with_zookeeper]


@pytest.mark.parametrize("message_class", message_classes(), ids=lambda found: found.__name__)
def test_kafka_reads_what_we_write_and_writes_what_we_read(
    message_class: type[TopMessage], oracles: list[Oracle]
) -> None:
    name = message_class.__name__
    source = random.Random(name)
    known = [(oracle, oracle.versions(name)) for oracle in oracles]
    for version in versions_of(message_class):
        oracle = next(oracle for oracle, versions in known if version in versions)
        for _ in range(VALUES):
            message = random_message(source, message_class, version)
            data = codec.encode(message, version)
            as_json, written_again, left = oracle.read(name, version, data)
            assert as_json == to_json(message, version, records=False)
            assert (written_again, left) == (data, 0)
            written = oracle.write(name, version, to_json(message, version, records=True))
            assert written == data
            assert codec.decode(message_class, written, version) == message


def test_fields_that_a_version_lacks_have_the_defaults_that_kafka_gives_them(oracles: list[Oracle]) -> None:
    source = random.Random(4)
    compared = 0
    for message_class in message_classes():
        name = message_class.__name__
        oracle = next(oracle for oracle in oracles if oracle.versions(name))
        versions = [version for version in versions_of(message_class) if version in oracle.versions(name)]
        for version in versions[:-1]:
            data = codec.encode(random_message(source, message_class, version), version)
            shown = oracle.shown_in(name, version, data, versions[-1])
            if shown is not None:
                message = codec.decode(message_class, data, version)
                assert shown == to_json(message, versions[-1], records=False), (name, version)
                compared += 1
    assert compared > 300
