"""AlterReplicaLogDirs of partitions that do not exist."""

from __future__ import annotations

import pytest

from interop.differential.brokers import Broker, Pair
from kafkapy.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkapy.protocol.messages.describe_log_dirs import DescribeLogDirsRequest

pytestmark = pytest.mark.jvm


def test_partitions_that_do_not_exist(pair: Pair) -> None:
    def move(broker: Broker) -> None:
        topic = broker.topic()
        (directory,) = broker.main.quietly(DescribeLogDirsRequest(topics=None), 4).results
        names = (topic, "nobody-made-this", "", "..", "../x", "a/b", "a" * 206, "a" * 240, "a" * 300)
        for version in broker.versions(AlterReplicaLogDirsRequest):
            for where, path in (("here", directory.log_dir), ("nowhere", "/nowhere"), ("relative", "data")):
                for name in names:
                    for index in (9, -1):
                        wanted = AlterReplicaLogDirTopic(name=name, partitions=[index])
                        request = AlterReplicaLogDirsRequest(
                            dirs=[AlterReplicaLogDir(path=path, topics=[wanted])]
                        )
                        label = f"v{version} {where} {name[:20]!r} of {len(name)} {index}"
                        broker.ask(label, request, version)

    pair.compare(move)
