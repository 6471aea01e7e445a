"""Brokers log in at ZooKeeper by Kerberos, with MIT Kerberos's key distribution centre."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.support.kerberos_centre import REALM, KerberosCentre, key_line, own_centre
from interop.support.secured_zookeeper import DEMANDS_LOGIN, access_of, jaas_flag
from interop.support.zookeeper_process import ZooKeeperProcess
from kafkapy.configs.config import BrokerConfig
from kafkapy.metadata.store import Create, MetadataStoreError
from kafkapy.metadata.zookeeper import ZooKeeperStore
from kafkapy.metadata.zookeeper_access import ZooKeeperAccess
from kafkapy.metadata.zookeeper_client import ZooKeeperClient
from kafkapy.security.zookeeper import LOGIN, zookeeper_access

_PRINCIPAL = "kafka/broker"
_ALL, _READ = 31, 1


@pytest.fixture(scope="module")
def centre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosCentre]:
    with own_centre(tmp_path_factory.mktemp("centre")) as started:
        yield started


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, centre: KerberosCentre) -> Iterator[ZooKeeperProcess]:
    """It demands a login, and has a key of its own."""
    folder = tmp_path_factory.mktemp("secured")
    keytab = centre.add("zookeeper/localhost")
    process = ZooKeeperProcess(
        folder,
        more=DEMANDS_LOGIN,
        jvm_flags=(
            jaas_flag(folder, "Server", key_line(keytab, "zookeeper/localhost")),
            f"-Djava.security.krb5.conf={centre.config}",
        ),
    )
    with process:
        yield process


@pytest.fixture(scope="module")
def keytab(centre: KerberosCentre) -> Path:
    return centre.add(_PRINCIPAL)


def access(keytab: Path, principal: str = _PRINCIPAL) -> ZooKeeperAccess:
    settings = {
        "zookeeper.connect": "localhost",
        LOGIN: key_line(keytab, principal),
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
        owner = ("sasl", f"{_PRINCIPAL}@{REALM}", _ALL)
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
    how = access(keytab, "kafka/gone")
    centre.remove("kafka/gone")
    with pytest.raises(MetadataStoreError, match="does not let this broker in as kafka/gone@"):
        await opened(secured, how)
