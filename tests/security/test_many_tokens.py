"""As many delegation tokens as there may be: no request about them holds the event loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.broker.core import BrokerCore
from kafkapy.controller.delegation_tokens import MAX_TOKENS
from kafkapy.metadata import znodes
from kafkapy.metadata.delegation_tokens import DelegationToken, encode_token, token_path
from kafkapy.metadata.store import Create
from kafkapy.protocol.errors import ErrorCode
from tests.network.loop_watch import LoopWatch
from tests.network.raw_client import RawClient
from tests.security.test_rights import ALICE, become
from tests.security.token_client import create, describe, expire, renew

SETTINGS = {"delegation.token.secret.key": "secret", "durability": "os"}
LAST_MS = 2**62
EXPIRED = 600
NODES_AT_ONCE = 500


async def fill(core: BrokerCore) -> None:
    """Make all tokens but one, of which some have expired."""
    tokens = [
        DelegationToken(
            f"{number:022}", ALICE, ALICE, ("User:bob",), 0, LAST_MS, 1 if number < EXPIRED else LAST_MS
        )
        for number in range(MAX_TOKENS - 1)
    ]
    await core.store.multi([Create(path) for path in znodes.DELEGATION_TOKEN_PARENTS])
    for start in range(0, len(tokens), NODES_AT_ONCE):
        part = tokens[start : start + NODES_AT_ONCE]
        await core.store.multi([Create(token_path(token.id), encode_token(token)) for token in part])
    image = core.metadata.image.with_delegation_tokens({token.id: token for token in tokens})
    core.metadata.publish(image)


async def sweep(core: BrokerCore) -> None:
    assert core.admin.delegation_tokens is not None
    await core.admin.delegation_tokens.sweep()


def test_no_request_about_many_tokens_holds_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = LoopWatch(monkeypatch)
    with watch.broker(tmp_path, SETTINGS) as broker, RawClient(broker.bootstrap_servers) as client:
        become(broker, client, ALICE)
        broker.call(fill)
        watch.check_each(
            lambda: describe(client, *(f"user-{number}" for number in range(10_000))), "describe: "
        )
        watch.check_each(lambda: describe(client), "describe all: ")
        token = create(client)
        assert token.error_code == ErrorCode.NONE
        assert create(client).error_code == ErrorCode.POLICY_VIOLATION
        watch.check_each(lambda: renew(client, token.hmac), "renew: ")

        def replace() -> None:
            nonlocal token
            assert expire(client, token.hmac).error_code == ErrorCode.NONE
            token = create(client)
            assert token.error_code == ErrorCode.NONE

        watch.check_each(replace, "expire and create: ")
        with watch.watching():
            broker.call(sweep)
        watch.check("sweep: ")
        assert len(describe(client).tokens) == MAX_TOKENS - EXPIRED
