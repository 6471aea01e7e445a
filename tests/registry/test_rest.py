"""The REST interface answers as Confluent's Schema Registry does, errors included."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafkapy import Broker
from tests.calls import calls_of
from tests.registry.conftest import SCHEMA_TYPE, Ask
from tests.registry.schemas import ONE, WITH_OPTIONAL, WITH_REQUIRED, body, record


def test_a_schema_has_one_id_in_all_subjects(ask: Ask, subject: str) -> None:
    first = ask("POST", f"/subjects/{subject}/versions", body(ONE))
    assert (first.status, first.content_type) == (200, SCHEMA_TYPE)
    again = ask("POST", f"/subjects/{subject}/versions", body(ONE))
    other = ask("POST", f"/subjects/{subject}-2/versions", body(ONE))
    assert first.content["id"] == again.content["id"] == other.content["id"]
    assert ask("GET", f"/subjects/{subject}/versions").content == [1]
    found = ask("GET", f"/schemas/ids/{first.content['id']}")
    assert found.content == {"schema": ONE}
    places = ask("GET", f"/schemas/ids/{first.content['id']}/versions").content
    assert {"subject": f"{subject}-2", "version": 1} in places
    assert f"{subject}-2" in ask("GET", f"/schemas/ids/{first.content['id']}/subjects").content


def test_versions_count_up_and_are_found_by_number_latest_and_minus_one(ask: Ask, subject: str) -> None:
    for schema in (ONE, WITH_OPTIONAL):
        ask("POST", f"/subjects/{subject}/versions", body(schema))
    for name, number, schema in (("1", 1, ONE), ("latest", 2, WITH_OPTIONAL), ("-1", 2, WITH_OPTIONAL)):
        found = ask("GET", f"/subjects/{subject}/versions/{name}").content
        assert (found["subject"], found["version"], found["schema"]) == (subject, number, schema)
    assert ask("GET", f"/subjects/{subject}/versions/2/schema").content == json.loads(WITH_OPTIONAL)


def test_a_schema_is_looked_up_in_its_subject(ask: Ask, subject: str) -> None:
    registered = ask("POST", f"/subjects/{subject}/versions", body(ONE)).content
    found = ask("POST", f"/subjects/{subject}", body(ONE)).content
    assert (found["id"], found["version"], found["subject"]) == (registered["id"], 1, subject)
    assert ask("POST", f"/subjects/{subject}", body(WITH_OPTIONAL)).error == (404, 40403)
    assert ask("POST", f"/subjects/{subject}-not", body(ONE)).error == (404, 40401)


def test_white_space_and_the_order_of_names_do_not_make_another_schema(ask: Ask, subject: str) -> None:
    ask("POST", f"/subjects/{subject}/versions", body(ONE))
    spaced = json.dumps(dict(reversed(json.loads(ONE).items())), indent=3)
    assert ask("POST", f"/subjects/{subject}/versions", body(spaced)).content["version"] == 1


def test_normalize_stores_one_spelling(ask: Ask, subject: str) -> None:
    answer = ask(
        "POST",
        f"/subjects/{subject}/versions?normalize=true",
        body('{"name": "E", "type": "enum", "symbols": ["B", "A"]}'),
    )
    assert answer.content["schema"] == '{"name":"E","symbols":["B","A"],"type":"enum"}'


@pytest.mark.parametrize("subject", ["a/b", "with space", "ä", "a:b", "a%b"])
def test_subjects_may_have_any_printable_characters(ask: Ask, subject: str) -> None:
    from urllib.parse import quote

    path = f"/subjects/{quote(subject, safe='')}"
    assert ask("POST", f"{path}/versions", body(ONE)).status == 200
    assert subject in ask("GET", "/subjects").content
    assert ask("GET", f"{path}/versions/1").content["subject"] == subject


def test_subjects_are_found_by_prefix_and_page(ask: Ask, subject: str) -> None:
    for number in range(3):
        ask("POST", f"/subjects/{subject}-{number}/versions", body(ONE))
    found = [f"{subject}-{number}" for number in range(3)]
    assert ask("GET", f"/subjects?subjectPrefix={subject}").content == found
    assert ask("GET", f"/subjects?subjectPrefix=:*:{subject}").content == found
    assert ask("GET", f"/subjects?subjectPrefix={subject}&offset=1&limit=1").content == found[1:2]
    schemas = ask("GET", f"/schemas?subjectPrefix={subject}&latestOnly=true").content
    assert [each["subject"] for each in schemas] == found


class TestDeletion:
    def test_is_soft_first_and_permanent_then(self, ask: Ask, subject: str) -> None:
        path = f"/subjects/{subject}"
        for schema in (ONE, WITH_OPTIONAL):
            ask("POST", f"{path}/versions", body(schema))
        assert ask("DELETE", f"{path}?permanent=true").error == (404, 40405)
        assert ask("DELETE", path).content == [1, 2]
        assert ask("DELETE", path).error == (404, 40404)
        assert ask("GET", f"{path}/versions").error == (404, 40401)
        assert ask("GET", f"{path}/versions?deleted=true").content == [1, 2]
        assert ask("GET", f"{path}/versions/1?deleted=true").content["schema"] == ONE
        assert subject not in ask("GET", "/subjects").content
        assert subject in ask("GET", "/subjects?deleted=true").content
        assert subject in ask("GET", "/subjects?deletedOnly=true").content
        assert ask("DELETE", f"{path}?permanent=true").content == [1, 2]
        assert ask("GET", f"{path}/versions?deleted=true").error == (404, 40401)
        assert ask("DELETE", path).error == (404, 40401)

    def test_of_a_version(self, ask: Ask, subject: str) -> None:
        path = f"/subjects/{subject}/versions"
        for schema in (ONE, WITH_OPTIONAL):
            ask("POST", path, body(schema))
        assert ask("DELETE", f"{path}/1?permanent=true").error == (404, 40407)
        assert ask("DELETE", f"{path}/1").content == 1
        assert ask("DELETE", f"{path}/1").error == (404, 40406)
        assert ask("GET", path).content == [2]
        assert ask("GET", f"{path}?deleted=true").content == [1, 2]
        assert ask("GET", f"{path}?deletedOnly=true").content == [1]
        assert ask("GET", f"{path}/1").error == (404, 40402)
        assert ask("DELETE", f"{path}/1?permanent=true").content == 1
        assert ask("DELETE", f"{path}/1").error == (404, 40402)
        assert ask("DELETE", f"{path}/latest").content == 2

    def test_lets_the_schema_come_back_with_its_id_as_a_new_version(self, ask: Ask, subject: str) -> None:
        path = f"/subjects/{subject}/versions"
        first = ask("POST", path, body(ONE)).content
        ask("DELETE", f"/subjects/{subject}")
        again = ask("POST", path, body(ONE)).content
        assert (again["id"], again["version"]) == (first["id"], 2)
        assert ask("GET", f"{path}?deleted=true").content == [2]

    def test_takes_the_settings_of_the_subject_along_when_it_is_permanent(
        self, ask: Ask, subject: str
    ) -> None:
        ask("POST", f"/subjects/{subject}/versions", body(ONE))
        ask("PUT", f"/config/{subject}", {"compatibility": "FULL"})
        ask("DELETE", f"/subjects/{subject}")
        assert ask("GET", f"/config/{subject}").status == 200
        ask("DELETE", f"/subjects/{subject}?permanent=true")
        assert ask("GET", f"/config/{subject}").error == (404, 40408)


class TestReferences:
    CUSTOMER = record(("id", "long"), name="Customer")
    BUYER = record(("customer", "Customer"))

    def references(self, subject: str) -> list[dict[str, Any]]:
        return [{"name": "Customer", "subject": f"{subject}-customer", "version": 1}]

    def test_are_kept_and_shown(self, ask: Ask, subject: str) -> None:
        ask("POST", f"/subjects/{subject}-customer/versions", body(self.CUSTOMER))
        references = self.references(subject)
        answer = ask("POST", f"/subjects/{subject}/versions", body(self.BUYER, references=references))
        assert answer.status == 200, answer.content
        shown = ask("GET", f"/schemas/ids/{answer.content['id']}").content
        assert shown == {"schema": self.BUYER, "references": references}
        referring = ask("GET", f"/subjects/{subject}-customer/versions/1/referencedby").content
        assert referring == [answer.content["id"]]

    def test_keep_what_they_refer_to(self, ask: Ask, subject: str) -> None:
        ask("POST", f"/subjects/{subject}-customer/versions", body(self.CUSTOMER))
        ask("POST", f"/subjects/{subject}/versions", body(self.BUYER, references=self.references(subject)))
        assert ask("DELETE", f"/subjects/{subject}-customer").error == (422, 42206)
        assert ask("DELETE", f"/subjects/{subject}-customer/versions/1").error == (422, 42206)
        ask("DELETE", f"/subjects/{subject}")
        assert ask("DELETE", f"/subjects/{subject}-customer").content == [1]

    def test_must_lead_somewhere(self, ask: Ask, subject: str) -> None:
        path = f"/subjects/{subject}/versions"
        assert ask("POST", path, body(self.BUYER, references=self.references(subject))).error == (422, 42201)
        assert ask("POST", path, body(self.BUYER)).error == (422, 42201)


class TestLevels:
    def test_begin_with_backward(self, ask: Ask, subject: str) -> None:
        assert ask("GET", "/config").content == {"compatibilityLevel": "BACKWARD"}
        path = f"/subjects/{subject}/versions"
        ask("POST", path, body(ONE))
        refused = ask("POST", path, body(WITH_REQUIRED))
        assert refused.error == (409, 40901)
        assert "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1: note" in refused.content["message"]
        assert ask("POST", path, body(WITH_OPTIONAL)).content["version"] == 2

    @pytest.mark.parametrize(
        ("level", "old", "new", "is_compatible"),
        [
            ("NONE", ONE, '"string"', True),
            ("BACKWARD", ONE, WITH_REQUIRED, False),
            ("BACKWARD", WITH_REQUIRED, ONE, True),
            ("FORWARD", ONE, WITH_REQUIRED, True),
            ("FORWARD", WITH_REQUIRED, ONE, False),
            ("FULL", ONE, WITH_OPTIONAL, True),
            ("FULL", ONE, WITH_REQUIRED, False),
            ("FULL", WITH_REQUIRED, ONE, False),
        ],
    )
    def test_of_a_subject(
        self, ask: Ask, subject: str, level: str, old: str, new: str, is_compatible: bool
    ) -> None:
        assert ask("PUT", f"/config/{subject}", {"compatibility": level}).content == {"compatibility": level}
        ask("POST", f"/subjects/{subject}/versions", body(old))
        path = f"/compatibility/subjects/{subject}/versions"
        for each in (f"{path}/latest", f"{path}/1", path):
            assert ask("POST", each, body(new)).content == {"is_compatible": is_compatible}
        told = ask("POST", f"{path}/latest?verbose=true", body(new)).content["messages"]
        assert bool(told) != is_compatible
        registered = ask("POST", f"/subjects/{subject}/versions", body(new))
        assert registered.status == (200 if is_compatible else 409)

    def test_that_are_transitive_look_at_all_versions(self, ask: Ask, subject: str) -> None:
        ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})
        for schema in (record(("id", "string")), ONE):
            ask("POST", f"/subjects/{subject}/versions", body(schema))
        path = f"/compatibility/subjects/{subject}/versions"
        for level, is_compatible in (("BACKWARD", True), ("BACKWARD_TRANSITIVE", False)):
            ask("PUT", f"/config/{subject}", {"compatibility": level})
            assert ask("POST", path, body(WITH_OPTIONAL)).content == {"is_compatible": is_compatible}

    def test_are_asked_for_changed_and_forgotten(self, ask: Ask, subject: str) -> None:
        path = f"/config/{subject}"
        assert ask("GET", path).error == (404, 40408)
        assert ask("GET", f"{path}?defaultToGlobal=true").content == {"compatibilityLevel": "BACKWARD"}
        assert ask("PUT", path, {"compatibility": "full"}).content == {"compatibility": "FULL"}
        assert ask("GET", path).content == {"compatibilityLevel": "FULL"}
        assert ask("PUT", path, {"compatibility": "MUCH"}).error == (422, 42203)
        assert ask("DELETE", path).content == {"compatibilityLevel": "FULL"}
        assert ask("DELETE", path).error == (404, 40401)

    def test_that_cannot_be_judged_are_refused(self, ask: Ask, subject: str) -> None:
        path = f"/subjects/{subject}/versions"
        assert ask("POST", path, body('{"type":"object"}', "JSON")).status == 200
        changed = body('{"type":"array"}', "JSON")
        refused = ask("POST", path, changed)
        assert refused.error == (422, 42205)
        assert "set the level of the subject to NONE (it is BACKWARD)" in refused.content["message"]
        assert ask("POST", f"/compatibility{path}/latest", changed).error == (422, 42205)
        ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})
        assert ask("POST", path, changed).content["version"] == 2

    def test_do_not_let_the_kind_of_a_schema_change(self, ask: Ask, subject: str) -> None:
        path = f"/subjects/{subject}/versions"
        ask("POST", path, body(ONE))
        assert ask("POST", path, body('{"type":"object"}', "JSON")).error == (409, 40901)


class TestModes:
    def test_readonly_refuses_changes(self, ask: Ask, subject: str) -> None:
        ask("POST", f"/subjects/{subject}/versions", body(ONE))
        assert ask("GET", f"/mode/{subject}").error == (404, 40409)
        assert ask("PUT", f"/mode/{subject}", {"mode": "READONLY"}).content == {"mode": "READONLY"}
        assert ask("POST", f"/subjects/{subject}/versions", body(WITH_OPTIONAL)).error == (422, 42205)
        assert ask("DELETE", f"/subjects/{subject}").error == (422, 42205)
        assert ask("GET", f"/mode/{subject}").content == {"mode": "READONLY"}
        assert ask("GET", "/mode").content == {"mode": "READWRITE"}
        assert ask("DELETE", f"/mode/{subject}").content == {"mode": "READONLY"}
        assert ask("POST", f"/subjects/{subject}/versions", body(WITH_OPTIONAL)).status == 200

    def test_import_takes_ids_and_versions(self, ask: Ask, subject: str) -> None:
        path = f"/subjects/{subject}/versions"
        assert ask("POST", path, body(ONE, id=7_001, version=3)).error == (422, 42205)
        ask("PUT", f"/mode/{subject}", {"mode": "IMPORT"})
        assert ask("POST", path, body(ONE)).error == (422, 42205)
        answer = ask("POST", path, body(record(("own", "int")), id=7_001, version=3)).content
        assert (answer["id"], answer["version"]) == (7_001, 3)
        assert ask("POST", path, body(record(("other", "int")), id=7_001, version=4)).error == (422, 42205)
        ask("PUT", f"/mode/{subject}", {"mode": "READWRITE"})
        later = ask("POST", f"{path[:-9]}-2/versions", body(record(("later", "int")))).content
        assert later["id"] == 7_002

    def test_import_needs_an_empty_subject(self, ask: Ask, subject: str) -> None:
        ask("POST", f"/subjects/{subject}/versions", body(ONE))
        assert ask("PUT", f"/mode/{subject}", {"mode": "IMPORT"}).error == (422, 42205)
        assert ask("PUT", f"/mode/{subject}?force=true", {"mode": "IMPORT"}).status == 200

    def test_that_are_unknown_are_refused(self, ask: Ask, subject: str) -> None:
        assert ask("PUT", f"/mode/{subject}", {"mode": "FORWARD"}).error == (422, 42204)


@pytest.mark.parametrize(
    ("method", "path", "content", "error"),
    [
        ("GET", "/subjects/no/versions/0", None, (422, 42202)),
        ("GET", "/subjects/no/versions/99999999999999", None, (422, 42202)),
        ("GET", "/subjects/no/versions/first", None, (422, 42202)),
        ("GET", "/subjects/no/versions/1", None, (404, 40401)),
        ("GET", "/schemas/ids/99999", None, (404, 40403)),
        ("GET", "/schemas/ids/none", None, (404, 404)),
        ("GET", "/subjects?limit=none", None, (404, 404)),
        ("GET", "/nothing", None, (404, 404)),
        ("PUT", "/subjects", {}, (405, 405)),
        ("POST", "/subjects/no/versions", b"{", (400, 400)),
        ("POST", "/subjects/no/versions", b"[" * 100_000, (400, 400)),
        ("POST", "/subjects/no/versions", b"\xff", (400, 400)),
        ("POST", "/subjects/no/versions", [], (422, 422)),
        ("POST", "/subjects/no/versions", {"schema": 1}, (422, 422)),
        ("POST", "/subjects/no/versions", {"schema": "1", "what": 2}, (422, 422)),
        ("POST", "/subjects/no/versions", {"schema": '"int"', "references": [1]}, (422, 422)),
        ("POST", "/subjects/no/versions", {"schema": '"int"', "id": "x"}, (422, 422)),
        ("POST", "/subjects/no/versions", {"schema": '"int"', "metadata": {"tags": {}}}, (422, 422)),
        ("POST", "/subjects/no/versions", {"schema": '"int"', "ruleSet": {"domainRules": []}}, (422, 422)),
        ("POST", "/subjects/no/versions", {"schema": ""}, (422, 42201)),
        ("POST", "/subjects/no/versions", {"schema": '"integer"'}, (422, 42201)),
        ("POST", "/subjects/no/versions", {"schema": '"int"', "schemaType": "THRIFT"}, (422, 42201)),
        ("POST", "/subjects/%20/versions", {"schema": '"int"'}, (422, 42208)),
        ("POST", "/subjects/a%00b/versions", {"schema": '"int"'}, (422, 42208)),
        ("POST", "/subjects/no/versions", b" " * (4 << 20) + b"{}", (422, 42209)),
        ("POST", "/compatibility/subjects/no/versions/3", {"schema": '"int"'}, (404, 40402)),
        ("PUT", "/config", {"alias": "other"}, (422, 422)),
        ("PUT", "/config", {}, (422, 42203)),
        ("DELETE", "/mode/no", None, (404, 40409)),
    ],
)
def test_a_request_that_is_wrong_gets_its_code(
    ask: Ask, method: str, path: str, content: Any, error: tuple[int, int]
) -> None:
    answer = ask(method, path, content)
    assert answer.error == error, answer.content
    assert "\n" not in answer.content["message"]


def test_a_schema_may_follow_none(ask: Ask, subject: str) -> None:
    path = f"/compatibility/subjects/{subject}/versions"
    for each in (path, f"{path}/latest"):
        assert ask("POST", each, body(ONE)).content == {"is_compatible": True}
        wrong = ask("POST", f"{each}?verbose=true", body('"integer"')).content
        assert (wrong["is_compatible"], wrong["messages"]) == (
            False,
            ["Invalid schema: Could not make an Avro Schema object from integer"],
        )


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("application/json", "application/json"),
        ("application/vnd.schemaregistry+json", "application/vnd.schemaregistry+json"),
        ("application/vnd.schemaregistry.v1+json, application/json; q=0.5", SCHEMA_TYPE),
        ("text/html, */*", SCHEMA_TYPE),
    ],
)
def test_answers_have_the_type_that_is_accepted(ask: Ask, accept: str, content_type: str) -> None:
    assert ask("GET", "/subjects", Accept=accept).content_type == content_type


def test_other_types_are_refused(ask: Ask) -> None:
    assert ask("GET", "/subjects", Accept="text/html").error == (406, 406)
    assert ask("POST", "/subjects/no/versions", body(ONE), Content_Type="text/plain").error == (415, 415)


def test_what_clients_ask_first(ask: Ask) -> None:
    assert ask("GET", "/").content == {}
    assert ask("GET", "/schemas/types").content == ["JSON", "PROTOBUF", "AVRO"]
    assert ask("GET", "/contexts").content == ["."]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ('{"type":"record","name":"A","fields":[{"name":"x","type":"int","default":1e999}]}', "too large"),
        ('{"type":"string","doc":"\\ud800"}', "half of a pair"),
        (f'{{"type":"{"x" * 10_000}"}}', "xxx"),
    ],
    ids=["infinite", "surrogate", "long"],
)
def test_odd_texts_are_refused_with_a_short_reason(ask: Ask, subject: str, schema: str, reason: str) -> None:
    answer = ask("POST", f"/subjects/{subject}/versions", body(schema))
    assert answer.error == (422, 42201)
    assert reason in answer.content["message"]
    assert len(answer.content["message"]) < 3000


def test_half_of_a_pair_of_surrogates_is_no_text(ask: Ask, subject: str) -> None:
    assert (
        ask("POST", f"/subjects/{subject}/versions", body('{"type":"string","doc":"\ud800"}')).status == 400
    )


def test_subjects_that_would_become_others_are_refused(ask: Ask) -> None:
    assert ask("POST", "/subjects/%FF/versions", body(ONE)).status == 400
    assert ask("POST", "/subjects/:.context:a/versions", body(ONE)).error == (422, 42208)


def test_ids_end_where_serializers_can_write_no_more(broker: Broker) -> None:
    from kafkapy import SchemaRegistry
    from tests.registry.conftest import asking

    with SchemaRegistry(broker.bootstrap_servers, topic="_ids") as registry:
        ask = asking(registry.url)
        ask("PUT", "/mode/imported", {"mode": "IMPORT"})
        last = {**body(ONE), "id": 2**31 - 1, "version": 2**31 - 1}
        assert ask("POST", "/subjects/imported/versions", last).content["id"] == 2**31 - 1
        assert ask("POST", "/subjects/imported/versions", {**body('"int"'), "id": 5}).error == (422, 42205)
        assert ask("POST", "/subjects/a/versions", body('"int"')).error == (422, 42205)
        assert ask("POST", "/subjects/a/versions", body(ONE)).content["id"] == 2**31 - 1


def test_a_large_body_does_not_hold_others(ask: Ask, subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's thread does not read its JSON, which can take seconds."""
    with monkeypatch.context() as patched:
        loads = calls_of(patched, json, "loads")
        assert ask("POST", f"/subjects/{subject}/versions", body(ONE)).status == 200
    assert len(loads) > 2
    assert "kafkapy-registry" not in {call.thread for call in loads}


def test_schemas_are_read_while_changes_wait_for_the_cluster() -> None:
    from kafkapy.registry.registry import Registry
    from kafkapy.registry.rest import rest
    from kafkapy.registry.subjects import Subjects
    from kafkapy.serving.http_server import HttpServer
    from tests.registry.conftest import asking

    def write(*_: Any) -> None:
        answered.wait(20)

    answered, server = threading.Event(), HttpServer("127.0.0.1", 0, name="kafkapy-test")
    server.serve(rest(Registry(Subjects(), write, lambda: None)))
    ask = asking(server.url)
    try:
        with ThreadPoolExecutor(60) as pool:
            waiting = [pool.submit(ask, "PUT", "/config", {"compatibility": "FULL"}) for _ in range(60)]
            try:
                while not any(each.running() for each in waiting[-10:]):
                    time.sleep(0.01)
                begun = time.perf_counter()
                assert ask("GET", "/subjects").content == []
                assert time.perf_counter() - begun < 5
            finally:
                answered.set()
        assert {each.result().status for each in waiting} == {200}
    finally:
        server.stop()
