"""Users log in by the page as to the broker, and have their rights there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from starlette.responses import PlainTextResponse

from kafkapy import Broker, Page
from kafkapy.cli import main
from kafkapy.errors import UserError
from kafkapy.page.logins import Logins
from kafkapy.serving.http_server import HttpServer
from tests.page.browsing import Browser, View

CONFIG: Final = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="admin" password="secret" user_admin="secret" user_alice="apple";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
MECHANISM: Final = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with two topics, of which alice may read one."""
    with Broker(config=CONFIG) as broker:
        broker.create_topics({"orders": 1, "payments": 1})
        broker.produce("orders", value="two apples")
        admin = AdminClient(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "admin",
                "sasl.password": "secret",
            }
        )
        rights = AclBinding(
            ResourceType.TOPIC,
            "orders",
            ResourcePatternType.LITERAL,
            "User:alice",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        for each in admin.create_acls([rights]).values():
            each.result(30)
        yield broker


@pytest.fixture
def page(broker: Broker) -> Iterator[Page]:
    with Page(broker.bootstrap_servers, host="0.0.0.0", login=True, client_config=MECHANISM) as page:
        yield page


def browser_of(page: Page) -> Browser:
    return Browser(page.url.replace("0.0.0.0", "127.0.0.1"))


def logged_in(page: Page, user: str, password: str) -> tuple[Browser, View]:
    browser = browser_of(page)
    return browser, browser.send("/login", {"user": user, "password": password})


def test_each_user_has_the_rights_that_the_broker_gives(page: Page, broker: Broker) -> None:
    alice, view = logged_in(page, "alice", "apple")
    assert view.url.endswith("/topics")
    admin, _ = logged_in(page, "admin", "secret")
    assert [row[0] for row in alice.get("/topics").rows] == ["orders"]
    assert [row[0] for row in admin.get("/topics").rows] == ["orders", "payments"]
    assert alice.get("/topics/orders/messages").rows[0][3].startswith("two apples")
    assert alice.get("/topics/payments").status == 400
    fields = {
        "value": "x",
        "value_form": "text",
        "key_form": "null",
        "key": "",
        "headers": "",
        "partition": "",
    }
    alice.get("/topics/orders/produce")
    refused = alice.send("/topics/orders/produce", {**fields, "secret": alice.secret()})
    assert "TOPIC_AUTHORIZATION_FAILED" in refused.problem
    assert len(broker.records("orders")) == 1
    # A form of one user is none of another's.
    admin.get("/topics/orders/produce")
    assert admin.send("/topics/orders/produce", {**fields, "secret": alice.secret()}).status == 403


def test_without_a_login_there_is_the_form_only(page: Page) -> None:
    browser = browser_of(page)
    assert "token" not in page.url
    for path in ("/", "/topics", "/topics/orders/0/0", "/nothing"):
        assert browser.get(path).url.endswith("/login")
    assert browser.get("/static/page.css").status == 200
    assert browser.get("/login", Cookie="kafkapy_page_user=x").status == 200
    assert browser.send("/topics/orders/produce", {"value": "x"}).url.endswith("/login")


@pytest.mark.parametrize(("user", "password"), [("alice", "pear"), ("nobody", "apple"), ("alice", "")])
def test_whom_the_broker_refuses_the_page_refuses(broker: Broker, user: str, password: str) -> None:
    with Page(broker.bootstrap_servers, login=True, client_config=MECHANISM, timeout=2) as page:
        browser, view = logged_in(page, user, password)
        assert view.status == 403
        assert "are user, password and mechanism right?" in view.problem
        assert password not in view.text or not password
        assert browser.get("/topics").url.endswith("/login")


@pytest.mark.parametrize(
    ("user", "password", "told"),
    [
        ("", "apple", "give the name of a user"),
        ("a" * 1001, "apple", "1,000 characters at most"),
        ("a", "apple" * 201, "at most"),
    ],
)
def test_what_is_no_login_does_not_reach_the_broker(page: Page, user: str, password: str, told: str) -> None:
    _, view = logged_in(page, user, password)
    assert (view.status, told in view.problem) == (400, True)
    assert password not in view.text


def test_a_user_who_logs_out_has_no_page_any_more(page: Page) -> None:
    alice, view = logged_in(page, "alice", "apple")
    other, _ = logged_in(page, "alice", "apple")
    assert ">alice<" in view.text
    cookie = "; ".join(f"{each.name}={each.value}" for each in alice.cookies())
    assert browser_of(page).get("/topics", Cookie=cookie).url.endswith("/topics")
    assert alice.send("/logout", {}, Origin="http://evil.example").status == 403
    assert alice.send("/logout", {}).url.endswith("/login")
    assert browser_of(page).get("/topics", Cookie=cookie).url.endswith("/login")
    assert other.get("/topics").url.endswith("/topics")


def test_other_sites_cannot_log_somebody_in(page: Page) -> None:
    fields = {"user": "alice", "password": "apple"}
    assert browser_of(page).send("/login", fields, Origin="http://evil.example").status == 403


def test_the_session_that_was_not_used_for_the_longest_time_ends() -> None:
    ended: list[str] = []

    def page_of(user: str, _: str) -> tuple[PlainTextResponse, ExitStack]:
        stack = ExitStack()
        stack.callback(ended.append, user)
        return PlainTextResponse(user), stack

    server = HttpServer("127.0.0.1", 0, name="test")
    logins = Logins(page_of, 0, most=2)
    server.serve(logins)
    try:
        users = {user: Browser(server.url) for user in ("first", "second", "third")}
        for user, browser in users.items():
            assert browser.send("/login", {"user": user}).text == user
            users["first"].get("/topics")
        assert ended == ["second"]
        assert [browser.get("/topics").url.rpartition("/")[2] for browser in users.values()] == [
            "topics",
            "login",
            "topics",
        ]
    finally:
        server.stop()
        logins.close()
    assert sorted(ended) == ["first", "second", "third"]


def test_a_page_with_logins_needs_their_mechanism(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="needs the mechanism"):
        Page("127.0.0.1:9092", login=True).start()
    file = tmp_path / "client.properties"
    for text, told in (
        ("security.protocol=PLAINTEXT\n", "--login: set security.protocol to SASL_PLAINTEXT or SASL_SSL"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n", "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        (
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=alice\nsasl.password=apple\n",
            "--login: users give name and password themselves; remove sasl.username",
        ),
    ):
        file.write_text(text)
        options = ["--command-config", str(file), "--bootstrap-server", "127.0.0.1:9"]
        result = CliRunner().invoke(main, ["page", "--login", "--listen", "127.0.0.1:0", *options])
        assert (result.exit_code, told in result.output) == (1, True), result.output
