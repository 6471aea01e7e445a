"""The topic `_schemas` has the records of Confluent's registry, and all is read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkapy import Broker, SchemaRegistry
from kafkapy.errors import UserError
from kafkapy.registry.entries import Entry
from kafkapy.registry.errors import RegistryError
from kafkapy.registry.registry import Asked, Registry
from kafkapy.registry.schema import AVRO, Schema
from kafkapy.registry.subjects import Subjects
from kafkapy.registry.topic import SchemasTopic
from tests.network.raw_client import eventually
from tests.registry.conftest import Ask, asking
from tests.registry.schemas import ONE, WITH_OPTIONAL, WITH_REQUIRED, body, record


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker of a test's own."""
    with Broker() as started:
        yield started


def written(broker: Broker) -> list[tuple[str, Any]]:
    """The keys as text and the values of the topic's records."""
    return [
        ((each.key or b"").decode(), None if each.value is None else json.loads(each.value))
        for each in broker.records("_schemas")
    ]


def asked(broker: Broker, *calls: tuple[Any, ...]) -> list[Any]:
    """What a registry that is started now answers."""
    with SchemaRegistry(broker.bootstrap_servers) as registry:
        ask: Ask = asking(registry.url)
        return [ask(*call).content for call in calls]


def test_the_records_are_those_of_confluents_registry(broker: Broker) -> None:
    reference = {"name": "Order", "subject": "a", "version": 1}
    asked(
        broker,
        ("POST", "/subjects/a/versions", body(ONE)),
        ("POST", "/subjects/b/versions", body('{"type":"object"}', "JSON")),
        ("POST", "/subjects/c/versions", body(record(("order", "Order"), name="C"), references=[reference])),
        ("PUT", "/config", {"compatibility": "FULL"}),
        ("PUT", "/config/a", {"compatibility": "NONE"}),
        ("DELETE", "/config/a"),
        ("PUT", "/mode/b", {"mode": "READONLY"}),
        ("DELETE", "/subjects/c/versions/1"),
        ("DELETE", "/subjects/c/versions/1?permanent=true"),
        ("DELETE", "/subjects/a"),
    )
    c = {"subject": "c", "version": 1, "id": 3, "schema": record(("order", "Order"), name="C")}
    c["references"] = [reference]
    assert written(broker) == [
        (
            '{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
            {"subject": "a", "version": 1, "id": 1, "schema": ONE, "deleted": False},
        ),
        (
            '{"keytype":"SCHEMA","subject":"b","version":1,"magic":1}',
            {
                "subject": "b",
                "version": 1,
                "id": 2,
                "schema": '{"type":"object"}',
                "schemaType": "JSON",
                "deleted": False,
            },
        ),
        ('{"keytype":"SCHEMA","subject":"c","version":1,"magic":1}', {**c, "deleted": False}),
        ('{"keytype":"CONFIG","subject":null,"magic":0}', {"compatibilityLevel": "FULL"}),
        ('{"keytype":"CONFIG","subject":"a","magic":0}', {"compatibilityLevel": "NONE"}),
        ('{"keytype":"CONFIG","subject":"a","magic":0}', None),
        ('{"keytype":"MODE","subject":"b","magic":0}', {"mode": "READONLY"}),
        ('{"keytype":"SCHEMA","subject":"c","version":1,"magic":1}', {**c, "deleted": True}),
        ('{"keytype":"SCHEMA","subject":"c","version":1,"magic":1}', None),
        ('{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}', {"subject": "a", "version": 1}),
    ]


def test_all_is_there_after_a_new_start(broker: Broker) -> None:
    questions = (
        ("GET", "/schemas?deleted=true"),
        ("GET", "/subjects"),
        ("GET", "/subjects?deletedOnly=true"),
        ("GET", "/config"),
        ("GET", "/config/a"),
        ("GET", "/mode/a"),
        ("GET", "/subjects/gone/versions?deleted=true"),
    )
    before = asked(
        broker,
        ("POST", "/subjects/a/versions", body(ONE)),
        ("POST", "/subjects/a/versions", body(WITH_OPTIONAL)),
        ("POST", "/subjects/soft/versions", body(ONE)),
        ("POST", "/subjects/gone/versions", body('"string"')),
        ("PUT", "/config", {"compatibility": "FULL", "normalize": True}),
        ("PUT", "/config/a", {"compatibility": "NONE"}),
        ("PUT", "/mode/a", {"mode": "READONLY"}),
        ("DELETE", "/subjects/soft"),
        ("DELETE", "/subjects/gone"),
        ("DELETE", "/subjects/gone?permanent=true"),
        *questions,
    )[-len(questions) :]
    assert asked(broker, *questions) == before
    assert before[:1] != [[]]


def test_ids_are_never_given_twice(broker: Broker) -> None:
    asked(
        broker,
        ("POST", "/subjects/a/versions", body(ONE)),
        ("POST", "/subjects/b/versions", body('"string"')),
        ("DELETE", "/subjects/b"),
        ("DELETE", "/subjects/b?permanent=true"),
    )
    (after,) = asked(broker, ("POST", "/subjects/c/versions", body('"bytes"')))
    assert after["id"] == 3


def test_records_of_other_registries_are_read(broker: Broker) -> None:
    """Karapace has other orders of fields; Confluent's registry has further fields and keys."""
    entries: list[tuple[object, object]] = [
        (
            {"subject": "a", "version": 1, "magic": 1, "keytype": "SCHEMA"},
            {"deleted": False, "id": 7, "schema": ONE, "subject": "a", "version": 1},
        ),
        (
            {"keytype": "SCHEMA", "subject": "a", "version": 2, "magic": 1},
            {
                "subject": "a",
                "version": 2,
                "id": 9,
                "md5": "xyz",
                "schema": WITH_OPTIONAL,
                "metadata": {"properties": {"owner": "me"}},
                "deleted": False,
            },
        ),
        ({"keytype": "CONFIG", "magic": 0}, {"compatibilityLevel": "FULL"}),
        ({"keytype": "CONTEXT", "tenant": "default", "context": ".", "magic": 0}, {"context": "."}),
        ({"keytype": "NOOP", "magic": 0}, None),
        ({"keytype": "DELETE_SUBJECT", "subject": "a", "magic": 0}, {"subject": "a", "version": 1}),
    ]
    with SchemaRegistry(broker.bootstrap_servers) as registry:
        for key, value in entries:
            content = None if value is None else json.dumps(value)
            broker.produce("_schemas", key=json.dumps(key), value=content)
        broker.produce("_schemas", key="not JSON", value="{}")
        broker.produce("_schemas", key='{"keytype":"SCHEMA","subject":"x","version":1}', value='{"id":1}')
        ask = asking(registry.url)
        eventually(lambda: ask("GET", "/subjects/a/versions").content == [2], "what others wrote is read")
        added = ask("POST", "/subjects/b/versions", body('"int"')).content
        assert added["id"] == 10
        assert ask("GET", "/subjects/a/versions?deleted=true").content == [1, 2]
        assert ask("GET", "/config").content == {"compatibilityLevel": "FULL"}
        shown = ask("GET", "/subjects/a/versions/2").content
        assert shown["metadata"] == {"properties": {"owner": "me"}}
        ask("DELETE", "/subjects/a/versions/2")
    last = written(broker)[-1][1]
    assert (last["metadata"], last["deleted"]) == ({"properties": {"owner": "me"}}, True)


def test_the_topic_is_compacted_and_one_that_is_not_is_refused(broker: Broker) -> None:
    from confluent_kafka.admin import AdminClient, ConfigResource

    asked(broker, ("GET", "/subjects"))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (found,) = admin.describe_configs([ConfigResource("topic", "_schemas")]).values()
    assert found.result(10)["cleanup.policy"].value == "compact"
    broker.create_topics({"deleting": 1, "two": 2})
    with pytest.raises(UserError, match=r"kafkapy configs set topic deleting cleanup\.policy=compact"):
        SchemaRegistry(broker.bootstrap_servers, topic="deleting").start()
    with pytest.raises(UserError, match="has 2 partitions"):
        SchemaRegistry(broker.bootstrap_servers, topic="two").start()


def test_the_registry_goes_on_after_an_outage_of_the_broker(broker: Broker) -> None:
    with SchemaRegistry(broker.bootstrap_servers) as registry:
        ask = asking(registry.url)
        assert ask("POST", "/subjects/a/versions", body(ONE)).status == 200
        broker.stop()
        assert ask("GET", "/subjects").content == ["a"]
        broker.start()
        assert ask("POST", "/subjects/a/versions", body(WITH_OPTIONAL)).content["version"] == 2


def test_a_schema_that_the_topic_does_not_take_is_too_large(broker: Broker) -> None:
    with SchemaRegistry(broker.bootstrap_servers) as registry:
        schema = record({"name": "a", "type": "int", "doc": "x" * (1 << 20)})
        assert asking(registry.url)("POST", "/subjects/a/versions", body(schema)).error == (422, 42209)


def topic_at(bootstrap_servers: str, apply: Callable[[Entry], None], patience: float) -> SchemasTopic:
    """The topic of a cluster that has so many seconds for an answer."""
    return SchemasTopic({"bootstrap_servers": [bootstrap_servers]}, "_schemas", apply, patience=patience)


def test_a_cluster_that_does_not_answer_is_named_in_one_line() -> None:
    with pytest.raises(UserError, match=r"the topic _schemas cannot be used: [^\n]+$"):
        topic_at("127.0.0.1:1", lambda entry: None, 0.5).start()


def test_a_port_that_is_taken_is_named(broker: Broker) -> None:
    with SchemaRegistry(broker.bootstrap_servers) as first:
        port = int(first.url.rpartition(":")[2])
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            SchemaRegistry(broker.bootstrap_servers, port=port).start()


def test_damage_of_any_kind_is_left_out(broker: Broker) -> None:
    """What ends the reader would leave each later change without an answer."""
    key = '{"keytype":"SCHEMA","subject":"x","version":1,"magic":1}'
    value = {"subject": "x", "version": 1, "id": 1, "schema": ONE}
    with SchemaRegistry(broker.bootstrap_servers) as registry:
        for damaged in (
            '{"subject":"x","version":1e999,"id":1,"schema":"x"}',
            "[" * 100_000,
            json.dumps({**value, "id": 2**31}),
            json.dumps({**value, "schemaType": ["AVRO"]}),
            json.dumps({**value, "references": 5}),
        ):
            broker.produce("_schemas", key=key, value=damaged)
        level = '{"compatibilityLevel":"UNHEARD_OF"}'
        broker.produce("_schemas", key='{"keytype":"CONFIG","subject":null,"magic":0}', value=level)
        ask = asking(registry.url)
        assert ask("POST", "/subjects/a/versions", body(ONE)).content["id"] == 1
        assert ask("POST", "/subjects/a/versions", body(WITH_REQUIRED)).error == (409, 40901)
        assert ask("GET", "/subjects").content == ["a"]


def test_what_an_outage_delays_has_an_id_of_its_own(broker: Broker) -> None:
    """The producer sends a write later that was answered with a timeout."""
    subjects = Subjects()
    topic = topic_at(broker.bootstrap_servers, subjects.apply, 10)
    registry = Registry(subjects, topic.write, topic.settle)
    topic.start()
    registry.register("a", Asked(Schema(AVRO, ONE)))
    topic.patience = 0.5
    broker.stop()
    with pytest.raises(RegistryError) as late:
        registry.register("late", Asked(Schema(AVRO, '"string"')))
    topic.patience = 10
    broker.start()
    registry.register("b", Asked(Schema(AVRO, '"bytes"')))
    topic.stop()
    assert late.value.code == 50002
    ids = {name: subjects.versions(name)[0].id for name in ("a", "late", "b")}
    assert ids == {"a": 1, "late": 2, "b": 3}
    assert ('{"keytype":"NOOP","magic":0}', None) in written(broker)
