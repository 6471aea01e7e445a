"""A ZooKeeper that demands a login, and nodes that belong to those that made them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.support.kafka_jars import java_command
from interop.support.secured_zookeeper import (
    BROKERS,
    OTHERS,
    access_of,
    jaas_flag,
    line_of,
    looking_as,
    secured_zookeeper,
)
from interop.support.zookeeper_process import RELEASE, ZooKeeperProcess
from kafkapy.metadata import znodes
from kafkapy.metadata.cache import open_cluster
from kafkapy.metadata.store import Create, MetadataStoreError
from kafkapy.metadata.zookeeper import ZooKeeperStore
from kafkapy.metadata.zookeeper_access import EVERYBODY, ZooKeeperAccess, ZooKeeperLogin

ALL, READ = 31, 1
OWNED = frozenset({("sasl", BROKERS.username, ALL), ("world", "anyone", READ)})
SECRET = frozenset({("sasl", BROKERS.username, ALL)})
OPEN = frozenset({("world", "anyone", ALL)})


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    with secured_zookeeper(tmp_path_factory.mktemp("secured")) as process:
        yield process


async def opened(
    secured: ZooKeeperProcess, access: ZooKeeperAccess, *, chroot: str = "", seconds: float = 20
) -> ZooKeeperStore:
    return await ZooKeeperStore.open(
        secured.bootstrap_servers + chroot, session_timeout=4, connection_timeout=seconds, access=access
    )


async def test_nodes_belong_to_the_user_that_made_them(secured: ZooKeeperProcess) -> None:
    """Others cannot even read what is sensitive, as Kafka's ZkData.defaultAcls has it."""
    store = await opened(secured, ZooKeeperAccess(login=BROKERS, own_nodes=True), chroot="/owned/here")
    wanted = {
        "/config": OWNED,
        "/config/topics": OWNED,
        "/config/users": SECRET,
        "/config/users/alice": SECRET,
        "/config/brokers": SECRET,
        "/delegation_token": OWNED,
        "/delegation_token/tokens": SECRET,
        "/delegation_token/tokens/x": SECRET,
        "/consumers": OPEN,
        "/consumers/g": OWNED,
        "/kafka-acl": OWNED,
    }
    try:
        for path in wanted:
            await store.multi([Create(path, b"x")])
        await store.multi([Create("/one", b"", ephemeral=True), Create("/n_", b"", sequence=True)])
    finally:
        with looking_as(BROKERS, secured.bootstrap_servers) as client:
            found = access_of(client, "/owned")
        await store.close()
    assert found == {
        "/owned/here": OWNED,
        "/owned/here/one": OWNED,
        "/owned/here/n_0000000005": OWNED,
        **{f"/owned/here{path}": access for path, access in wanted.items()},
    }


def secure(connect: str, folder: Path) -> None:
    """Run Apache Kafka's zookeeper-security-migration."""
    command = [
        *java_command(RELEASE, jaas_flag(folder, "Client", line_of(BROKERS))),
        "kafka.admin.ZkSecurityMigrator",
        "--zookeeper.acl=secure",
        f"--zookeeper.connect={connect}",
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr


async def test_apache_kafkas_tool_takes_the_secret_of_the_salts_for_one(
    secured: ZooKeeperProcess, tmp_path: Path
) -> None:
    """The node is there already when zookeeper.set.acl is turned on."""
    store = await opened(secured, ZooKeeperAccess(login=BROKERS), chroot="/migrated")
    await open_cluster(store, shared=True)
    await store.close()
    with looking_as(BROKERS, secured.bootstrap_servers) as client:
        before = access_of(client, "/migrated")
        assert before[f"/migrated{znodes.SALT_SECRET}"] == OPEN
        secure(f"{secured.bootstrap_servers}/migrated", tmp_path)
        after = access_of(client, "/migrated")
    assert after["/migrated/config/topics"] == OWNED
    assert after[f"/migrated{znodes.SALT_SECRET}"] == after["/migrated/config/users"] == SECRET


async def test_others_may_not_change_what_a_broker_owns(secured: ZooKeeperProcess) -> None:
    store = await opened(secured, ZooKeeperAccess(login=BROKERS, own_nodes=True), chroot="/guarded")
    await store.multi([Create("/config", b""), Create("/config/users", b"")])
    await store.close()
    other = await opened(secured, ZooKeeperAccess(login=OTHERS), chroot="/guarded")
    try:
        assert (await other.get("/config")).data == b""
        with pytest.raises(MetadataStoreError, match=r"refuses a change of /config: its access control list"):
            await other.set("/config", b"x")
        with pytest.raises(MetadataStoreError, match=r"refuses to read.*zookeeper\.sasl\.jaas\.config"):
            await other.get("/config/users")
    finally:
        await other.close()


async def test_nodes_are_open_by_default(secured: ZooKeeperProcess) -> None:
    store = await opened(secured, ZooKeeperAccess(login=BROKERS), chroot="/open")
    try:
        await store.multi([Create("/config", b"")])
        with looking_as(OTHERS, secured.bootstrap_servers) as client:
            assert access_of(client, "/open") == {"/open/config": OPEN}
    finally:
        await store.close()


@pytest.mark.parametrize("login", [ZooKeeperLogin("kafka", "wrong"), ZooKeeperLogin("nobody", "secret")])
async def test_a_wrong_login_is_told_at_once(secured: ZooKeeperProcess, login: ZooKeeperLogin) -> None:
    with pytest.raises(
        MetadataStoreError, match=f"ZooKeeper does not let this broker in as {login.username}"
    ):
        await opened(secured, ZooKeeperAccess(login=login), seconds=300)


async def test_a_broker_without_a_login_is_told(secured: ZooKeeperProcess) -> None:
    with pytest.raises(MetadataStoreError, match="ZooKeeper lets nobody in without a login"):
        await opened(secured, EVERYBODY)


async def test_a_zookeeper_that_knows_no_users_is_told(zookeeper: ZooKeeperProcess) -> None:
    with pytest.raises(MetadataStoreError, match="ZooKeeper does not let this broker in as kafka"):
        await opened(zookeeper, ZooKeeperAccess(login=BROKERS), seconds=20)


async def test_a_session_outlives_its_connection_with_a_new_login(secured: ZooKeeperProcess) -> None:
    store = await opened(secured, ZooKeeperAccess(login=BROKERS, own_nodes=True), chroot="/again")
    try:
        await store.multi([Create("/config", b"")])
        session = store.session_id
        for _ in range(2):
            store._disconnect()
            assert (await store.get("/config")).data == b""
            assert store.session_id == session
    finally:
        await store.close()


async def test_a_login_is_tried_again_after_zookeeper_was_away(secured: ZooKeeperProcess) -> None:
    store = await opened(secured, ZooKeeperAccess(login=BROKERS, own_nodes=True), chroot="/away")
    try:
        await store.multi([Create("/config", b"")])
        secured.kill()
        secured.start()
        assert (await store.get("/config")).data == b""
        await store.set("/config", b"x")
    finally:
        await store.close()
