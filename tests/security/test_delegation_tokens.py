"""Delegation tokens: who may change and see them, and logins with them (KIP-48)."""

from __future__ import annotations

import base64
import hmac
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy import Broker
from kafkapy.broker.core import BrokerCore
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.loop.manual_clock import ManualClock
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.sasl.scram_credential import ScramMechanism
from tests.network.raw_client import DEADLINE, RawClient
from tests.security.certificates import Certificates, trusting
from tests.security.issuer import Issuer
from tests.security.listeners import Listeners, settings
from tests.security.scram_client import ScramClient
from tests.security.token_client import (
    DAY_MS,
    create,
    describe,
    expire,
    log_in,
    renew,
    with_password,
)

SASL = SecurityProtocol.SASL_PLAINTEXT
SECRET = "the key of the tokens"
NONE = ErrorCode.NONE


@pytest.fixture(scope="module")
def with_tokens(certificates: Certificates, issuer: Issuer) -> Iterator[Listeners]:
    config = {**settings(certificates, issuer), "delegation.token.secret.key": SECRET}
    with Broker(config=config, clock="manual") as broker:
        yield Listeners(broker)


@pytest.fixture
def alice(with_tokens: Listeners) -> Iterator[RawClient]:
    with with_password(with_tokens, "alice") as client:
        yield client


@pytest.fixture
def bob(with_tokens: Listeners) -> Iterator[RawClient]:
    with with_password(with_tokens, "bob") as client:
        yield client


@pytest.fixture
def clock(with_tokens: Listeners) -> ManualClock:
    """That of the broker: a turn shows a later time, and does nothing."""
    found = with_tokens.broker.core.clock
    assert isinstance(found, ManualClock)
    return found


def sweep(listeners: Listeners) -> None:
    async def swept(core: BrokerCore) -> None:
        assert core.admin.delegation_tokens is not None
        await core.admin.delegation_tokens.sweep()

    listeners.broker.call(swept)


# --- creation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_a_token_belongs_to_the_client_that_creates_it(
    alice: RawClient, clock: ManualClock, version: int
) -> None:
    before = clock.now_ms()
    token = create(alice, "bob", version=version)
    assert (token.error_code, token.principal_type, token.principal_name) == (NONE, "User", "alice")
    assert before <= token.issue_timestamp_ms <= clock.now_ms()
    assert token.expiry_timestamp_ms - token.issue_timestamp_ms == DAY_MS
    assert token.max_timestamp_ms - token.issue_timestamp_ms == 7 * DAY_MS
    assert token.hmac == hmac.digest(SECRET.encode(), token.token_id.encode(), "sha512")


def test_a_short_life_ends_before_the_first_renewal_is_due(alice: RawClient) -> None:
    token = create(alice, lifetime_ms=5_000)
    assert token.expiry_timestamp_ms == token.max_timestamp_ms == token.issue_timestamp_ms + 5_000


def test_no_token_lives_longer_than_the_longest_life(alice: RawClient) -> None:
    for lifetime_ms in (2**63 - 1, 0, -(2**63)):
        token = create(alice, lifetime_ms=lifetime_ms)
        assert token.max_timestamp_ms - token.issue_timestamp_ms == 7 * DAY_MS


def test_without_an_authorizer_everyone_may_create_for_others(alice: RawClient) -> None:
    token = create(alice, owner="carol")
    assert (token.principal_name, token.token_requester_principal_name) == ("carol", "alice")


def test_only_users_renew(alice: RawClient) -> None:
    refused = create(alice, "bob", kind="Group")
    assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert (refused.principal_name, refused.token_id, refused.hmac) == ("alice", "", b"")
    assert refused.expiry_timestamp_ms == -1


def test_the_owner_has_a_type(alice: RawClient) -> None:
    request = CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name="carol")
    assert alice.ask(request, 3).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    request = CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None)
    assert alice.ask(request, 3).principal_name == "alice"


def test_the_principals_of_a_token_have_a_bound(alice: RawClient) -> None:
    assert create(alice, "x" * 4_000).error_code == ErrorCode.POLICY_VIOLATION
    assert create(alice, *("" for _ in range(2_000))).error_code == ErrorCode.POLICY_VIOLATION


# --- who may ask ------------------------------------------------------------------------------------------


def answers(client: RawClient) -> list[tuple[int, int | None]]:
    created, renewed, expired = create(client), renew(client, b"x"), expire(client, b"x")
    return [
        (created.error_code, created.expiry_timestamp_ms),
        (renewed.error_code, renewed.expiry_timestamp_ms),
        (expired.error_code, expired.expiry_timestamp_ms),
        (describe(client).error_code, None),
    ]


def not_allowed() -> list[tuple[int, int | None]]:
    error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return [(error, -1), (error, -1), (error, -1), (error, None)]


def test_a_client_without_a_name_may_not_ask(with_tokens: Listeners, certificates: Certificates) -> None:
    with with_tokens.connect(SecurityProtocol.PLAINTEXT) as client:
        assert answers(client) == not_allowed()
    with with_tokens.connect(SecurityProtocol.SSL, trusting(certificates)) as client:
        assert answers(client) == not_allowed()


def test_a_client_that_came_by_token_may_not_ask(with_tokens: Listeners, alice: RawClient) -> None:
    token = create(alice)
    with with_tokens.connect(SASL) as client:
        log_in(client, token.token_id, token.hmac)
        assert answers(client) == not_allowed()


def test_without_a_secret_key_there_are_no_tokens(listeners: Listeners) -> None:
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    with with_password(listeners, "alice") as client:
        assert [error for error, _ in answers(client)] == [disabled] * 4
        assert create(client, "bob", kind="Group").error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_the_former_name_of_the_secret_key_counts(certificates: Certificates, issuer: Issuer) -> None:
    config = {**settings(certificates, issuer), "delegation.token.master.key": "old"}
    with Broker(config=config) as broker, with_password(Listeners(broker), "alice") as client:
        token = create(client)
        assert token.hmac == hmac.digest(b"old", token.token_id.encode(), "sha512")


# --- renewal and expiry -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_a_renewal_counts_from_now(alice: RawClient, clock: ManualClock, version: int) -> None:
    token = create(alice)
    clock.turn(DAY_MS // 2 / 1000)
    renewed = renew(alice, token.hmac, version=version)
    assert renewed.error_code == NONE
    assert renewed.expiry_timestamp_ms >= token.expiry_timestamp_ms + DAY_MS // 2
    (shown,) = [each for each in describe(alice).tokens if each.token_id == token.token_id]
    assert shown.expiry_timestamp == renewed.expiry_timestamp_ms


def test_a_renewal_is_no_longer_than_allowed(alice: RawClient) -> None:
    token = create(alice, lifetime_ms=2 * DAY_MS)
    for asked in (0, 2**63 - 1):
        left = renew(alice, token.hmac, asked).expiry_timestamp_ms - token.issue_timestamp_ms
        assert DAY_MS <= left < DAY_MS + 60_000
    assert renew(alice, token.hmac, 1_000).expiry_timestamp_ms < token.issue_timestamp_ms + 60_000


def test_no_renewal_goes_beyond_the_longest_life(alice: RawClient, clock: ManualClock) -> None:
    token = create(alice, lifetime_ms=DAY_MS + 10)
    clock.turn(DAY_MS // 2 / 1000)
    assert renew(alice, token.hmac).expiry_timestamp_ms == token.max_timestamp_ms


def test_owners_and_renewers_renew_and_expire(alice: RawClient, bob: RawClient) -> None:
    token = create(alice, "bob")
    assert renew(bob, token.hmac).error_code == NONE
    assert expire(bob, token.hmac).error_code == NONE
    token = create(alice)
    mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert [each(bob, token.hmac).error_code for each in (renew, expire)] == [mismatch] * 2


def test_the_requester_of_a_token_for_another_owner_may_only_see_it(alice: RawClient, bob: RawClient) -> None:
    token = create(alice, owner="bob")
    mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert [each(alice, token.hmac).error_code for each in (renew, expire)] == [mismatch] * 2
    assert renew(bob, token.hmac).error_code == NONE


def test_an_unknown_hmac_names_no_token(alice: RawClient) -> None:
    for token_hmac in (b"", b"x" * 64):
        for each in (renew, expire):
            assert each(alice, token_hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.parametrize("version", range(3))
def test_a_token_is_removed_at_once(alice: RawClient, version: int) -> None:
    token = create(alice)
    removed = expire(alice, token.hmac, version=version)
    assert removed.error_code == NONE
    assert token.issue_timestamp_ms <= removed.expiry_timestamp_ms < token.expiry_timestamp_ms
    assert renew(alice, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert token.token_id not in {each.token_id for each in describe(alice).tokens}


def test_a_token_expires_later_or_earlier_as_asked(alice: RawClient) -> None:
    token = create(alice)
    sooner = expire(alice, token.hmac, 60_000).expiry_timestamp_ms
    assert token.issue_timestamp_ms + 60_000 <= sooner < token.expiry_timestamp_ms
    assert expire(alice, token.hmac, 2**63 - 1).expiry_timestamp_ms == token.max_timestamp_ms


def test_an_expired_token_stays_expired_and_is_swept(
    with_tokens: Listeners, alice: RawClient, bob: RawClient, clock: ManualClock
) -> None:
    token, lasting = create(alice, lifetime_ms=1_000), create(alice)
    clock.turn(2)
    expired = ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert renew(alice, token.hmac).error_code == expired
    assert expire(alice, token.hmac, 1_000).error_code == expired
    assert renew(bob, token.hmac).error_code == expired
    assert expire(bob, token.hmac, 1_000).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert token.token_id in {each.token_id for each in describe(alice).tokens}
    sweep(with_tokens)
    shown = {each.token_id for each in describe(alice).tokens}
    assert token.token_id not in shown
    assert lasting.token_id in shown
    assert renew(alice, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_expired_tokens_are_removed_in_time(certificates: Certificates, issuer: Issuer) -> None:
    config = {
        **settings(certificates, issuer),
        "delegation.token.secret.key": SECRET,
        "delegation.token.expiry.time.ms": 1,
        "delegation.token.expiry.check.interval.ms": 20,
    }
    with Broker(config=config) as broker, with_password(Listeners(broker), "alice") as client:
        token = create(client)
        deadline = time.monotonic() + DEADLINE
        while renew(client, token.hmac).error_code != ErrorCode.DELEGATION_TOKEN_NOT_FOUND:
            assert time.monotonic() < deadline


# --- who sees them ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_a_description_shows_what_was_created(alice: RawClient, version: int) -> None:
    token = create(alice, "bob", "carol", owner="dave")
    (shown,) = [each for each in describe(alice, version=version).tokens if each.token_id == token.token_id]
    assert (shown.principal_type, shown.principal_name, shown.hmac) == ("User", "dave", token.hmac)
    assert shown.issue_timestamp == token.issue_timestamp_ms
    assert shown.max_timestamp == token.max_timestamp_ms
    assert [each.principal_name for each in shown.renewers] == ["bob", "carol"]
    assert shown.token_requester_principal_name == ("alice" if version >= 3 else "")


def test_a_description_of_owners_shows_only_what_concerns_them(alice: RawClient) -> None:
    owned, renewed = create(alice, owner="erin"), create(alice, "erin")
    other = create(alice, owner="frank")
    shown = {each.token_id for each in describe(alice, "erin").tokens}
    assert shown == {owned.token_id, renewed.token_id}
    assert other.token_id in {each.token_id for each in describe(alice, "frank", "nobody").tokens}
    assert describe(alice, everything=False).tokens == []


# --- logins -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_client_comes_in_as_the_owner_until_the_token_expires(
    with_tokens: Listeners, alice: RawClient, mechanism: ScramMechanism
) -> None:
    token = create(alice, owner="grace")
    with with_tokens.connect(SASL) as client:
        answer = log_in(client, token.token_id, token.hmac, mechanism)
        assert answer.error_code == NONE
        assert 0 < answer.session_lifetime_ms <= DAY_MS
        assert with_tokens.connection_of(client.socket).principal == "User:grace"
        assert client.ask(MetadataRequest(topics=[]), 12).brokers


def test_the_session_ends_with_the_token(
    with_tokens: Listeners, alice: RawClient, clock: ManualClock
) -> None:
    token = create(alice, lifetime_ms=60_000)
    with with_tokens.connect(SASL) as client:
        log_in(client, token.token_id, token.hmac)
        clock.turn(61)
        client.send(b"\0\0\0\x10" + b"\0\x03\0\0\0\0\0\x07\0\0" + b"\0" * 6)
        assert client.is_closed()


def test_a_client_stays_with_a_renewed_token(
    with_tokens: Listeners, alice: RawClient, clock: ManualClock
) -> None:
    token = create(alice)
    with with_tokens.connect(SASL) as client:
        first = log_in(client, token.token_id, token.hmac)
        clock.turn(DAY_MS // 2 / 1000)
        renew(alice, token.hmac)
        clock.turn(DAY_MS // 2 / 1000 + 1)
        again = log_in(client, token.token_id, token.hmac)
        assert (again.error_code, first.error_code) == (NONE, NONE)
        assert again.session_lifetime_ms > 0
        assert client.ask(MetadataRequest(topics=[]), 12).brokers


@pytest.mark.parametrize("why", ["expired", "removed", "swept", "wrong"])
def test_no_login_with_a_token_that_does_not_count(
    with_tokens: Listeners, alice: RawClient, clock: ManualClock, why: str
) -> None:
    token = create(alice, lifetime_ms=60_000)
    if why == "removed":
        expire(alice, token.hmac)
    elif why != "wrong":
        clock.turn(61)
        if why == "swept":
            sweep(with_tokens)
    with with_tokens.connect(SASL) as client:
        answer = log_in(client, token.token_id, b"another" if why == "wrong" else token.hmac)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed()


def test_a_token_that_is_removed_during_the_login_does_not_count(
    with_tokens: Listeners, alice: RawClient
) -> None:
    token = create(alice)
    with with_tokens.connect(SASL) as client:
        answer = log_in(client, token.token_id, token.hmac, meanwhile=lambda: expire(alice, token.hmac))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_token_is_no_user(with_tokens: Listeners, alice: RawClient) -> None:
    token = create(alice)
    with with_tokens.connect(SASL) as client:
        client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        login = ScramClient(ScramMechanism.SCRAM_SHA_256, token.token_id, "x")
        first = client.ask(SaslAuthenticateRequest(auth_bytes=login.first()), 2)
        last = client.ask(SaslAuthenticateRequest(auth_bytes=login.final(first.auth_bytes)), 2)
        assert last.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_few_credentials_are_kept(with_tokens: Listeners, alice: RawClient) -> None:
    admin = with_tokens.broker.core.admin.delegation_tokens
    assert admin is not None
    cache = admin.cache

    async def kept(_: BrokerCore) -> int:
        return len(cache._credentials)

    most = cache.most_credentials = with_tokens.broker.call(kept) + 2
    tokens = [create(alice) for _ in range(4)]
    for token in (*tokens, *tokens):
        with with_tokens.connect(SASL) as client:
            assert log_in(client, token.token_id, token.hmac).error_code == NONE
    assert with_tokens.broker.call(kept) == most


# --- what stays -------------------------------------------------------------------------------------------


def test_tokens_outlive_the_broker(certificates: Certificates, issuer: Issuer, tmp_path: Path) -> None:
    config = {**settings(certificates, issuer), "delegation.token.secret.key": SECRET}
    with (
        Broker(data_dir=tmp_path, config=config) as broker,
        with_password(Listeners(broker), "alice") as client,
    ):
        token = create(client, "bob", owner="x,=/~*: é")
        assert token.error_code == NONE
        shown = describe(client).tokens
    with Broker(data_dir=tmp_path, config=config) as broker:
        listeners = Listeners(broker)
        with with_password(listeners, "bob") as client:
            again = describe(client).tokens
            assert [each.token_id for each in again] == [each.token_id for each in shown]
            assert again[0].principal_name == "x,=/~*: é"
            assert renew(client, token.hmac).error_code == NONE
        with listeners.connect(SASL) as client:
            assert log_in(client, token.token_id, token.hmac).error_code == NONE


def test_no_log_line_has_the_secrets_of_tokens(
    with_tokens: Listeners, alice: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = create(alice, lifetime_ms=60_000)
    renew(alice, token.hmac)
    with with_tokens.connect(SASL) as client:
        log_in(client, token.token_id, token.hmac)
    expire(alice, token.hmac)
    assert token.token_id in caplog.text
    for secret in (SECRET, token.hmac.hex(), base64.b64encode(token.hmac).decode(), repr(token.hmac)):
        assert secret not in caplog.text


def test_an_advanced_clock_removes_what_has_expired(certificates: Certificates, issuer: Issuer) -> None:
    config = {**settings(certificates, issuer), "delegation.token.secret.key": SECRET}
    with Broker(config=config, clock="manual") as broker, with_password(Listeners(broker), "alice") as alice:
        token = create(alice, "bob")
        broker.clock.advance(hours=23)
        assert token.token_id in broker.core.metadata.image.delegation_tokens
        broker.clock.advance(hours=3)
        assert token.token_id not in broker.core.metadata.image.delegation_tokens
