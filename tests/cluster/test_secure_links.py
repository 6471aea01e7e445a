"""A cluster whose brokers reach each other by TLS and with a login."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import kafkapy
from kafkapy.configs.unsupported import TOKEN_VALIDATORS
from tests.security.certificates import make_certificates
from tests.security.issuer import Issuer

SECURITY = "org.apache.kafka.common.security"


def by_password(folder: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """What the brokers need, and what a client does."""
    users = "username=broker password=inside user_broker=inside user_alice=outside"
    line = f"{SECURITY}.plain.PlainLoginModule required {users};"
    client = {"sasl.username": "alice", "sasl.password": "outside"}
    return {"listener.name.plaintext.plain.sasl.jaas.config": line}, client


def by_token(folder: Path) -> tuple[dict[str, str], dict[str, Any]]:
    issuer, token = Issuer(folder), folder / "broker.jwt"
    token.write_text(f"{issuer.token('broker')}\n")
    prefix = "listener.name.plaintext.oauthbearer"
    module = f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required;"
    settings = {
        **issuer.settings,
        f"{prefix}.sasl.jaas.config": module,
        f"{prefix}.sasl.server.callback.handler.class": TOKEN_VALIDATORS[0],
        "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
    }
    return settings, {"oauth_cb": lambda _: (issuer.token("alice"), time.time() + 3600)}


@pytest.mark.parametrize(("mechanism", "login"), [("PLAIN", by_password), ("OAUTHBEARER", by_token)])
def test_records_reach_all_replicas_by_links_with_tls_and_logins(
    tmp_path: Path, mechanism: str, login: Callable[[Path], tuple[dict[str, str], dict[str, Any]]]
) -> None:
    certificates = make_certificates(tmp_path)
    of_brokers, of_client = login(tmp_path)
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.server,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.authority,
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        **of_brokers,
    }
    with kafkapy.Cluster(brokers=2, config=settings) as cluster:
        client = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(certificates.authority),
            "sasl.mechanism": mechanism,
            **of_client,
        }
        topic = NewTopic("t", 4, 2)
        admin = AdminClient(client)
        admin.poll(0)  # it asks for its token
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
