"""A ZooKeeper that serves nobody without a login by SASL DIGEST-MD5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient

from interop.support.zookeeper_process import ZooKeeperProcess
from kafkapy.metadata.zookeeper_access import ZooKeeperLogin

MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
BROKERS: Final = ZooKeeperLogin("kafka", "a; secret")
OTHERS: Final = ZooKeeperLogin("others", "open")


DEMANDS_LOGIN: Final = (
    "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
    "enforce.auth.enabled=true\nenforce.auth.schemes=sasl\n"
)
"""Settings of a ZooKeeper that serves nobody without a login by SASL."""


def line_of(login: ZooKeeperLogin) -> str:
    """The JAAS line of a client."""
    return f'{MODULE} required username="{login.username}" password="{login.password}";'


def jaas_flag(folder: Path, section: str, line: str) -> str:
    """The flag by which Java finds a file with this line."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{section}.jaas"
    path.write_text(f"{section} {{ {line} }};\n")
    return f"-Djava.security.auth.login.config={path}"


def secured_zookeeper(folder: Path) -> ZooKeeperProcess:
    """It knows two users, and demands a login by one of them."""
    users = " ".join(f'user_{name}="{password}"' for name, password in (BROKERS, OTHERS))
    return ZooKeeperProcess(
        folder,
        more=DEMANDS_LOGIN,
        jvm_flags=(jaas_flag(folder, "Server", f"{MODULE} required {users};"),),
    )


@contextmanager
def looking_as(login: ZooKeeperLogin, address: str) -> Iterator[KazooClient]:
    """A client of kazoo's that has logged in."""
    options = {"mechanism": "DIGEST-MD5", "username": login.username, "password": login.password}
    client = KazooClient(address, sasl_options=options)
    client.start(30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def access_of(client: KazooClient, path: str = "/") -> Mapping[str, frozenset[tuple[str, str, int]]]:
    """Who may do what with all nodes below a path, as sets of scheme, id and permissions."""
    found = {}
    below = [path.rstrip("/") + f"/{name}" for name in client.get_children(path) if name != "zookeeper"]
    for each in below:
        acl, _ = client.get_acls(each)
        found[each] = frozenset((one.id.scheme, one.id.id, one.perms) for one in acl)
        found |= access_of(client, each)
    return found
