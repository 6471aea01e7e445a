from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import jwt
import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError
from kafkapy.configs.listener_config import ListenerConfig
from kafkapy.logins import TokenOwner
from kafkapy.security.sasl import json_web_keys
from kafkapy.security.sasl.exchange import LoginError
from kafkapy.security.sasl.jaas import LoginModule
from kafkapy.security.sasl.json_web_keys import JsonWebKeys, KeysError
from kafkapy.security.sasl.oauthbearer import OAuthBearer
from kafkapy.security.sasl.signed_tokens import SignedTokens
from tests.security.issuer import AUDIENCE, ISSUER

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())


def public(key: Any, key_id: str, algorithm: str) -> dict[str, str]:
    to_jwk = jwt.get_algorithm_by_name(algorithm).to_jwk
    return {**json.loads(to_jwk(key.public_key())), "kid": key_id, "alg": algorithm}


KEYS = {"keys": [public(RSA, "r", "RS256"), public(EC, "e", "ES256")]}


def claims(**others: Any) -> dict[str, Any]:
    now = int(time.time())
    return {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 600, **others}


LINE = LoginModule("OAuthBearerLoginModule", {})


def signed(body: dict[str, Any], key: Any = RSA, algorithm: str = "RS256", key_id: str = "r") -> str:
    return jwt.encode(body, key, algorithm, headers={"kid": key_id})


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(KEYS))
    return {
        "sasl.oauthbearer.jwks.endpoint.url": path.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": f"{AUDIENCE},other",
    }


def tokens(settings: dict[str, str]) -> SignedTokens:
    return SignedTokens(ListenerConfig(BrokerConfig(settings), "SASL_SSL", "OAUTHBEARER"), LINE)


@pytest.mark.parametrize(("key", "algorithm", "key_id"), [(RSA, "RS256", "r"), (EC, "ES256", "e")])
def test_a_signed_token_lets_its_owner_in(
    settings: dict[str, str], key: Any, algorithm: str, key_id: str
) -> None:
    body = claims()
    owner = tokens(settings).owner(signed(body, key, algorithm, key_id))
    assert owner == TokenOwner("alice", body["exp"] * 1000)


def test_what_tokens_are_checked_with_may_be_set_for_the_mechanism_of_a_listener(
    settings: dict[str, str],
) -> None:
    of_mechanism = {f"listener.name.sasl.oauthbearer.{name}": value for name, value in settings.items()}
    of_mechanism["listener.name.sasl.oauthbearer.sasl.oauthbearer.clock.skew.seconds"] = "5"
    config = ListenerConfig(BrokerConfig(of_mechanism), "SASL", "OAUTHBEARER")
    assert SignedTokens(config, LINE).owner(signed(claims(exp=int(time.time()) - 2))) is not None


def test_the_end_may_be_written_as_text(settings: dict[str, str]) -> None:
    exp = int(time.time()) + 600
    assert tokens(settings).owner(signed(claims(exp=str(exp)))) == TokenOwner("alice", exp * 1000)


def test_the_name_may_be_in_another_claim(settings: dict[str, str]) -> None:
    settings["sasl.oauthbearer.sub.claim.name"] = "client_id"
    owner = tokens(settings).owner(signed(claims(client_id="app")))
    assert owner is not None
    assert owner.name == "app"


REFUSED: dict[str, Callable[[], str]] = {
    "expired": lambda: signed(claims(exp=int(time.time()) - 60)),
    "from the future": lambda: signed(claims(nbf=int(time.time()) + 600)),
    "of another issuer": lambda: signed(claims(iss="https://other.example")),
    "for another audience": lambda: signed(claims(aud="somebody")),
    "without an end": lambda: signed({k: v for k, v in claims().items() if k != "exp"}),
    "without an owner": lambda: signed({k: v for k, v in claims().items() if k != "sub"}),
    "without an end that counts": lambda: signed(claims(exp=float("inf"))),
    "with an end too far off": lambda: signed(claims(exp=1e308)),
    "with a word as its end": lambda: signed(claims(exp="soon")),
    "of an empty owner": lambda: signed(claims(sub=" ")),
    "with the signature of another key": lambda: signed(claims(), OTHER_RSA),
    "with the name of no key": lambda: signed(claims(), key_id="x"),
    "not signed": lambda: jwt.encode(claims(), "", "none", headers={"kid": "r"}),
    "signed with the public key as a password": lambda: jwt.encode(
        claims(), "a secret that anybody could have read", "HS256", headers={"kid": "r"}
    ),
    "with another algorithm than its key": lambda: signed(claims(), EC, "ES256", "r"),
    "cut off": lambda: signed(claims())[:-8],
    "no token": lambda: "abc",
}


@pytest.mark.parametrize("token", REFUSED.values(), ids=REFUSED)
def test_a_token_lets_nobody_in_that_is(settings: dict[str, str], token: Callable[[], str]) -> None:
    """CVE-2026-33557, CVE-2026-110985: a check that is skipped lets everybody in."""
    assert tokens(settings).owner(token()) is None


@pytest.mark.parametrize("missing", ["jwks.endpoint.url", "expected.issuer", "expected.audience"])
def test_a_broker_does_not_start_without_what_tokens_are_checked_with(
    settings: dict[str, str], missing: str
) -> None:
    del settings[f"sasl.oauthbearer.{missing}"]
    with pytest.raises(ConfigError, match=missing):
        tokens(settings)


@pytest.mark.parametrize("url", ["http://issuer.example/keys", "ftp://x", "/keys.json", "file:///missing"])
def test_keys_come_from_a_file_or_by_https(settings: dict[str, str], url: str) -> None:
    settings["sasl.oauthbearer.jwks.endpoint.url"] = url
    with pytest.raises(ConfigError, match=r"jwks\.endpoint\.url"):
        tokens(settings)


def test_keys_are_read_again_when_a_token_names_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [public(RSA, "old", "RS256")]}))
    keys = JsonWebKeys(path.as_uri(), 3600, 0)
    assert keys.find("old") is not None
    path.write_text(json.dumps({"keys": [public(EC, "new", "ES256")]}))
    assert keys.find("new") is not None
    assert keys.find("old") is None


def test_invented_names_of_keys_do_not_cause_reads(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [public(RSA, "old", "RS256")]}))
    keys = JsonWebKeys(path.as_uri(), 3600, 10)
    assert keys.find("old") is not None
    path.unlink()
    assert keys.find("new") is None
    assert keys.find("old") is not None


@pytest.mark.parametrize("content", ["{", "[]", "1", '{"keys": 5}', '{"keys": [1]}', "[" * 5_000])
def test_keys_that_cannot_be_read_leave_the_known_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(KEYS))
    keys = JsonWebKeys(path.as_uri(), 0, 0)
    assert keys.find("r") is not None
    path.write_text(content)
    assert keys.find("r") is not None
    assert "cannot be read" in caplog.text


def test_logins_by_a_known_key_do_not_wait_while_keys_are_read(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [public(RSA, "old", "RS256"), public(EC, "both", "ES256")]}))
    keys = JsonWebKeys(path.as_uri(), 0, 0)
    assert keys.find("old") is not None
    path.unlink()
    os.mkfifo(path)
    with ThreadPoolExecutor(2) as threads:
        found = threads.submit(keys.find, "new")
        with os.fdopen(open_when_read(path), "w") as writer:
            assert threads.submit(keys.find, "old").result(10) is not None
            writer.write(json.dumps({"keys": [public(EC, "new", "ES256")]}))
        assert found.result(10) is not None


def open_when_read(path: Path) -> int:
    """The writing end of a pipe, once somebody reads it."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert time.monotonic() < deadline, "nobody reads the keys"
            time.sleep(0.001)


class TestAddresses:
    """Reads by HTTP, since the server of the test has no certificate."""

    @pytest.fixture
    def address(self) -> Iterator[str]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/moved":
                    self.send_response(302)
                    self.send_header("Location", "/keys")
                    self.end_headers()
                    return
                if self.path == "/no-http":
                    self.wfile.write(b"220 mail.example ESMTP\r\n")
                    return
                self.send_response(200)
                self.end_headers()
                size = json_web_keys.MOST_BYTES + 1 if self.path == "/large" else 0
                self.wfile.write(b" " * size if size else json.dumps(KEYS).encode())

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = Thread(target=server.serve_forever)
            thread.start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()
            thread.join()

    def test_keys_are_read(self, address: str) -> None:
        assert JsonWebKeys(f"{address}/keys", 3600, 10).find("e") is not None

    @pytest.mark.parametrize("path", ["/moved", "/large", "/no-http"])
    def test_keys_come_from_the_address_itself_and_have_a_bound(self, address: str, path: str) -> None:
        with pytest.raises(KeysError):
            JsonWebKeys(f"{address}{path}", 3600, 10).read()


def test_a_file_of_keys_has_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(b" " * (json_web_keys.MOST_BYTES + 1))
    with pytest.raises(KeysError, match="they have more than"):
        JsonWebKeys(path.as_uri(), 3600, 10).read()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["header", "keys"])
def test_an_answer_that_trickles_in_takes_no_longer_than_any(
    scheme: str, head: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes in time, and they would come for a minute."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    gone = Event()

    def trickle(listening: socket.socket) -> None:
        with listening.accept()[0] as plain, contextlib.suppress(OSError):
            client = context.wrap_socket(plain, server_side=True) if scheme == "https" else plain
            with client:
                client.sendall(head)
                for _ in range(1200):
                    client.sendall(b"X")
                    time.sleep(0.05)
        gone.set()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=trickle, args=(listening,))
        thread.start()
        began = time.monotonic()
        keys = JsonWebKeys(f"{scheme}://localhost:{listening.getsockname()[1]}/keys", 3600, 10, patience=0.5)
        with pytest.raises(KeysError, match="too long"):
            keys.read()
        assert time.monotonic() - began < 30
        assert gone.wait(30)
        thread.join()


async def owner_of(token: str) -> TokenOwner | None:
    return TokenOwner("alice", 5) if token == "good" else None


def step(message: bytes, *more: bytes) -> tuple[bytes, str | None]:
    """The last answer, and the name of the client."""

    async def run() -> tuple[bytes, str | None]:
        exchange = OAuthBearer(owner_of).begin()
        answer: bytes | None = None
        for each in (message, *more):
            answer = await exchange.step(each)
        assert answer is not None
        return answer, exchange.name

    return asyncio.run(run())


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer good\x01\x01",
        b"n,a=alice,\x01auth=bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x01traceId=123\x01\x01",
    ],
)
def test_the_first_message_has_the_token(message: bytes) -> None:
    assert step(message) == (b"", "alice")


def test_a_refused_token_is_answered_and_the_next_message_fails() -> None:
    answer, name = step(b"n,,\x01auth=Bearer bad\x01\x01")
    assert (json.loads(answer), name) == ({"status": "invalid_token"}, None)
    with pytest.raises(LoginError):
        step(b"n,,\x01auth=Bearer bad\x01\x01", b"\x01")
    with pytest.raises(LoginError):
        step(b"n,,\x01auth=Bearer bad\x01\x01", b"n,,\x01auth=Bearer good\x01\x01")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"n,a=root,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer " + b"a" * 70_000 + b"\x01\x01",
    ],
)
def test_malformed_first_messages_are_refused(message: bytes) -> None:
    with pytest.raises(LoginError):
        step(message)
