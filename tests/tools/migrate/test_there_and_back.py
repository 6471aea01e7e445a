"""Export and import undo each other.

Topics, settings, offsets, producers and records come back.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.broker.core import BrokerCore
from kafkapy.configs.kind import ResourceType
from kafkapy.controller.client_quotas import Alteration, QuotaChange
from kafkapy.controller.user_credentials import CredentialChange
from kafkapy.inprocess import Broker
from kafkapy.metadata.delegation_tokens import DelegationToken
from kafkapy.metadata.image import MetadataImage
from kafkapy.security.acls.model import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
)
from kafkapy.security.acls.model import ResourceType as AclResourceType
from kafkapy.security.sasl.scram_credential import ScramMechanism
from kafkapy.security.sasl.users import credentials_of
from kafkapy.storage.disk.checkpoints import read_meta_properties
from kafkapy.storage.disk.files import FileSystem
from kafkapy.tools.migrate.settings import exported_image
from tests.tools.migrate.harness import files_of, open_directory, run, write_directory


def test_a_directory_comes_back_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    before = write_directory(home)
    files = files_of(home)
    run(capsys, "export", home, tmp_path / "kafka", "--to", "kraft")
    assert files_of(home) == files
    told = run(capsys, "import", tmp_path / "kafka", tmp_path / "back")
    assert "4 topics" in told
    assert "1 of them with committed offsets" in told
    assert open_directory(tmp_path / "back") == before


def test_several_log_directories_stay_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    homes, theirs, back = ([tmp_path / f"{name}{n}" for n in (1, 2)] for name in ("home", "kafka", "back"))
    before = write_directory(*homes)
    run(capsys, "export", _names(homes), _names(theirs), "--to", "kraft")
    metas = [read_meta_properties(FileSystem(), str(path / "meta.properties")) for path in theirs]
    assert len({meta and meta.directory_id for meta in metas}) == 2
    run(capsys, "import", _names(theirs), _names(back))
    assert open_directory(*back) == before
    for one, two in zip(homes, back, strict=True):
        partitions = {path.name for path in one.iterdir() if path.is_dir()}
        assert partitions == {path.name for path in two.iterdir() if path.is_dir()}


def test_in_place_nothing_is_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    before = write_directory(home)
    inodes = {path: path.stat().st_ino for path in home.glob("*/*.log")}
    run(capsys, "export", home, "--to", "kraft", "--in-place")
    assert not (home / "metadata.db").exists()
    told = run(capsys, "import", home, "--in-place")
    assert "Kafka's own metadata is kept in" in told
    assert {path: path.stat().st_ino for path in home.glob("*/*.log")} == inodes
    assert open_directory(home) == before


def test_segments_are_shared_but_for_those_that_are_or_may_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, there = tmp_path / "home", tmp_path / "there"
    write_directory(home)
    run(capsys, "export", home, there, "--to", "kraft")
    for folder in home.glob("*-[0-9]"):
        logs = sorted(folder.glob("*.log"))
        shared = [(there / folder.name / path.name).samefile(path) for path in logs]
        # The active one is written, and the one before it would be after a recovery that cuts into it.
        assert shared == ([True] * (len(logs) - 2) + [False, False])[-len(logs) :]
    assert len(list((home / "orders-0").glob("*.log"))) > 2


def test_what_the_copy_does_the_original_does_not_see(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, back = tmp_path / "home", tmp_path / "back"
    write_directory(home)
    run(capsys, "export", home, tmp_path / "kafka", "--to", "kraft")
    run(capsys, "import", tmp_path / "kafka", back)
    files = files_of(home)
    write_more(back)
    assert files_of(home) == files


def write_more(path: Path) -> None:
    """Append to a topic, and delete another."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient

    with Broker(data_dir=path) as broker:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        producer = Producer(servers)
        for number in range(1000):
            producer.produce("orders", b"%d" % number * 100, partition=0)
        assert producer.flush(30) == 0
        admin = AdminClient(servers)
        admin.delete_topics(["users"])["users"].result(10)


def _names(paths: list[Path]) -> str:
    return ",".join(map(str, paths))


def test_known_damage_is_told_and_comes_along(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    write_directory(home)
    (home / "orders-0" / "damaged-offsets").write_text("0\n1\n0 100 200 3 7\n")
    told = run(capsys, "export", home, tmp_path / "there", "--to", "kraft")
    assert "Damaged, as in the original: orders-0 offsets 3 to 6." in told
    assert (tmp_path / "there" / "orders-0" / "damaged-offsets").exists()


def test_a_partition_behind_a_symbolic_link_comes_along(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    before = write_directory(home)
    (home / "orders-0").rename(tmp_path / "elsewhere")
    (home / "orders-0").symlink_to(tmp_path / "elsewhere")
    run(capsys, "export", home, tmp_path / "there", "--to", "kraft")
    run(capsys, "import", tmp_path / "there", tmp_path / "back")
    assert open_directory(tmp_path / "back") == before


def test_quotas_and_client_metrics_come_back_and_settings_of_groups_stay_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, back = tmp_path / "home", tmp_path / "back"
    quotas = {
        (("user", "a"),): {"consumer_byte_rate": "5"},
        (("client-id", "c"), ("user", None)): {"request_percentage": "12.5"},
        (("user", None),): {},
        (("ip", "192.0.2.1"),): {"connection_creation_rate": "7"},
    }

    async def give(core: BrokerCore) -> None:
        await core.admin.configs.replace(ResourceType.GROUP, "g", {"share.delivery.count.limit": "4"})
        await core.admin.configs.replace(ResourceType.CLIENT_METRICS, "m", {"interval.ms": "1000"})
        await core.admin.configs.replace(ResourceType.BROKER, "1", {"custom.key": "x"})
        changes = [
            Alteration(entity, [QuotaChange(name, float(text)) for name, text in configs.items()])
            for entity, configs in quotas.items()
            if configs
        ]
        assert await core.admin.quotas.alter(changes) == [None] * len(changes)

    with Broker(data_dir=home) as broker:
        broker.call(give)
    told = run(capsys, "export", home, tmp_path / "kafka", "--to", "kraft")
    assert "Not exported, because Apache Kafka 3.9 does not have it: settings of groups (1)" in told
    assert "not carried" not in run(capsys, "import", tmp_path / "kafka", back).lower()
    with Broker(data_dir=back) as broker:
        image = broker.core.metadata.image
        assert image.client_quotas.configs == quotas
        assert image.client_metrics_configs == {"m": {"interval.ms": "1000"}}
        assert image.group_configs == {}
        assert image.broker_configs["1"] == {"custom.key": "x"}
        assert image.client_quotas.has_clients((("user", None),))


@pytest.mark.parametrize(("number", "settings"), [("1", {}), ("2", {"min.insync.replicas": "2"})])
def test_a_default_of_min_insync_replicas_does_not_hide_what_kafkas_file_says(
    tmp_path: Path, number: str, settings: dict[str, str]
) -> None:
    configs = {"": {"min.insync.replicas": number}}
    left: list[str] = []
    image = exported_image(MetadataImage(broker_configs=configs), left, zookeeper=False)
    assert (image.broker_configs, left) == ({"": settings}, [])


STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_acls_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home, back = tmp_path / "home", tmp_path / "back"
    orders = ResourcePattern(AclResourceType.TOPIC, PatternType.LITERAL, "orders")
    of_app = ResourcePattern(AclResourceType.GROUP, PatternType.PREFIXED, "app.")
    acls = [
        Acl(orders, "User:alice", "*", Operation.READ, Permission.ALLOW),
        Acl(orders, "User:bob", "10.0.0.1", Operation.ALL, Permission.DENY),
        Acl(of_app, "User:alice", "*", Operation.READ, Permission.ALLOW),
    ]

    async def give(core: BrokerCore) -> None:
        assert core.admin.acls is not None
        assert await core.admin.acls.create(acls) == [None] * len(acls)

    async def kept(core: BrokerCore) -> set[Acl]:
        assert core.admin.acls is not None
        return {acl for each in core.admin.acls.patterns.values() for acl in each.acls}

    with Broker(data_dir=home, config={"authorizer.class.name": STANDARD}) as broker:
        broker.call(give)
    run(capsys, "export", home, tmp_path / "kafka", "--to", "kraft")
    assert "Not imported" not in run(capsys, "import", tmp_path / "kafka", back)
    with Broker(data_dir=back, config={"authorizer.class.name": STANDARD}) as broker:
        assert broker.call(kept) == set(acls)
        broker.call(give)  # the nodes above them are there


def test_delegation_tokens_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home, back = tmp_path / "home", tmp_path / "back"
    config = {"delegation.token.secret.key": "secret"}

    async def give(core: BrokerCore) -> DelegationToken:
        assert core.admin.delegation_tokens is not None
        return await core.admin.delegation_tokens.create("User:alice", "User:a/ü", ["User:bob"], -1)

    async def renewed(core: BrokerCore, token: DelegationToken) -> DelegationToken | None:
        tokens = core.admin.delegation_tokens
        assert tokens is not None
        found = tokens.cache.find(tokens.cache.hmac_of(token.id))
        await tokens.renew("User:bob", tokens.cache.hmac_of(token.id), -1)
        return found

    with Broker(data_dir=home, config=config) as broker:
        token = broker.call(give)
    run(capsys, "export", home, tmp_path / "kafka", "--to", "kraft")
    assert "Not imported" not in run(capsys, "import", tmp_path / "kafka", back)
    with Broker(data_dir=back, config=config) as broker:
        assert broker.call(lambda core: renewed(core, token)) == token
        broker.call(give)  # the nodes above them are there


def test_users_log_in_as_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home, back = tmp_path / "home", tmp_path / "back"
    changes = {
        "alice": CredentialChange(ScramMechanism.SCRAM_SHA_256, 4096, b"salt", b"alice's key"),
        "a/ü": CredentialChange(ScramMechanism.SCRAM_SHA_512, 8192, b"pepper", b"another key"),
    }

    async def give(core: BrokerCore) -> None:
        quota = Alteration((("user", "alice"),), (QuotaChange("producer_byte_rate", 1024.0),))
        assert await core.admin.quotas.alter([quota], validate_only=False) == [None]
        for user, change in changes.items():
            assert await core.admin.user_credentials.alter({user: change}) == {user: None}

    async def kept(core: BrokerCore) -> dict[str, object]:
        return {user: credentials_of(core.metadata.image, user) for user in changes}

    with Broker(data_dir=home) as broker:
        broker.call(give)
        given = broker.call(kept)
    run(capsys, "export", home, tmp_path / "kafka", "--to", "kraft")
    assert "Not imported" not in run(capsys, "import", tmp_path / "kafka", back)
    with Broker(data_dir=back) as broker:
        assert broker.call(kept) == given
        assert all(given.values())
        quotas = broker.core.metadata.image.client_quotas.configs[("user", "alice"),]
        assert quotas["producer_byte_rate"] == "1024"
