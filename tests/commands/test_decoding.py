"""Keys and values are decoded by schemas, within bounds, whatever others wrote."""

from __future__ import annotations

import base64
import io
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy import Broker
from kafkapy.commands.decoding import avro
from kafkapy.commands.decoding.decoder import Decoder
from kafkapy.commands.decoding.schemas import Schemas
from kafkapy.errors import UserError
from kafkapy.registry.formats import parsed
from tests.commands.conftest import Run
from tests.loop.turned_clock import TurnedClock

EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "namespace": "of.all",
    "fields": [
        {"name": "n", "type": "null"},
        {"name": "b", "type": "boolean"},
        {"name": "i", "type": "int"},
        {"name": "l", "type": "long"},
        {"name": "d", "type": "double"},
        {"name": "s", "type": "string"},
        {"name": "e", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}},
        {"name": "a", "type": {"type": "array", "items": ["null", "long", "Colour"]}},
        {"name": "m", "type": {"type": "map", "values": "of.all.Colour"}},
        {"name": "o", "type": ["null", "Everything"]},
    ],
}
LEAVES = st.fixed_dictionaries(
    {
        "n": st.none(),
        "b": st.booleans(),
        "i": st.integers(-(2**31), 2**31 - 1),
        "l": st.integers(-(2**63), 2**63 - 1),
        "d": st.floats(allow_nan=False),
        "s": st.text(),
        "e": st.sampled_from(["RED", "BLUE"]),
        "a": st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))),
        "m": st.dictionaries(st.text(), st.sampled_from(["RED", "BLUE"])),
        "o": st.none(),
    }
)
VALUES = st.builds(lambda outer, inner: {**outer, "o": inner}, LEAVES, st.one_of(st.none(), LEAVES))


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}
WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 2_000_000_000, "scale": 1_000_000_000}
TIME = {"type": "long", "logicalType": "timestamp-micros"}
CHAIN = {"type": "record", "name": "Chain", "fields": [{"name": "next", "type": ["null", "Chain"]}]}


def decoding(schema: Any) -> Callable[[bytes], Any]:
    """What decodes by a schema, from its text as a registry has it."""
    return avro.decoding(parsed("AVRO", json.dumps(schema), ()).tree)


@given(VALUES)
def test_avro_is_read_as_fastavro_reads_it(value: dict[str, Any]) -> None:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, EVERYTHING, value)
    read = decoding(EVERYTHING)(written.getvalue())
    assert read == fastavro.schemaless_reader(io.BytesIO(written.getvalue()), EVERYTHING, None)


@pytest.mark.parametrize(
    ("schema", "data", "problem"),
    [
        ({"type": "array", "items": "null"}, b"\x80\xb5\x18\0", "more than 100,000 parts"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\x3f", "more than"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, b"", "nested too deeply"),
        (CHAIN, b"\x02" * 1_000_000 + b"\0", "nested too deeply"),
        ("string", b"\xfe\xff\xff\xff\x0f", "remain"),
        ("long", b"\xff" * 11, "too long"),
        (["null"], b"\x04", "a union has no branch 2"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x04", "enum index 2"),
        ("int", b"\x02\x02", "1 bytes are left"),
        (DECIMAL, b"\xd0\x0f" + b"\x7f" * 999, "Read 999 bytes, expected 1000 bytes"),
        (DECIMAL, b"\x80\x80\x04" + b"\x7f" * 32768, "too many digits"),
        (WIDE, b"\x02\x01", "too many digits"),
        (TIME, b"\xfe" + b"\xff" * 8 + b"\x01", "out of range"),
    ],
)
def test_avro_that_cannot_be_read_is_refused(schema: Any, data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as raised:
        decoding(schema)(data)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("number", ["0", "-0.01", "123456789012345678901234567890.12", "0.00", "-1.50"])
def test_decimals_are_texts_that_are_not_rounded(number: str) -> None:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, DECIMAL, Decimal(number))
    assert Decimal(decoding(DECIMAL)(written.getvalue())) == Decimal(number)
    assert "E" not in decoding(DECIMAL)(written.getvalue())


def test_a_chain_within_the_bound_is_read() -> None:
    value = decoding(CHAIN)(b"\x02" * 60 + b"\0")
    assert json.dumps(value).count("next") == 61


@given(st.binary(max_size=200))
def test_any_bytes_are_read_as_avro_or_refused(data: bytes) -> None:
    try:
        decoding(EVERYTHING)(data)
    except ValueError:
        return


class Answers:
    """A registry that answers what a test says, and counts who asks."""

    def __init__(self) -> None:
        self.paths: dict[str, Any] = {}
        self.asked: list[str] = []
        self.logins: list[str | None] = []
        self.release = threading.Event()
        self.release.set()


@pytest.fixture
def answers() -> Iterator[tuple[Answers, str]]:
    """A registry, and its address."""
    found = Answers()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            found.logins.append(self.headers["Authorization"])
            found.release.wait(30)
            content = found.paths.get(self.path)
            with suppress(ConnectionError):
                self.send_response(404 if content is None else 200)
                self.end_headers()
                self.wfile.write(json.dumps(content).encode())

        def log_message(self, *arguments: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found, f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def framed(number: int, data: bytes = b"\x02") -> bytes:
    """A value with the id of a schema."""
    return b"\0" + number.to_bytes(4, "big") + data


def test_a_schema_that_cannot_be_had_is_asked_for_again_after_a_while(answers: tuple[Answers, str]) -> None:
    registry, address = answers
    clock = TurnedClock()
    decoder = Decoder(Schemas(f"http://{address}", clock=clock.monotonic))
    for _ in range(3):
        assert decoder.value(framed(7))["undecoded"] == "schema 7: the registry says: Not Found"
    assert registry.asked == ["/schemas/ids/7"]
    registry.paths["/schemas/ids/7"] = {"schema": '"int"'}
    clock.turn(9)
    assert decoder.value(framed(7))["undecoded"]
    clock.turn(1)
    assert decoder.value(framed(7)) == 1
    assert decoder.value(framed(7)) == 1
    assert len(registry.asked) == 2


def test_a_registry_that_does_not_answer_is_waited_for_once(answers: tuple[Answers, str]) -> None:
    registry, address = answers
    clock = TurnedClock()
    registry.paths |= {f"/schemas/ids/{number}": {"schema": '"int"'} for number in range(10)}
    decoder = Decoder(Schemas(f"http://{address}", clock=clock.monotonic, patience=0.2))
    assert decoder.value(framed(0)) == 1
    registry.release.clear()
    for number in range(1, 10):
        found = decoder.value(framed(number))
        assert found["undecoded"] == f"schema {number}: the registry cannot be reached: timed out"
    registry.release.set()
    assert registry.asked == ["/schemas/ids/0", "/schemas/ids/1"]
    assert decoder.value(framed(0)) == 1
    clock.turn(10)
    assert decoder.value(framed(9)) == 1


def test_threads_ask_once_and_do_not_wait_for_what_is_known(answers: tuple[Answers, str]) -> None:
    registry, address = answers
    registry.paths |= {f"/schemas/ids/{number}": {"schema": '"int"'} for number in (1, 2)}
    decoder = Decoder(Schemas(f"http://{address}"))
    assert decoder.value(framed(1)) == 1
    registry.release.clear()
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(decoder.value, framed(2)) for _ in range(7)]
        assert pool.submit(decoder.value, framed(1)).result(10) == 1
        assert not any(each.done() for each in waiting)
        registry.release.set()
        assert [each.result(10) for each in waiting] == [1] * 7
    assert registry.asked == ["/schemas/ids/1", "/schemas/ids/2"]


def test_no_more_schemas_are_kept_than_the_bound(answers: tuple[Answers, str]) -> None:
    registry, address = answers
    registry.paths |= {f"/schemas/ids/{number}": {"schema": '"int"'} for number in range(3)}
    decoder = Decoder(Schemas(f"http://{address}", most=2))
    for number in (0, 1, 0, 2, 0, 1):
        assert decoder.value(framed(number)) == 1
    assert [path[-1] for path in registry.asked] == ["0", "1", "2", "1"]  # 1 was not used for longest


def test_references_end_whatever_the_registry_says(answers: tuple[Answers, str]) -> None:
    registry, address = answers

    def refers(*numbers: int) -> dict[str, Any]:
        references = [{"name": f"R{each}", "subject": f"s/{each}", "version": 1} for each in numbers]
        return {"schema": '"int"', "references": references}

    registry.paths["/schemas/ids/1"] = refers(0)
    for number in range(100):
        registry.paths[f"/subjects/s%2F{number}/versions/1"] = refers(number + 1)
    decoder = Decoder(Schemas(f"http://{address}"))
    assert decoder.value(framed(1))["undecoded"] == "schema 1: it refers to more than 50 others"
    assert len(registry.asked) == 51
    registry.paths["/schemas/ids/2"] = refers(200)
    registry.paths["/subjects/s%2F200/versions/1"] = refers(201)
    registry.paths["/subjects/s%2F201/versions/1"] = refers(200)
    assert decoder.value(framed(2)) == 1
    assert len(registry.asked) == 54


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([], "the registry's answer has no schema"),
        ({}, "the registry's answer has no schema"),
        ({"schema": '"int"', "references": [7]}, "the registry's answer has no schema"),
        ({"schema": "x" * 5_000_000}, "the registry's answer is too long"),
        ({"schema": "[" * 100_000}, "nested too deeply"),
        ({"schema": "<a/>", "schemaType": "XML"}, "its kind, XML, is none of AVRO, JSON and PROTOBUF"),
        ({"schema": '{"type": "record", "name": "R", "fields": 7}'}, "schema 7: "),
        ({"schema": "message", "schemaType": "PROTOBUF"}, "schema 7: "),
    ],
)
def test_an_answer_that_is_none_is_said(answers: tuple[Answers, str], answer: Any, problem: str) -> None:
    registry, address = answers
    registry.paths["/schemas/ids/7"] = answer
    found = Decoder(Schemas(f"http://{address}")).value(framed(7))
    assert problem in found["undecoded"]
    assert found["base64"] == base64.b64encode(framed(7)).decode()


def test_a_server_that_speaks_no_http_is_said() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"+OK\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        found = Decoder(Schemas(f"http://127.0.0.1:{server.getsockname()[1]}")).value(framed(7))
        thread.join()
    assert "no HTTP server" in found["undecoded"]


@pytest.mark.parametrize(
    ("login", "sent"),
    [("me:secret", "me:secret"), ("a%40b:p%2Fw%3A%25", "a@b:p/w:%"), ("me", "me:"), ("me:a:b", "me:a:b")],
)
def test_user_and_password_of_the_address_are_sent(
    answers: tuple[Answers, str], login: str, sent: str
) -> None:
    registry, address = answers
    Decoder(Schemas(f"http://{login}@{address}")).value(framed(7))
    assert registry.logins == ["Basic " + base64.b64encode(sent.encode()).decode()]


@pytest.mark.parametrize("option", ["http://me:${SECRET}@", "http://${LOGIN}@", "http://me:${file:FILE}@"])
def test_a_reference_is_a_password_as_it_is(
    kafkapy: Run,
    broker: Broker,
    answers: tuple[Answers, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    option: str,
) -> None:
    registry, address = answers
    broker.produce("framed", value=framed(7))
    monkeypatch.setenv("SECRET", "p%40/w@:#")
    monkeypatch.setenv("LOGIN", "me:p%40/w@:#")
    (tmp_path / "secret").write_text("p%40/w@:#\n")
    address = option.replace("FILE", str(tmp_path / "secret")) + address
    kafkapy("consume", "framed", "--exit", "-b", "-n", "1", "--schema-registry", address)
    assert registry.logins == ["Basic " + base64.b64encode(b"me:p%40/w@:#").decode()]


@pytest.mark.parametrize("address", ["localhost:8081", "http://", "ftp://host", "http://h:x", "http://[::1"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(UserError, match=r"expected http://HOST:PORT"):
        Schemas(address)
    with pytest.raises(UserError) as raised:
        Schemas(address.replace("//", "//me:secret@"))
    assert "secret" not in str(raised.value) or "//" not in address
