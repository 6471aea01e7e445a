"""A cluster whose brokers reach each other by TLS and with a login."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import kafkapy
from tests.security.certificates import make_certificates

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_records_reach_all_replicas_by_links_with_tls_and_logins(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.server,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.authority,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f"{MODULE} required username=broker password=inside"
        " user_broker=inside user_alice=outside;",
    }
    with kafkapy.Cluster(brokers=2, config=settings) as cluster:
        client = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(certificates.authority),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "outside",
        }
        topic = NewTopic("t", 4, 2)
        admin = AdminClient(client)
        admin.create_topics([topic])["t"].result(30)
        producer = Producer(client | {"acks": "all"})
        for number in range(100):
            producer.produce("t", str(number), partition=number % 4)
        assert producer.flush(30) == 0
        cluster.stop(1)
        consumer = Consumer(client | {"group.id": "g", "enable.auto.commit": False})
        consumer.assign([TopicPartition("t", number, OFFSET_BEGINNING) for number in range(4)])
        found: set[bytes] = set()
        while len(found) < 100:
            message = consumer.poll(30)
            assert message is not None
            if message.error() is None:
                found.add(message.value())
        consumer.close()
    assert found == {str(number).encode() for number in range(100)}
