"""Kafka as pipelines see it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from kafkapy.pipeline.client_options import librdkafka_options
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.topics import Topics
from tests.pipeline.conftest import MakeTopic, delete_records


@pytest.mark.parametrize(
    ("configs", "expires"),
    [
        ({"retention_ms": "3600000"}, True),
        ({"retention_ms": "-1"}, False),
        ({"retention_ms": "3600000", "cleanup_policy": "compact"}, False),
    ],
)
def test_what_is_older_than_the_retention_expires_at_once(
    topics: Topics, make_topic: MakeTopic, configs: dict[str, str], expires: bool
) -> None:
    topic, now = make_topic(**configs), int(time.time() * 1000)
    assert topics.expires(topic, now - 7_200_000) is expires
    assert not topics.expires(topic, now)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no.such.host.invalid:9092"])
def test_an_unreachable_broker_is_found_within_seconds(address: str) -> None:
    began = time.monotonic()
    with pytest.raises(PipelineError, match=f"cannot reach a Kafka broker at {address} .*; start it"):
        Topics(address).partitions("orders")
    assert time.monotonic() - began < 8


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"security.protocol": "SASLX"}, 'kafka: Invalid value "SASLX" for configuration property "security'),
        (
            {
                "security.protocol": "SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": "/nowhere.pem",
            },
            r"kafka: .*ssl.ca.location.*; correct it in the definition",
        ),
    ],
)
def test_options_that_no_client_takes_are_one_line(options: dict[str, str], told: str) -> None:
    with pytest.raises(PipelineError, match=told) as refused:
        Topics("127.0.0.1:1", options)
    assert "\n" not in str(refused.value)


def test_a_missing_topic_is_found_without_creating_it(topics: Topics, make_topic: MakeTopic) -> None:
    topic = make_topic(name="payments")
    missing = topic.replace("payments", "paiments")
    for ask in (topics.partitions, topics.start_offsets, topics.end_offsets):
        with pytest.raises(PipelineError, match=rf"there is no topic '{missing}' .*did you mean '{topic}'\?"):
            ask(missing)
    with pytest.raises(PipelineError, match="Unknown topic"):
        topics.cleanup_policy(missing)
    assert list(topics.consume(topic)) == []
    assert missing not in topics.names()
    assert not topics.exists(missing)
    assert topics.exists(topic)


def test_the_id_of_a_topic_that_is_not_there(topics: Topics) -> None:
    with pytest.raises(PipelineError, match="there is no topic 'nowhere'"):
        topics.topic_id("nowhere")


def test_a_topic_created_anew_has_another_id(topics: Topics, make_topic: MakeTopic, bootstrap: str) -> None:
    topic = make_topic()
    before = topics.topic_id(topic)
    assert before == Topics(bootstrap).topic_id(topic) is not None
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(10)
    topics.create(topic)
    assert topics.topic_id(topic) not in (before, None)


def test_creating_a_topic_that_is_there_says_so(topics: Topics, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    assert topics.partitions(topic) == [0, 1, 2]
    assert not topics.create(topic)


def test_a_topic_that_cannot_be_created_says_why(topics: Topics) -> None:
    with pytest.raises(PipelineError, match="creating the topic bad failed: "):
        topics.create("bad", configs={"cleanup.policy": "burn"})


def test_the_cleanup_policy_may_be_both(topics: Topics, make_topic: MakeTopic) -> None:
    assert topics.cleanup_policy(make_topic()) == {"delete"}
    assert topics.cleanup_policy(make_topic(cleanup_policy="compact,delete")) == {"compact", "delete"}


def test_offsets_by_partition(topics: Topics, make_topic: MakeTopic, bootstrap: str) -> None:
    topic = make_topic(partitions=3, records=10)
    assert topics.end_offsets(topic) == {0: 4, 1: 3, 2: 3}
    assert topics.end_offsets(topic, "read_uncommitted") == {0: 4, 1: 3, 2: 3}
    delete_records(bootstrap, topic, {1: 2})
    assert topics.start_offsets(topic) == {0: 0, 1: 2, 2: 0}


def test_offsets_at_a_time_are_the_end_where_nothing_is_later(topics: Topics, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3, records=10)
    assert topics.offsets_at(topic, 0) == {0: 0, 1: 0, 2: 0}
    assert topics.offsets_at(topic, 1_004) == {0: 2, 1: 1, 2: 1}
    assert topics.offsets_at(topic, 1_009) == {0: 3, 1: 3, 2: 3}
    assert topics.offsets_at(topic, 2_000) == {0: 4, 1: 3, 2: 3}


def test_consuming_ends_at_the_present_end(topics: Topics, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3, records=10)
    read = [(message.partition(), message.offset()) for message in topics.consume(topic)]
    assert sorted(read) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
    assert [offset for partition, offset in read if partition == 0] == [0, 1, 2, 3]


def test_consuming_keeps_to_its_bounds(topics: Topics, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3, records=10)
    read = topics.consume(topic, start={0: 2, 1: 3}, end={2: 1})
    assert sorted((message.partition(), message.offset()) for message in read) == [(0, 2), (0, 3), (2, 0)]
    assert list(topics.consume(make_topic())) == []


WAITING = """
import re, sys, time
from pathlib import Path
from kafkapy.pipeline.topics import Topics

def size():
    return int(re.search(r"VmRSS:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])

topics = Topics(sys.argv[1])
before, largest, grew = size(), 0, time.monotonic()
messages = topics.consume(sys.argv[2])
next(messages)
while time.monotonic() - grew < 2:
    if (present := size()) > largest + 100:
        largest, grew = present, time.monotonic()
    time.sleep(0.05)
print(largest - before, 1 + sum(1 for _ in messages))
"""


def test_what_is_not_asked_for_yet_takes_little_memory(
    topics: Topics, make_topic: MakeTopic, bootstrap: str
) -> None:
    topic, producer = make_topic(), topics.producer()
    for _ in range(30_000):
        producer.produce(topic, value=bytes(2_000))
        producer.poll(0)
    assert producer.flush(60) == 0
    done = subprocess.run(
        [sys.executable, "-c", WAITING, bootstrap, topic], check=True, capture_output=True, text=True
    )
    grown_kib, read = map(int, done.stdout.split())
    assert read == 30_000
    assert grown_kib < 40 * 1024


def test_the_position_is_published_as_a_group(topics: Topics, make_topic: MakeTopic, bootstrap: str) -> None:
    topic = make_topic(partitions=2, records=10)
    topics.commit_group_offsets("published", topic, {0: 5, 1: 3})
    topics.commit_group_offsets("published", topic, {0: 4, 1: 3})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("published")]).values()
    assert {place.partition: place.offset for place in future.result(10).topic_partitions} == {0: 4, 1: 3}


def test_a_group_with_consumers_is_not_overwritten(
    topics: Topics, make_topic: MakeTopic, bootstrap: str
) -> None:
    topic = make_topic(records=2)
    settings = {"group.id": "busy", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    try:
        deadline = time.monotonic() + 20
        while consumer.poll(0.1) is None:
            assert time.monotonic() < deadline
        with pytest.raises(PipelineError, match=r"group busy failed: .*name another in group:"):
            topics.commit_group_offsets("busy", topic, {0: 1})
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("java", "librdkafka"),
    [
        ({"fetch.max.bytes": "1", "max.poll.records": "5"}, {}),
        ({"security.protocol": "SSL"}, {"security.protocol": "SSL"}),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/me.pem", "ssl.key.password": "x"},
            {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem", "ssl.key.password": "x"},
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        (
            {
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
                r'username="me" password="p;\"w";',
            },
            {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": 'p;"w'},
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "CA", "ssl.keystore.key": "KEY"},
            {"ssl.ca.pem": "CA", "ssl.key.pem": "KEY"},
        ),
        (
            {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/me", "ssl.keystore.password": "x"},
            {"ssl.keystore.location": "/me", "ssl.keystore.password": "x"},
        ),
        ({"ssl.enabled.protocols": "TLSv1.3", "sasl.login.refresh.buffer.seconds": "60"}, {}),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://id/token",
                "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.secured."
                "OAuthBearerLoginCallbackHandler",
                "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "
                'required clientId="me" clientSecret="s" scope="kafka";',
            },
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://id/token",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "me",
                "sasl.oauthbearer.client.secret": "s",
                "sasl.oauthbearer.scope": "kafka",
            },
        ),
        (
            {
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
                'keyTab="/etc/me.keytab" principal="me@EXAMPLE.ORG";',
            },
            {
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "sasl.kerberos.keytab": "/etc/me.keytab",
                "sasl.kerberos.principal": "me@EXAMPLE.ORG",
            },
        ),
    ],
)
def test_java_options_are_translated(java: dict[str, str], librdkafka: dict[str, str]) -> None:
    assert librdkafka_options("127.0.0.1:1", java) == {"bootstrap.servers": "127.0.0.1:1", **librdkafka}


@pytest.mark.parametrize(
    ("java", "remedy"),
    [
        (
            {"ssl.truststore.password": "x", "ssl.truststore.location": "/ca.jks"},
            r"keytool -list -rfc -keystore /ca.jks > ca.pem, and name that file with ssl.truststore.type: P",
        ),
        (
            {"ssl.keystore.type": "JKS", "ssl.keystore.location": "/my k"},
            r"keytool -importkeystore -srckeystore '/my k' .* with ssl.keystore.type: PKCS12",
        ),
        ({"ssl.truststore.password": "x"}, "use PEM files"),
        ({"sasl.jaas.config": "com.example.OAuthLoginModule required;"}, "use PlainLoginModule or Scram"),
        ({"sasl.jaas.config": "PlainLoginModule required username=me password"}, "end with a semicolon"),
        ({"sasl.mechanism": "AWS_MSK_IAM"}, r"set sasl.jaas.config: software\.amazon\.\S+ required;"),
        (
            {
                "sasl.mechanism": "AWS_MSK_IAM",
                "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required "
                'awsRoleExternalId="1";',
            },
            "awsRoleExternalId is known to Java's clients only; let the pipeline log in with awsProfileName",
        ),
        ({"sasl.login.callback.handler.class": "com.example.Handler"}, "is a class of Java"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "has no Kerberos; build one with it"),
    ],
)
def test_security_without_a_counterpart_is_refused(java: dict[str, str], remedy: str) -> None:
    with pytest.raises(PipelineError, match=remedy):
        Topics("127.0.0.1:1", java)
