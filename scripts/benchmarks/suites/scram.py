"""The CPU time of the broker's end of a login by SCRAM, beside that of the library scramp.

scripts/bench scram [--rounds 200] [--logins 100]        needs `pip install scramp`

Both answer the two messages of a client that knows its password, in turn; the client's own work, most of
which is hashing the password, does not count. Both are given the credential: a broker keeps those of the last
users. The figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from kafkapy.logins import ScramCredential
from kafkapy.loop.turns import Steps
from kafkapy.metadata.cache import MetadataCache
from kafkapy.security.sasl.scram import Scram
from kafkapy.security.sasl.scram_credential import ScramMechanism, credential_of
from kafkapy.security.sasl.unknown_users import UnknownUsers
from scripts.benchmarks.comparison import parser_of
from scripts.benchmarks.table import aligned, machine
from tests.security.scram_client import ScramClient, salted

_PASSWORD: Final = "a password"
_SALT: Final = bytes(range(24))
_ITERATIONS: Final = 4096

Server = Callable[[], tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]]
"""Begins a login: what answers its first message, and what answers the last."""


def main(options: Sequence[str]) -> int:
    arguments = _arguments(options)
    rows = []
    for mechanism in ScramMechanism:
        key = salted(mechanism, _PASSWORD, _SALT, _ITERATIONS)
        servers = {"kafkapy": _kafkapy(mechanism, key), "scramp": _scramp(mechanism, key)}
        found: dict[str, list[float]] = {name: [] for name in servers}
        for _ in range(arguments.rounds):
            for name, server in servers.items():
                found[name].append(_round(mechanism, server, key, arguments.logins))
        rows.append([mechanism.text, *(f"{statistics.median(times) * 1e6:.1f}" for times in found.values())])
    print(f"CPU µs of a login, on {machine()}:\n")
    print(aligned(["", "kafkapy", "scramp"], rows))
    return 0


def _round(mechanism: ScramMechanism, server: Server, key: bytes, logins: int) -> float:
    """The CPU seconds of a login, a mean of some."""
    spent = 0.0
    for _ in range(logins):
        client = ScramClient(mechanism, "alice", _PASSWORD)
        client.salted = lambda *_: key
        first = client.first()
        start = time.thread_time()
        answer_first, answer_last = server()
        told = answer_first(first)
        spent += time.thread_time() - start
        last = client.final(told)
        start = time.thread_time()
        verifier = answer_last(last)
        spent += time.thread_time() - start
        assert verifier == client.expected
    return spent / logins


def _kafkapy(mechanism: ScramMechanism, key: bytes) -> Server:
    credential = credential_of(mechanism, _SALT, key, _ITERATIONS)

    async def at_once(steps: Steps[None]) -> None:
        for _ in steps:
            pass

    async def find(*_: object) -> ScramCredential:
        return credential

    scram = Scram(mechanism, find, UnknownUsers(MetadataCache(), at_once))

    def begin() -> tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]:
        exchange = scram.begin()

        def answer(message: bytes) -> bytes:
            return _result(exchange.step(message))

        return answer, answer

    return begin


def _result(coroutine: Coroutine[Any, Any, bytes | None]) -> bytes:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: bytes = end.value
        return result
    raise AssertionError


def _scramp(mechanism: ScramMechanism, key: bytes) -> Server:
    import scramp

    credential = credential_of(mechanism, _SALT, key, _ITERATIONS)
    known = credential.salt, credential.stored_key, credential.server_key, credential.iterations
    made = scramp.ScramMechanism(mechanism.text)

    def begin() -> tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]:
        server = made.make_server(lambda _: known)

        def first(message: bytes) -> bytes:
            server.set_client_first(message.decode())
            answer: str = server.get_server_first()
            return answer.encode()

        def last(message: bytes) -> bytes:
            server.set_client_final(message.decode())
            answer: str = server.get_server_final()
            return answer.encode()

        return first, last

    return begin


def _arguments(options: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--logins", type=int, default=100, help="in a round")
    return parser.parse_args(options)
