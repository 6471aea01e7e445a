"""No secret comes into the log, whatever its level."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafkapy import Broker
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.sasl.scram_credential import ScramMechanism as Mechanism
from tests.security.certificates import Certificates
from tests.security.issuer import Issuer
from tests.security.listeners import PLAIN_USERS, Listeners, settings
from tests.security.scram_client import ScramClient

SASL = SecurityProtocol.SASL_PLAINTEXT
PLANTED = "pl4nted"
"""It is in each secret that clients send."""
PASSWORD = f"{PLANTED}-of-carol"


def sent(listeners: Listeners, mechanism: str, *tokens: bytes) -> None:
    """Log in by these tokens, whatever the answers."""
    with listeners.connect(SASL) as client:
        client.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
        for token in tokens:
            client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)


def scram(listeners: Listeners, password: str) -> None:
    client = ScramClient(Mechanism.SCRAM_SHA_256, "carol", password)
    with listeners.connect(SASL) as connection:
        connection.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        first = connection.ask(SaslAuthenticateRequest(auth_bytes=client.first()), 2)
        connection.ask(SaslAuthenticateRequest(auth_bytes=client.final(first.auth_bytes)), 2)


def test_no_secret_is_logged(
    tmp_path: Path, certificates: Certificates, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="kafkapy.request")
    right, wrong = issuer.token("alice"), issuer.token("alice", audience="somebody")
    with Broker(data_dir=tmp_path, config=settings(certificates, issuer)) as broker:
        listeners = Listeners(broker)
        plain = listeners.address(SecurityProtocol.PLAINTEXT)
        admin = AdminClient({"bootstrap.servers": plain})
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion("carol", credential, PASSWORD.encode())
        admin.alter_user_scram_credentials([change])["carol"].result(60)
        sent(listeners, "PLAIN", b"\0alice\0" + PLAIN_USERS["alice"].encode())
        sent(listeners, "PLAIN", f"\0alice\0{PLANTED}".encode())
        sent(listeners, "PLAIN", f"\0{PLANTED}".encode())
        scram(listeners, PASSWORD)
        scram(listeners, f"{PLANTED}-wrong")
        for token in (right, wrong, PLANTED):
            sent(listeners, "OAUTHBEARER", f"n,,\1auth=Bearer {token}\1\1".encode())
        for name, value in (
            ("listener.name.ssl.ssl.key.password", PLANTED),
            (
                "listener.name.sasl_plaintext.plain.sasl.jaas.config",
                f'org.apache.kafka.common.security.plain.PlainLoginModule required user_dave="{PLANTED}";',
            ),
            ("listener.name.ssl.ssl.keystore.key", f"-----BEGIN PRIVATE KEY-----{PLANTED}"),
        ):
            entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
            for future in admin.incremental_alter_configs([resource]).values():
                assert PLANTED not in str(future.exception(60))
    assert sum(record.name == "kafkapy.security.sasl.login" for record in caplog.records) >= 6
    for api in ("SASL_AUTHENTICATE", "ALTER_USER_SCRAM_CREDENTIALS", "INCREMENTAL_ALTER_CONFIGS"):
        assert f'"{api}"' in caplog.text
    lines = [f"{record.getMessage()} {vars(record)}" for record in caplog.records]
    for secret in (PLANTED, *PLAIN_USERS.values(), right.rpartition(".")[2], wrong.rpartition(".")[2]):
        assert not [line for line in lines if secret in line], secret
    # A salted password, in any of its spellings, comes from the request alone.
    assert not [line for line in lines if "salted_password" in line]
