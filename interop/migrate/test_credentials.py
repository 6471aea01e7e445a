"""SCRAM credentials go to Apache Kafka and come back, with those that were made there."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from interop.migrate.migration import AT_REST, kafka_as_told, kafkapy, run_kafkapy

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def make_user(servers: str, name: str, mechanism: ScramMechanism, iterations: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    change = UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, iterations), b"secret")
    admin.alter_user_scram_credentials([change])[name].result(30)


def users(servers: str) -> dict[str, set[tuple[ScramMechanism, int]]]:
    """The mechanisms and iterations of all users."""
    admin = AdminClient({"bootstrap.servers": servers})
    described = admin.describe_user_scram_credentials().result(30)
    return {
        name: {(each.mechanism, each.iterations) for each in description.scram_credential_infos}
        for name, description in described.items()
    }


def test_users_go_to_4_3_and_back_with_another_one(tmp_path: Path) -> None:
    with kafkapy(tmp_path / "here", AT_REST) as server:
        make_user(server.bootstrap_servers, "alice", SHA_256, 4096)
        make_user(server.bootstrap_servers, "alice", SHA_512, 8192)
        here = users(server.bootstrap_servers)
    assert here == {"alice": {(SHA_256, 4096), (SHA_512, 8192)}}
    there = tmp_path / "there"
    told = run_kafkapy("export", tmp_path / "here" / "data", there / "data", "--to", "kraft")
    with kafka_as_told("4.3.1", told)(there, AT_REST) as server:
        assert users(server.bootstrap_servers) == here
        make_user(server.bootstrap_servers, "bob", SHA_512, 4096)
    run_kafkapy("import", there / "data", tmp_path / "back" / "data")
    with kafkapy(tmp_path / "back", AT_REST) as server:
        assert users(server.bootstrap_servers) == here | {"bob": {(SHA_512, 4096)}}
