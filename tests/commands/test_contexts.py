"""`kafkapy context`: clusters have names, and their secrets are never in arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkapy import Broker
from kafkapy.commands.connection.contexts import default_path
from kafkapy.commands.connection.target import client_properties
from tests.commands.conftest import invoke


def test_the_context_in_use_names_the_cluster(broker: Broker) -> None:
    made = invoke("context", "set", "prod", "--bootstrap-server", broker.bootstrap_servers)
    assert (made.exit_code, made.stderr) == (0, "context prod is set, and in use.\n")
    assert invoke("topics", "create", "by-context").exit_code == 0
    invoke("context", "set", "other", "--bootstrap-server", "127.0.0.1:1")
    assert "by-context" in invoke("topics", "list").stdout
    invoke("context", "use", "other")
    assert "no broker answers at 127.0.0.1:1" in invoke("topics", "list", "--timeout", "0.5").stderr
    assert "by-context" in invoke("topics", "list", "--context", "prod").stdout
    assert "by-context" in invoke("topics", "list", env={"KAFKAPY_CONTEXT": "prod"}).stdout


def test_contexts_are_listed_shown_and_deleted() -> None:
    invoke("context", "set", "prod", "--bootstrap-server", "kafka:9093", "--username", "alice")
    (row,) = json.loads(invoke("context", "list", "--format", "json").stdout)
    assert row == {
        "context": "prod",
        "current": True,
        "bootstrap_server": "kafka:9093",
        "security_protocol": None,
        "user": "alice",
    }
    shown = json.loads(invoke("context", "show", "--format", "json").stdout)
    assert shown["sasl.password"] == "${prompt}"
    assert invoke("context", "delete", "prod").exit_code == 0
    assert invoke("context", "list").stderr == "there are no contexts; kafkapy context set makes one.\n"
    assert "no context is in use" in invoke("context", "show").stderr


def test_only_the_user_can_read_the_file(tmp_path: Path) -> None:
    invoke("context", "set", "prod", "--bootstrap-server", "kafka:9092")
    assert default_path() == tmp_path / "config" / "kafkapy" / "contexts.yaml"
    assert default_path().stat().st_mode & 0o777 == 0o600
    assert [path.name for path in default_path().parent.iterdir()] == ["contexts.yaml"]


def test_a_secret_as_an_argument_is_refused() -> None:
    line = "sasl.jaas.config=PlainLoginModule required username=${USER} password=b;"
    for property_ in (line, "sasl.password=b", "ssl.key.password=b${X}"):
        result = invoke("context", "set", "p", "--bootstrap-server", "kafka:9092", "--property", property_)
        assert result.exit_code == 1
        assert "others can read arguments" in result.stderr
    assert not default_path().exists()


def test_a_secret_that_is_in_the_file_is_not_shown() -> None:
    default_path().parent.mkdir(parents=True)
    line = 'sasl.jaas.config: \'M required username="${USER}" password = "hunter2";\''
    default_path().write_text(
        f"contexts: {{a: {{bootstrap.servers: 'b:1', sasl.password: hunter2, {line}}}}}"
    )
    assert "hunter2" not in invoke("context", "show", "a").output


def test_references_are_allowed_as_arguments_and_shown() -> None:
    line = 'M required username="alice" password="${PASSWORD}";'
    made = invoke(
        "context", "set", "p", "--bootstrap-server", "k:1", "--property", f"sasl.jaas.config={line}"
    )
    assert made.exit_code == 0, made.output
    assert line in invoke("context", "show", "p").stdout


def test_a_context_keeps_what_is_not_given_again() -> None:
    invoke("context", "set", "prod", "--bootstrap-server", "kafka:9093", "--security-protocol", "SSL")
    invoke("context", "set", "prod", "--ca-file", "/etc/ca.pem")
    assert client_properties(context="prod") == {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SSL",
        "ssl.truststore.location": "/etc/ca.pem",
    }


def test_properties_of_files_and_options_have_their_order(tmp_path: Path) -> None:
    first, second = tmp_path / "first.properties", tmp_path / "second.properties"
    first.write_text("bootstrap.servers=first:9092\nclient.id=first\nacks=1\n")
    second.write_text("client.id=second\n")
    invoke("context", "set", "prod", "--command-config", str(first))
    assert client_properties() == {"bootstrap.servers": "first:9092", "client.id": "first", "acks": "1"}
    assert client_properties(command_config=second)["client.id"] == "second"
    assert client_properties("other:9092", context="prod")["bootstrap.servers"] == "other:9092"


def test_the_properties_of_the_current_context_are_for_no_other_server() -> None:
    invoke("context", "set", "prod", "--bootstrap-server", "kafka:9093", "--username", "alice")
    assert client_properties("elsewhere:9092") == {"bootstrap.servers": "elsewhere:9092"}


def test_without_anything_the_cluster_is_the_local_one() -> None:
    assert client_properties() == {"bootstrap.servers": "127.0.0.1:9092"}


def test_an_unknown_context_is_named_with_those_there_are() -> None:
    invoke("context", "set", "prod", "--bootstrap-server", "kafka:9092")
    expected = "kafkapy: there is no context prd (there are: prod); kafkapy context set prd makes it\n"
    assert invoke("context", "use", "prd").stderr == expected
    assert invoke("topics", "list", "--context", "prd").stderr == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bootstrap-server", "kafka"), "--bootstrap-server kafka: expected HOST:PORT"),
        ((), "context p has no cluster: give --bootstrap-server HOST:PORT"),
        (
            ("--bootstrap-server", "k:1", "--security-protocol", "TLS"),
            "security.protocol=TLS: expected PLAINTEXT",
        ),
        (("--bootstrap-server", "k:1", "--sasl-mechanism", "SCRAM"), "sasl.mechanism=SCRAM: expected PLAIN"),
        (("--bootstrap-server", "k:1", "--property", "ssl.trustore=a"), "ssl.trustore: no such property"),
    ],
)
def test_a_context_that_cannot_be_right_is_refused(arguments: tuple[str, ...], message: str) -> None:
    result = invoke("context", "set", "p", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert not default_path().exists()


@pytest.mark.parametrize("text", ["contexts: [", "a: 1", "contexts: {a: 1}"])
def test_a_damaged_file_is_named(text: str) -> None:
    default_path().parent.mkdir(parents=True)
    default_path().write_text(text)
    result = invoke("topics", "list")
    assert result.exit_code == 1
    assert str(default_path()) in result.stderr
    assert "mend or delete it" in result.stderr
