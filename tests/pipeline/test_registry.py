"""The schema registry, and the schemas of writers that it knows."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from google.protobuf import descriptor_pb2

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.format_definition import FormatDefinition
from kafkapy.pipeline.formats import open_format
from kafkapy.pipeline.formats.avro_format import AvroFormat
from kafkapy.pipeline.formats.registry import Registry
from kafkapy.pipeline.formats.spark_types import sql_name
from kafkapy.pipeline.formats.writer_schemas import WriterSchemas
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State
from tests.pipeline.schema_registry import SchemaRegistry, running_registry
from tests.pipeline.test_avro_schemas import record


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as running:
        yield running


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path / "table")


def columns(schemas: AvroFormat) -> str | None:
    return None if schemas.columns is None else sql_name(schemas.columns)


def test_a_schema_comes_with_what_it_refers_to(registry: SchemaRegistry) -> None:
    registry.register(
        7, record(("to", "Address")), references=[{"name": "Address", "subject": "a/b", "version": 3}]
    )
    registry.answers["/subjects/a%2Fb/versions/3"] = {
        "schema": "address", "references": [{"name": "Zip", "subject": "zip", "version": 1}],
    }  # fmt: skip
    registry.answers["/subjects/zip/versions/1"] = {"schema": "zip"}
    found = Registry(registry.url + "/").schema(7)
    assert found is not None
    assert (found.kind, found.references) == ("AVRO", {"Zip": "zip", "Address": "address"})
    assert Registry(registry.url).schema(8) is None


def test_user_and_password_stand_in_the_url(registry: SchemaRegistry) -> None:
    user = registry.url.replace("//", "//me:s%40cret@")
    Registry(user).check()
    assert registry.logins == ["Basic bWU6c0BjcmV0"]
    registry.answers["/schemas/ids/1"] = 401
    with pytest.raises(
        PipelineError, match=r"answered 401 Unauthorized; put USER:PASSWORD@ into format.registry"
    ):
        Registry(user).check()


def test_a_registry_that_is_down_is_no_answer(registry: SchemaRegistry) -> None:
    registry.answers["/schemas/ids/7"] = 503
    with pytest.raises(PipelineError, match=r"answered 503 Service Unavailable; start it"):
        Registry(registry.url).schema(7)
    assert registry.asked.count("/schemas/ids/7") == 3, "it may come back"
    with pytest.raises(PipelineError, match=r"cannot be reached: .*refused; start it"):
        Registry("http://127.0.0.1:1").check()


def test_writers_schemas_are_asked_for_once_and_kept(registry: SchemaRegistry, state: State) -> None:
    registry.register(1, record(("id", "int")))
    registry.register(2, record(("id", "long"), ("note", "string")))
    WriterSchemas({}, Registry(registry.url), state).learn([2, 1])
    asked = list(registry.asked)
    again = WriterSchemas({}, Registry(registry.url), state)
    again.learn([1, 2])
    assert list(again.known()) == [2, 1], "in the order in which they were met"
    assert registry.asked == asked
    assert columns(AvroFormat(FormatDefinition(kind="avro", registry=registry.url), state)) == (
        "STRUCT<id: BIGINT, note: STRING>"
    )


def test_ids_that_are_of_no_use_are_told_and_asked_for_again(registry: SchemaRegistry, state: State) -> None:
    registry.register(5, "syntax", kind="PROTOBUF")
    registry.register(6, record(("next", ["null", "Order"])))
    schemas = WriterSchemas({}, Registry(registry.url), state)
    schemas.learn([4, 5, 6])
    assert schemas.known() == {}
    assert schemas.problems[4] == f"which the registry {registry.url} does not know"
    assert schemas.problems[5] == "which is a schema of PROTOBUF, not Avro"
    assert "which cannot become columns: next is recursive" in schemas.problems[6]
    registry.register(4, record(("id", "int")))
    schemas.learn([4])
    assert list(schemas.known()) == [4]
    assert 4 not in schemas.problems


def test_schemas_of_files_need_no_registry(state: State, tmp_path: Path) -> None:
    (tmp_path / "v1.avsc").write_text(
        '{"type": "record", "name": "O", "fields": [{"name": "a", "type": "int"}]}'
    )
    (tmp_path / "v2.avsc").write_text(
        '{"type": "record", "name": "O", "fields": [{"name": "b", "type": "int"}]}'
    )
    files = {2: str(tmp_path / "v2.avsc"), 1: str(tmp_path / "v1.avsc")}
    schemas = AvroFormat(FormatDefinition(kind="avro", schemas=files), state)
    schemas.check()
    assert columns(schemas) == "STRUCT<a: BIGINT, b: BIGINT>"
    given = AvroFormat(FormatDefinition(kind="avro", schemas=files, schema=files[1]), state)
    assert columns(given) == "STRUCT<a: INT>"
    (tmp_path / "v2.avsc").write_text("{}")
    with pytest.raises(PipelineError, match=r"v2\.avsc: the schema: expected an Avro type"):
        AvroFormat(FormatDefinition(kind="avro", schemas=files), state).check()


def test_before_the_first_record_a_registry_tells_no_columns(registry: SchemaRegistry, state: State) -> None:
    schemas = AvroFormat(FormatDefinition(kind="avro", registry=registry.url), state)
    schemas.check()
    assert columns(schemas) is None
    registry.answers["/schemas/ids/1"] = 500
    with pytest.raises(PipelineError, match="answered 500"):
        schemas.check()


def test_a_writers_schema_with_a_name_of_the_tables_own_is_a_problem_of_its_records_alone(
    registry: SchemaRegistry, state: State
) -> None:
    registry.register(1, record(("id", "int")))
    registry.register(2, record(("id", "int"), ("Batch", "string")))
    WriterSchemas({}, Registry(registry.url), state).learn([1, 2])  # as a table without this name stores it
    schemas = WriterSchemas({}, Registry(registry.url), state, {"batch"})
    assert list(schemas.known()) == [1]
    schemas.learn([1, 2])
    assert list(schemas.known()) == [1]
    told = "which cannot become columns: the column batch is the table's own; rename the field"
    assert schemas.problems == {2: told}


def test_a_readers_schema_leaves_out_what_has_a_name_of_the_tables_own(
    registry: SchemaRegistry, state: State, tmp_path: Path
) -> None:
    registry.register(1, record(("id", "int"), ("Batch", "string")))
    (tmp_path / "reader.avsc").write_text(json.dumps(record(("id", "int"))))
    definition = FormatDefinition(kind="avro", registry=registry.url, schema=str(tmp_path / "reader.avsc"))
    schemas = AvroFormat(definition, state, {"batch"})
    assert columns(schemas) == "STRUCT<id: INT>"
    assert schemas.writers is not None
    schemas.writers.learn([1])
    assert (list(schemas.writers.known()), schemas.writers.problems) == ([1], {})


def test_a_login_may_stand_beside_the_url_and_is_told_nowhere(registry: SchemaRegistry) -> None:
    Registry(registry.url, {"basic.auth.user.info": "me:s@cret"}).check()
    Registry(
        registry.url, {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": "abcd"}
    ).check()
    assert registry.logins == ["Basic bWU6c0BjcmV0", "Bearer abcd"]
    twice = registry.url.replace("//", "//me:s%40cret@")
    with pytest.raises(
        PipelineError, match=r"format.registry: basic.auth.user.info configured with userinfo"
    ) as told:
        Registry(twice, {"basic.auth.user.info": "me:s@cret"}).check()
    assert "cret" not in str(told.value)


def test_a_token_comes_from_its_issuer(registry: SchemaRegistry) -> None:
    registry.answers["/token"] = {"access_token": "abcd", "token_type": "Bearer", "expires_in": 3600}
    settings = {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.client.id": "pipeline",
        "bearer.auth.client.secret": "s@cret",
        "bearer.auth.issuer.endpoint.url": f"{registry.url}/token",
    }
    Registry(registry.url, settings).check()
    assert registry.logins == ["Bearer abcd"]
    assert "grant_type=client_credentials" in registry.tokens[0]
    registry.answers["/token"] = 401
    with pytest.raises(PipelineError, match="cannot be asked without a token") as told:
        Registry(registry.url, {**settings, "bearer.auth.client.id": "s@cret"}).check()
    assert "s@cret" not in str(told.value)


def test_a_registry_with_tls_is_asked_with_its_authority(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    client = authority.issue_cert("pipeline")
    files = {name: str(tmp_path / name) for name in ("ca.pem", "client.pem", "key.pem")}
    authority.cert_pem.write_to_path(files["ca.pem"])
    client.cert_chain_pems[0].write_to_path(files["client.pem"])
    client.private_key_pem.write_to_path(files["key.pem"])
    settings = {
        "ssl.ca.location": files["ca.pem"],
        "ssl.certificate.location": files["client.pem"],
        "ssl.key.location": files["key.pem"],
    }
    with running_registry(context) as registry:
        registry.register(7, record(("id", "int")))
        found = Registry(registry.url, settings).schema(7)
        assert found is not None
        with pytest.raises(PipelineError, match=r"cannot be reached: .*CERTIFICATE_VERIFY_FAILED"):
            Registry(registry.url).check()
    with pytest.raises(PipelineError, match=r"format.registry: .*No such file"):
        Registry(registry.url, {"ssl.ca.location": str(tmp_path / "none.pem")}).check()


def defined(registry: object, **kind: object) -> PipelineDefinition:
    values = {"topic": "orders", "table": "delta:lake/orders"}
    return PipelineDefinition.from_mapping(
        {**values, "format": {"kind": "json", "registry": registry, **kind}}
    )


def test_settings_of_a_registry_are_checked_kept_and_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"url": "https://registry", "basic.auth.user.info": "me:s@cret", "ssl.ca.location": "ca.pem"}
    definition = defined(settings)
    assert definition.format.registry_url == "https://registry"
    assert PipelineDefinition.from_mapping(definition.to_mapping()) == definition
    assert "s@cret" not in repr(definition)
    assert "s@cret" not in definition.without_secrets().to_yaml()
    assert definition.redacted("with me:s@cret") == "with [hidden]"
    monkeypatch.setenv("LOGIN", "me:other")
    definition = defined({**settings, "basic.auth.user.info": "${LOGIN}"})
    assert (
        definition.without_secrets().format.resolved_registry_settings["basic.auth.user.info"] == "me:other"
    )
    for wrong, told in (
        ({"ssl.ca.location": "ca.pem"}, "format.registry.url: is missing"),
        ({"url": "https://r", "ssl.ca.locatio": "ca.pem"}, "did you mean 'ssl.ca.location'?"),
        ({"url": "ftp://r"}, "expected an http:// or https:// URL"),
    ):
        with pytest.raises(PipelineError) as caught:
            defined(wrong)
        assert told in str(caught.value)
    with pytest.raises(PipelineError, match="json takes a schema or a registry; leave one out"):
        defined("https://registry", schema="id INT")


def test_a_json_schema_of_the_registry_gives_the_columns(registry: SchemaRegistry, state: State) -> None:
    order = {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "integer"},
            "to": {"$ref": "address.json"},
            "of": {"$ref": "address.json#/properties/zip"},
            "own": {"$ref": "#/$defs/note"},
        },
        "$defs": {"note": {"type": "string"}},
    }
    address = {
        "type": "object",
        "properties": {"zip": {"$ref": "#/$defs/zip"}, "land": {"$ref": "land.json"}},
        "$defs": {"zip": {"type": "integer"}},
    }
    refers = [{"name": "address.json", "subject": "address", "version": 1}]
    further = [{"name": "land.json", "subject": "land", "version": 1}]
    registry.register_latest("orders-value", json.dumps(order), "JSON", references=refers)
    registry.register_latest("address", json.dumps(address), "JSON", references=further)
    registry.register_latest("land", '{"type": "string"}', "JSON")
    found = open_format(defined(registry.url), state).columns
    assert found is not None
    assert sql_name(found) == (
        "STRUCT<id: BIGINT, to: STRUCT<zip: BIGINT, land: STRING>, of: BIGINT, own: STRING>"
    )
    for subject in ("shop.Order", "orders-shop.Order"):  # other strategies for the names of subjects
        registry.register_latest(subject, json.dumps(address), "JSON", references=further)
        assert open_format(defined(registry.url, subject=subject), state).columns is not None
    with pytest.raises(
        PipelineError, match=r"has no subject other; name the one of the values: format.subject"
    ):
        open_format(defined(registry.url, subject="other"), state).check()
    registry.register_latest("avro", "{}", "AVRO")
    with pytest.raises(PipelineError, match="is a schema of AVRO, not JSON"):
        open_format(defined(registry.url, subject="avro"), state).check()


def test_a_protobuf_schema_of_the_registry_gives_the_columns(registry: SchemaRegistry, state: State) -> None:
    zip_file = descriptor_pb2.FileDescriptorProto(name="x", package="shop", syntax="proto3")
    zip_file.message_type.add(name="Zip").field.add(name="code", number=1, type=9, label=1)
    order = descriptor_pb2.FileDescriptorProto(name="y", package="shop", syntax="proto3")
    order.dependency.append("shop/zip.proto")
    message = order.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=3, label=1)
    message.field.add(name="to", number=2, type=11, label=1, type_name=".shop.Zip")

    def text(file: descriptor_pb2.FileDescriptorProto) -> str:
        return base64.b64encode(file.SerializeToString()).decode()

    refers = [{"name": "shop/zip.proto", "subject": "zip", "version": 1}]
    registry.register_latest("orders-value", text(order), "PROTOBUF", references=refers)
    registry.register_latest("zip", text(zip_file), "PROTOBUF")
    found = open_format(defined(registry.url, kind="protobuf"), state).columns
    assert found is not None
    assert sql_name(found) == "STRUCT<id: BIGINT, to: STRUCT<code: STRING>>"
    registry.register_latest("zip", 'syntax = "proto3";', "PROTOBUF")
    with pytest.raises(PipelineError, match="not as a serialized descriptor"):
        open_format(defined(registry.url, kind="protobuf"), state).check()
