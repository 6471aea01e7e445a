"""Exports to a ZooKeeper that demands a login, and imports from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interop.support.secured_zookeeper import (
    BROKERS,
    OTHERS,
    access_of,
    line_of,
    looking_as,
    secured_zookeeper,
)
from interop.support.zookeeper_process import ZooKeeperProcess
from kafkapy.cli import main
from kafkapy.inprocess import Broker
from kafkapy.metadata.zookeeper_access import ZooKeeperLogin
from tests.tools.migrate.harness import open_directory, write_directory

pytestmark = pytest.mark.jvm
ALL, READ = 31, 1


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    with secured_zookeeper(tmp_path_factory.mktemp("secured")) as process:
        yield process


def properties(folder: Path, login: ZooKeeperLogin) -> str:
    """A broker's file of properties, with some that have nothing to do with ZooKeeper."""
    path = folder / f"{login.username}.properties"
    path.write_text(
        f"broker.id=1\nlog.dirs=/nowhere\nzookeeper.set.acl=true\nzookeeper.sasl.jaas.config={line_of(login)}\n"
    )
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def salt_secret(folder: Path) -> bytes:
    """The secret that makes the salts of users who do not exist."""
    with Broker(data_dir=folder) as broker:
        return broker.core.metadata.image.salt_secret


def test_a_directory_goes_there_and_back_by_a_login(tmp_path: Path, secured: ZooKeeperProcess) -> None:
    before = write_directory(tmp_path / "home")
    secret = salt_secret(tmp_path / "home")
    home, away, back = (str(tmp_path / name) for name in ("home", "away", "back"))
    place = f"{secured.bootstrap_servers}/kafka"
    config = ("--zookeeper-config", properties(tmp_path, BROKERS))
    exported = run("export", home, away, "--to", f"zookeeper:{place}", *config)
    assert exported.exit_code == 0, exported.output
    with looking_as(BROKERS, secured.bootstrap_servers) as client:
        access = access_of(client, "/kafka")
    owner = ("sasl", BROKERS.username, ALL)
    assert access["/kafka/cluster/id"] == {owner, ("world", "anyone", READ)}
    assert access["/kafka/config/users"] == access["/kafka/config/users_salt_secret"] == {owner}
    imported = run("import", away, back, "--zookeeper", place, *config)
    assert imported.exit_code == 0, imported.output
    assert open_directory(tmp_path / "back") == before
    assert salt_secret(tmp_path / "back") == secret


def test_who_may_not_come_in_is_told_what_to_do(tmp_path: Path, secured: ZooKeeperProcess) -> None:
    write_directory(tmp_path / "home")
    home, place = str(tmp_path / "home"), f"zookeeper:{secured.bootstrap_servers}/other"
    unnamed = run("export", home, str(tmp_path / "one"), "--to", place)
    assert "--zookeeper-config" in unnamed.stderr
    wrong = properties(tmp_path, ZooKeeperLogin(BROKERS.username, "wrong"))
    refused = run("export", home, str(tmp_path / "two"), "--to", place, "--zookeeper-config", wrong)
    assert "refuses the login" in refused.stderr
    for result in (unnamed, refused):
        assert result.exit_code == 1
        assert len(result.stderr.strip().splitlines()) == 1


def test_what_a_broker_owns_is_read_by_its_login_only(tmp_path: Path, secured: ZooKeeperProcess) -> None:
    write_directory(tmp_path / "home")
    place = f"{secured.bootstrap_servers}/owned"
    own = ("--zookeeper-config", properties(tmp_path, BROKERS))
    assert (
        run("export", str(tmp_path / "home"), "--in-place", "--to", f"zookeeper:{place}", *own).exit_code == 0
    )
    other = ("--zookeeper-config", properties(tmp_path, OTHERS))
    refused = run("import", str(tmp_path / "home"), str(tmp_path / "back"), "--zookeeper", place, *other)
    assert refused.exit_code == 1
    assert "does not let" in refused.stderr
    assert not (tmp_path / "back").exists()
