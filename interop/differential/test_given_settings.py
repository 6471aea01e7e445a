"""One server.properties for both brokers: both start, and show what they were given."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

import pytest

from interop.differential.brokers import Broker, Differs, Pair
from interop.differential.configs import NODE, shown
from interop.support.kafka_process import KafkaProcess
from kafkapy.configs.keys import broker_keys
from kafkapy.configs.kind import ResourceType
from tests.servers.kafkapy_process import KafkapyProcess

pytestmark = pytest.mark.jvm

ODD = {
    "super.users": "User:admin;User:other",
    "custom.key": "5",
    "confluent.license": "secret",
    "log.retention.msec": "5",
    "zookeper.connect": "here",
    "listener.name.plaintext.max.connections": "400",
    "listener.name.plaintext.ssl.keystore.password": "hunter2",
    "listener.name.other.max.connections": "7",
    "leader.replication.throttled.rate": "77",
    "min.insync.replicas": "2",
    "log.retention.hours": "48",
    "background.threads": "3",
    "num.io.threads": "2",
    "compression.type": "lz4",
    "log.flush.scheduler.interval.ms": "1000",
    "max.connections": "4000",
    "group.consumer.session.timeout.ms": "50000",
    "group.share.assignment.interval.ms": "1500",
    "offsets.topic.num.partitions": "5",
}
PLACES = ("listeners", "advertised.listeners", "controller.quorum.voters", "log.dirs")
"""What two processes cannot share."""


@pytest.fixture(scope="module")
def given(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both brokers with one file, but for addresses and directories."""
    kafka = KafkaProcess(tmp_path_factory.mktemp("kafka"), properties=ODD, heap="384m")
    kafkapy = KafkapyProcess(tmp_path_factory.mktemp("kafkapy"), file=kafka.properties)
    with kafka, kafkapy:
        yield Pair(kafka.bootstrap_servers, kafkapy.bootstrap_servers)


def names(table: str) -> set[str]:
    """The settings of a table."""
    text = resources.files("kafkapy.configs").joinpath(f"{table}.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t")[0] for line in text.splitlines()[1:] if not line.startswith("#"))
    return set(rows)


def test_what_the_broker_was_given_is_shown_as_given(given: Pair) -> None:
    ours_alone = broker_keys().keys() - names("broker_configs") - ODD.keys()
    other_defaults = names("kafkapy_configs") & names("broker_configs")

    def settings(broker: Broker) -> None:
        for resource_type, name in ((ResourceType.BROKER, NODE), (ResourceType.BROKER, "")):
            for setting, about in shown(broker, resource_type, name).items():
                if setting not in ours_alone:
                    value, *rest, synonyms = about
                    fields: dict[str, object] = {"value": value, "kind": tuple(rest), "synonyms": synonyms}
                    if setting in PLACES:
                        fields = {"kind": tuple(rest)}
                    broker.note(f"{name or 'all'} {setting}", fields)
        group = shown(broker, ResourceType.GROUP, broker.name_of("group"))
        broker.note("group", dict(group))
        topic = shown(broker, ResourceType.TOPIC, broker.topic())
        broker.note("topic", dict(topic))
        broker.answers = dict(sorted(broker.answers.items()))

    another = "kafkapy has a default of its own (docs/settings.md)"
    exceptions = [Differs(f"{NODE} {name}", "*", another) for name in sorted(other_defaults - {"listeners"})]
    given.compare(
        settings,
        Differs(f"{NODE} listener.name.*", "synonyms", another),
        Differs(
            f"{NODE} super.users", "*", "Apache Kafka knows it in its authorizer only, and hides its value"
        ),
        Differs("topic", "flush.ms", "the file gives it, by log.flush.scheduler.interval.ms"),
        *exceptions,
    )
