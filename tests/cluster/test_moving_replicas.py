"""A replica that moves away is deleted with its log, and comes back with all records."""

from __future__ import annotations

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

import kafkapy
from tests.cluster.test_cluster import QUIET, admin, logs, read, wait_until
from tests.cluster.test_throttles import move, wait_until_moved


def test_a_replica_that_moved_away_is_deleted_and_may_come_back() -> None:
    with kafkapy.Cluster(brokers=3) as cluster:
        topic = NewTopic("t", 1, replica_assignment=[[1, 2]])
        client = admin(cluster)
        client.create_topics([topic])["t"].result()
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
        for number in range(50):
            producer.produce("t", b"%d" % number)
        assert producer.flush(30) == 0
        log = cluster[2].core.config.log_dirs[0] / "t-0"
        assert log.exists()
        move(cluster, "t", 1, 3)
        wait_until_moved(cluster, "t", 1, 3)
        wait_until(lambda: not log.exists())
        move(cluster, "t", 2, 3)
        wait_until_moved(cluster, "t", 2, 3)
        first, second, third = logs(cluster, "t", 0)
        assert (first, second) == (b"", third)
        assert read(cluster.bootstrap_servers, "t", 0, 50) == [b"%d" % number for number in range(50)]
