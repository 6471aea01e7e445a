"""Brokers log in at ZooKeeper by Kerberos, with MIT Kerberos's key distribution centre."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.support.kerberos_centre import REALM, KerberosCentre, skip_without_kerberos
from interop.support.secured_zookeeper import access_of, jaas_flag
from interop.support.zookeeper_process import ZooKeeperProcess
from kafkapy.configs.config import BrokerConfig
from kafkapy.metadata.store import Create, MetadataStoreError
from kafkapy.metadata.zookeeper import ZooKeeperStore
from kafkapy.metadata.zookeeper_access import ZooKeeperAccess
from kafkapy.metadata.zookeeper_client import ZooKeeperClient
from kafkapy.security.zookeeper import LOGIN, zookeeper_access

_MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
_PRINCIPAL = f"kafka/broker@{REALM}"
_ALL, _READ = 31, 1


def line_of(keytab: Path, principal: str) -> str:
    return f'{_MODULE} keyTab="{keytab}" principal="{principal}";'


@pytest.fixture(scope="module")
def centre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosCentre]:
    """The centre, to which this process and those that it starts belong."""
    skip_without_kerberos()
    with KerberosCentre(tmp_path_factory.mktemp("centre")) as started, pytest.MonkeyPatch.context() as patch:
        for name, value in started.environment.items():
            patch.setenv(name, value)
        yield started


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, centre: KerberosCentre) -> Iterator[ZooKeeperProcess]:
    """It demands a login, and has a key of its own."""
    folder = tmp_path_factory.mktemp("secured")
    keytab = centre.add("zookeeper/localhost")
    process = ZooKeeperProcess(
        folder,
        more=(
            "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
            "enforce.auth.enabled=true\nenforce.auth.schemes=sasl\n"
        ),
        jvm_flags=(
            jaas_flag(folder, "Server", line_of(keytab, f"zookeeper/localhost@{REALM}")),
            f"-Djava.security.krb5.conf={centre.config}",
        ),
    )
    with process:
        yield process


@pytest.fixture(scope="module")
def keytab(centre: KerberosCentre) -> Path:
    return centre.add("kafka/broker")


def access(keytab: Path, principal: str = _PRINCIPAL) -> ZooKeeperAccess:
    settings = {
        "zookeeper.connect": "localhost",
        LOGIN: line_of(keytab, principal),
        "zookeeper.set.acl": "true",
    }
    return zookeeper_access(BrokerConfig(settings))


async def opened(secured: ZooKeeperProcess, how: ZooKeeperAccess, chroot: str = "/kafka") -> ZooKeeperStore:
    # A ticket is for a name, not for an address.
    address = f"localhost:{secured.address[1]}{chroot}"
    return await ZooKeeperStore.open(address, session_timeout=4, connection_timeout=20, access=how)


async def test_nodes_belong_to_the_principal(secured: ZooKeeperProcess, keytab: Path) -> None:
    how = access(keytab)
    store = await opened(secured, how)
    try:
        await store.multi([Create("/config", b""), Create("/config/users", b"")])
        assert (await store.get("/config/users")).data == b""
    finally:
        await store.close()
    client = ZooKeeperClient(f"localhost:{secured.address[1]}", 10, how, print)
    client.start(20)
    try:
        owner = ("sasl", _PRINCIPAL, _ALL)
        assert access_of(client, "/kafka") == {
            "/kafka/config": {owner, ("world", "anyone", _READ)},
            "/kafka/config/users": {owner},
        }
    finally:
        client.stop()
        client.close()


async def test_a_session_outlives_its_connection_with_another_ticket(
    secured: ZooKeeperProcess, keytab: Path
) -> None:
    store = await opened(secured, access(keytab), "/again")
    try:
        await store.multi([Create("/config", b"")])
        session = store.session_id
        for _ in range(2):
            store._disconnect()
            assert (await store.get("/config")).data == b""
            assert store.session_id == session
    finally:
        await store.close()


async def test_a_principal_that_the_centre_has_forgotten_is_told(
    secured: ZooKeeperProcess, centre: KerberosCentre
) -> None:
    keytab = centre.add("kafka/gone")
    how = access(keytab, f"kafka/gone@{REALM}")
    centre.remove("kafka/gone")
    with pytest.raises(MetadataStoreError, match="does not let this broker in as kafka/gone@"):
        await opened(secured, how)
