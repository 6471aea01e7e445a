"""Settings of groups, client metrics and loggers: which are taken, how they show."""

from __future__ import annotations

import pytest

from interop.differential.brokers import Broker, Differs, Pair
from interop.differential.configs import (
    APPEND,
    DELETE,
    NODE,
    SET,
    SUBTRACT,
    change,
    describe,
    note_alter,
    replace,
    resources,
    shown,
)
from interop.support.waiting import wait_until
from kafkapy.configs.keys import client_metrics_keys, group_keys
from kafkapy.configs.kind import ResourceType
from kafkapy.protocol.messages.alter_configs import AlterConfigsRequest
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest

pytestmark = pytest.mark.jvm

TOPIC, BROKER, LOGGER, METRICS, GROUP = ResourceType
WRONG_NUMBERS = ("", "x", "1.5", "-1", "0", "1", "99", "100", "3600001", "2147483647", "2147483648", "+5000")
RESETS = (
    "earliest",
    " latest ",
    "EARLIEST",
    "none",
    "by_duration:PT1H",
    "by_duration:p1dt1.5s",
    "by_duration:PT-1H",
    "by_duration:P1W",
    "by_duration:",
)
NAMES = ("", "..", "a b/ü", "x" * 300)


def test_what_a_group_may_be_given(pair: Pair) -> None:
    def groups(broker: Broker) -> None:
        group = broker.name_of("group")
        for key in group_keys().values():
            values = WRONG_NUMBERS if key.type == "INT" else ("", "x", "true", " FALSE ")
            for value in values:
                note_alter(broker, f"{key.name}={value}", GROUP, group, (key.name, SET, value))
            note_alter(broker, f"{key.name} append", GROUP, group, (key.name, APPEND, "1"))
            note_alter(broker, f"{key.name} delete", GROUP, group, (key.name, DELETE, None))
        for value in RESETS:
            note_alter(broker, f"reset {value}", GROUP, group, ("share.auto.offset.reset", SET, value))
        for name in ("no.such.setting", "", "retention.ms", "session.timeout.ms"):
            note_alter(broker, f"{name} set", GROUP, group, (name, SET, "1"))
            note_alter(broker, f"{name} delete", GROUP, group, (name, DELETE, None))
            note_alter(broker, f"{name} subtract", GROUP, group, (name, SUBTRACT, "1"))
        for name in NAMES:
            note_alter(
                broker, f"group {name[:9]}", GROUP, name, ("consumer.session.timeout.ms", SET, "50000")
            )
        note_alter(broker, "nothing", GROUP, group)

    duration = "The value must be of the form by_duration:… as Kafka's own class says; the code is the same"
    pair.compare(
        groups,
        Differs("share.auto.offset.reset=*", "words", duration),
        Differs("reset *", "words", duration),
    )


def test_what_a_subscription_to_client_metrics_may_be_given(pair: Pair) -> None:
    def subscriptions(broker: Broker) -> None:
        name = broker.name_of("metrics")
        for value in WRONG_NUMBERS:
            note_alter(broker, f"interval {value}", METRICS, name, ("interval.ms", SET, value))
        for value in ("", "*", "org.apache.kafka.consumer.", "a,b", " a , b ", "a,a", "a,,b", ","):
            note_alter(broker, f"metrics {value!r}", METRICS, name, ("metrics", SET, value))
        patterns: tuple[str, ...] = (
            "",
            "client_id=x",
            " client_id = x ",
            "client_id",
            "client_id=",
            "=x",
            "CLIENT_ID=x",
            "a=b",
        )
        patterns += (
            "client_source_port=1",
            "client_id=a=b",
            "client_id=a,client_software_name=b.*",
            "client_id=[",
        )
        for value in patterns:
            note_alter(broker, f"match {value!r}", METRICS, name, ("match", SET, value))
        for setting in (*client_metrics_keys(), "no.such.setting"):
            note_alter(broker, f"{setting} append", METRICS, name, (setting, APPEND, "1"))
            note_alter(broker, f"{setting} delete", METRICS, name, (setting, DELETE, None))
        note_alter(broker, "unknown", METRICS, name, ("no.such.setting", SET, "1"))
        for each in NAMES:
            note_alter(broker, f"name {each[:9]}", METRICS, each, ("interval.ms", SET, "5000"))

    pair.compare(subscriptions)


def test_settings_of_groups_and_client_metrics_are_kept_shown_and_listed(pair: Pair) -> None:
    def kept(broker: Broker) -> None:
        group, metrics = broker.name_of("gr/üp"), broker.name_of("metr ics")

        def note(label: str) -> None:
            broker.note(f"{label} of the group", dict(shown(broker, GROUP, group)))
            broker.note(f"{label} of the subscription", dict(shown(broker, METRICS, metrics)))
            for types in ((), (GROUP,), (METRICS,), (GROUP, METRICS, BROKER, LOGGER), (99,)):
                broker.note(f"{label} listed {types}", resources(broker, 1, *types))
            broker.note(f"{label} listed by the first version", resources(broker, 0))

        note("defaults")
        change(
            broker,
            GROUP,
            group,
            ("consumer.session.timeout.ms", SET, "50000"),
            ("share.isolation.level", SET, "read_committed"),
        )
        change(
            broker,
            METRICS,
            metrics,
            ("interval.ms", SET, " 1000 "),
            ("match", SET, "client_id=a , client_id=b"),
        )
        note("first")
        for version in broker.versions(DescribeConfigsRequest, 1):
            for synonyms in (True, False):
                request = describe(GROUP, group, "consumer.session.timeout.ms", synonyms=synonyms)
                broker.ask(f"v{version} synonyms {synonyms}", request, version)
        broker.ask("no such key", describe(METRICS, metrics, "no.such.setting"), 4)
        change(broker, BROKER, "", ("group.streams.assignment.interval.ms", SET, "1600"))
        note("with a setting of all brokers")
        change(broker, BROKER, "", ("group.streams.assignment.interval.ms", DELETE, None))
        for resource_type, name, setting in (
            (GROUP, group, "share.delivery.count.limit"),
            (METRICS, metrics, "metrics"),
        ):
            broker.main.quietly(replace(resource_type, name, {setting: "4"}, validate_only=False), 2)
            wait_until(
                lambda kind=resource_type, name=name, setting=setting: (  # type: ignore[misc]
                    shown(broker, kind, name, setting)[setting][0] == "4"
                )
            )
        note("replaced")
        change(broker, GROUP, group, ("share.delivery.count.limit", DELETE, None))
        change(broker, METRICS, metrics, ("metrics", DELETE, None))
        note("removed")

    pair.compare(kept)


def test_levels_of_loggers(pair: Pair) -> None:
    def loggers(broker: Broker) -> None:
        known = next(name for name in shown(broker, LOGGER, NODE) if name != "root")

        def words(label: str, name: str, *changes: tuple[str, int, str | None]) -> None:
            note_alter(broker, label, LOGGER, name, *changes)
            found = broker.answers[label]
            found["words"] = str(found["words"]).replace(known, "<logger>")

        for level in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"):
            change(broker, LOGGER, NODE, (known, SET, level))
            broker.note(f"shown {level}", {"logger": shown(broker, LOGGER, NODE, known)[known]})
        change(broker, LOGGER, NODE, (known, DELETE, None))
        for wrong in ("debug", " INFO ", "OFF", "ALL", "WARNING", "", None):
            words(f"level {wrong}", NODE, (known, SET, wrong))
        for operation in (APPEND, SUBTRACT):
            words(f"operation {operation}", NODE, (known, operation, "INFO"))
        for name in ("no.such.logger", ""):
            words(f"set {name}", NODE, (name, SET, "INFO"))
            words(f"delete {name}", NODE, (name, DELETE, None))
        words("set root", NODE, ("root", SET, "WARN"))
        words("delete root", NODE, ("root", DELETE, None))
        words("twice", NODE, (known, SET, "INFO"), (known, SET, "WARN"))
        words("one of two", NODE, (known, SET, "INFO"), ("no.such.logger", SET, "WARN"))
        words("none", NODE)
        for name in ("2", "", "x"):
            words(f"broker {name}", name, (known, SET, "INFO"))
            broker.ask(f"describe {name}", describe(LOGGER, name), 4)
        broker.ask("no such logger", describe(LOGGER, NODE, "no.such.logger"), 4)
        for version in broker.versions(AlterConfigsRequest):
            broker.ask(f"replace v{version}", replace(LOGGER, NODE, {known: "INFO"}), version)
        assert "root" in shown(broker, LOGGER, NODE)

    pair.compare(loggers, Differs("broker 2", "words", "kafkapy has one way to say it"))


def test_resources_of_other_types(pair: Pair) -> None:
    def others(broker: Broker) -> None:
        for resource_type in (0, 1, 3, 64, -1):
            note_alter(broker, f"alter {resource_type}", resource_type, "x", ("a", SET, "1"))
            broker.ask(f"describe {resource_type}", describe(resource_type, "x"), 4)
        for resource_type in (GROUP, METRICS):
            broker.ask(f"describe nameless {resource_type}", describe(resource_type, ""), 4)

    pair.compare(others)
