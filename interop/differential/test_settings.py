"""Changes of broker settings: which are taken, in which words refused, and how they show."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from interop.differential.brokers import Broker, Differs, Pair
from interop.differential.configs import (
    APPEND,
    DELETE,
    NODE,
    SET,
    change,
    describe,
    note_alter,
    replace,
    shown,
)
from interop.support.waiting import wait_until
from kafkapy.configs.keys import broker_keys
from kafkapy.configs.kind import ResourceType
from kafkapy.protocol.messages.alter_configs import AlterConfigsRequest

pytestmark = pytest.mark.jvm

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
ALL = ""
THREADS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
TOGETHER: tuple[Mapping[str, str], ...] = (
    {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097153"},
    {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097154"},
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.9:3"},
    {"max.connections.per.ip.overrides": "127.0.0.9"},
    {"log.cleaner.io.buffer.load.factor": "nan"},
)
LISTENER = "listener.name.plaintext"
NAMES = (
    ("leader.replication.throttled.rate", ("1000", "0", "-1", "x", "")),
    ("follower.replication.throttled.rate", ("1000", "0", "-1", "x", "")),
    ("replica.alter.log.dirs.io.max.bytes.per.second", ("1000", "0", "-1", "x", "")),
    ("no.such.setting", ("1", "")),
    ("", ("1",)),
    ("a b/ü", ("1",)),
    ("super.users", ("User:a",)),
    ("log.retention.msec", ("5",)),
    ("retention.ms", ("5",)),
    ("ssl.no.such.setting", ("1",)),
    ("config.providers.x.class", ("x",)),
    (f"{LISTENER}.max.connections", ("10", "x", "-1")),
    ("listener.name.other.max.connections", ("10",)),
    ("listener.name.PLAINTEXT.max.connections", ("10",)),
    (f"{LISTENER}.max.connection.creation.rate", ("10",)),
    (f"{LISTENER}.num.network.threads", ("1", "3", "6", "7", "40")),
    (f"{LISTENER}.no.such.setting", ("1",)),
    (f"{LISTENER}.log.retention.ms", ("1", "x")),
    (f"{LISTENER}.log.dirs", ("x",)),
    (f"{LISTENER}.ssl.keystore.location", ("/x",)),
    (f"{LISTENER}.plain.sasl.jaas.config", ("x",)),
    (LISTENER, ("1",)),
    ("listener.name.", ("1",)),
    ("ssl.keystore.type", ("JKS",)),
    ("ssl.truststore.password", ("x",)),
    ("log.dirs", ("/x",)),
    ("log.retention.hours", ("5",)),
    ("advertised.listeners", ("PLAINTEXT://127.0.0.1:1",)),
    ("num.partitions", ("3",)),
    ("max.connections", ("10",)),
)


def test_broker_settings_around_their_lowest_values(pair: Pair) -> None:
    def settings(broker: Broker) -> None:
        for key in broker_keys().values():
            if key.dynamic and key.type in ("SHORT", "INT", "LONG", "DOUBLE"):
                for value in ("-2", "-1", "0", "1"):
                    note_alter(broker, f"{key.name}={value}", BROKER, NODE, (key.name, SET, value))
        for index, several in enumerate(TOGETHER):
            for name in (NODE, ALL):
                changes = [(key, SET, value) for key, value in several.items()]
                note_alter(broker, f"{index} for {name or 'all'}", BROKER, name, *changes)

    code = "error_code"
    pair.compare(
        settings,
        Differs("*", "words", "what must be positive, or fit other settings, is said in other words"),
        Differs("log.local.retention.ms=-1", code, "nothing is tiered here"),
        Differs("*load.factor=-*", code, "nothing is compacted with it"),
        Differs("*load.factor=0", code, "nothing is compacted with it"),
    )


def test_thread_counts_change_by_half_or_double_at_most(pair: Pair) -> None:
    def counts(broker: Broker) -> None:
        def note(label: str, name: str) -> None:
            now = int(str(shown(broker, BROKER, NODE, name)[name][0]))
            for value in (now // 2 - 1, now // 2, now, now * 2, now * 2 + 1, 50):
                for level in (NODE, ALL):
                    note_alter(
                        broker, f"{label} {name}={value} for {level}", BROKER, level, (name, SET, str(value))
                    )

        for name in THREADS:
            note("from the default,", name)
        name = "num.io.threads"
        change(broker, BROKER, ALL, (name, SET, "16"))
        note("from that of all,", name)
        change(broker, BROKER, NODE, (name, SET, "32"))
        note("from its own,", name)
        note_alter(broker, "own removed", BROKER, NODE, (name, DELETE, None))
        change(broker, BROKER, NODE, (name, SET, "64"))
        note_alter(broker, "own removed, too far", BROKER, NODE, (name, DELETE, None))
        note_alter(broker, "another setting", BROKER, NODE, ("log.retention.ms", SET, "5000"))
        for value in ("32", "16"):
            change(broker, BROKER, NODE, (name, SET, value))
            wait_until(lambda value=value: shown(broker, BROKER, NODE, name)[name][0] == value)  # type: ignore[misc]
        change(broker, BROKER, NODE, (name, DELETE, None))
        change(broker, BROKER, ALL, (name, DELETE, None))

    cleaner = "kafkapy has one way to say it"
    pair.compare(
        counts,
        Differs("*log.cleaner.threads=*", "words", cleaner),
        Differs("*=0 for *", "words", "a count of 0 is wrong for two reasons; Kafka's code names the other"),
    )


def test_names_of_broker_settings(pair: Pair) -> None:
    def names(broker: Broker) -> None:
        for name, values in NAMES:
            for level in (NODE, ALL):
                for value in values:
                    note_alter(broker, f"{name}={value} for {level}", BROKER, level, (name, SET, value))
                note_alter(broker, f"{name} append for {level}", BROKER, level, (name, APPEND, "1"))
                note_alter(broker, f"{name} delete for {level}", BROKER, level, (name, DELETE, None))
        for level in ("2", "x"):
            note_alter(broker, f"broker {level}", BROKER, level, ("no.such.setting", SET, "1"))

    prefix = "kafkapy names the complete setting that is wrong, Kafka what follows the listener"
    users = "Apache Kafka does not know it beside its authorizer: it keeps a change that has no effect"
    pair.compare(
        names,
        Differs("super.users*", "*", users),
        Differs(f"{LISTENER}.*", "words", prefix),
        Differs("*.rate append for *", "words", "to Kafka it is no setting of the file, and so unknown"),
        Differs(
            "*.per.second append for *", "words", "to Kafka it is no setting of the file, and so unknown"
        ),
    )


def test_settings_of_any_name_are_kept_and_shown(pair: Pair) -> None:
    def kept(broker: Broker) -> None:
        own = {
            "custom.key": "1",
            "own.key": "2",
            "max.connections": "500",
            f"{LISTENER}.max.connections": "400",
            "listener.name.other.ssl.keystore.password": "hunter2",
            "listener.name.other.ssl.keystore.type": "PEM",
            "listener.name.other.plain.sasl.jaas.config": "secret",
            "leader.replication.throttled.rate": "1000",
        }
        everyone = {
            "custom.key": "3",
            "all.key": "4",
            "max.connections": "600",
            f"{LISTENER}.max.connections": "450",
            "leader.replication.throttled.rate": "2000",
            "follower.replication.throttled.rate": "3000",
            "replica.alter.log.dirs.io.max.bytes.per.second": "4000",
        }
        names = sorted(own | everyone)

        def note(label: str) -> None:
            broker.note(f"{label}, of the broker", dict(shown(broker, BROKER, NODE, *names)))
            broker.note(f"{label}, of all brokers", dict(shown(broker, BROKER, ALL)))

        note("before")
        for level, settings in ((NODE, own), (ALL, everyone)):
            change(broker, BROKER, level, *((name, SET, value) for name, value in settings.items()))
        note("set")
        change(broker, BROKER, NODE, *((name, DELETE, None) for name in own))
        note("one level removed")
        change(broker, BROKER, ALL, *((name, DELETE, None) for name in everyone))
        note("removed")

    limit = "the default of max.connections is another"
    pair.compare(kept, Differs("*, of the broker", "*max.connections", limit))


def test_min_insync_replicas_is_a_setting_of_all_brokers(pair: Pair) -> None:
    def insync(broker: Broker) -> None:
        name = "min.insync.replicas"
        topic = broker.topic()

        def note(label: str) -> None:
            for kind, resource in ((TOPIC, topic), (BROKER, NODE), (BROKER, ALL)):
                broker.note(f"{label} of {kind} {resource}", dict(shown(broker, kind, resource, name)))

        note("as it is")
        for level in (NODE, ALL):
            for value in ("1", "2", "0", "x"):
                note_alter(broker, f"{value} for {level}", BROKER, level, (name, SET, value))
            note_alter(broker, f"removed for {level}", BROKER, level, (name, DELETE, None))
        for version in broker.versions(AlterConfigsRequest):
            for settings in ({}, {name: "1"}):
                request = replace(BROKER, ALL, settings)
                broker.ask(f"replaced by {settings} in v{version}", request, version)
        change(broker, BROKER, ALL, (name, SET, "2"))
        wait_until(lambda: shown(broker, BROKER, NODE, name)[name][0] == "2")
        note("changed")
        change(broker, TOPIC, topic, (name, SET, "3"))
        note("a topic's own")
        change(broker, BROKER, ALL, (name, SET, "1"))
        wait_until(lambda: shown(broker, BROKER, NODE, name)[name][0] == "1")

    pair.compare(insync)


def test_flushes_without_a_limit_are_accepted_and_shown(pair: Pair) -> None:
    def flushes(broker: Broker) -> None:
        topic, setting = broker.topic(), "log.flush.interval.ms"
        change(broker, BROKER, NODE, (setting, SET, "-1"))
        try:
            broker.note("broker", {"value": shown(broker, BROKER, NODE, setting)[setting][0]})
            (result,) = broker.main.quietly(describe(TOPIC, topic, "flush.ms"), 4).results
            broker.note("topic", {"error_code": result.error_code, "number": len(result.configs)})
        finally:
            change(broker, BROKER, NODE, (setting, DELETE, None))

    pair.compare(flushes, Differs("topic", "*", "Apache Kafka fails over what it has accepted"))
