"""Settings: names, types, precedence, and what is refused in which words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kafkapy
from kafkapy.configs.config import BrokerConfig, broker_synonym, nearest
from kafkapy.configs.keys import (
    ConfigError,
    ConfigKey,
    broker_key,
    broker_keys,
    client_metrics_keys,
    group_keys,
    listener_setting,
    topic_keys,
)
from kafkapy.configs.listeners import Listener
from kafkapy.configs.unsupported import (
    IGNORED_NAMES,
    refusal,
    topic_settings_without_effect,
    without_effect,
)
from kafkapy.storage.disk.properties import parse_properties
from kafkapy.storage.log.log_config import NEVER, LogConfig

HOUR_MS = 3_600_000

STOCK_KRAFT_PROPERTIES = """\
# A server.properties as Apache Kafka 4 ships it, without its comments.
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_a_stock_server_properties_is_accepted_and_its_controller_listener_left_out() -> None:
    config = BrokerConfig(parse_properties(STOCK_KRAFT_PROPERTIES))
    assert config.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092),)
    assert config.node_id == 1
    assert config.log_dirs == (Path("/tmp/kraft-combined-logs"),)
    assert "controller.quorum.bootstrap.servers" in config.without_effect()
    assert "log.retention.hours" not in config.without_effect()


def test_every_default_is_a_valid_value() -> None:
    for key in broker_keys().values():
        if key.default is not None:
            key.parse(key.default)
    for keys in (topic_keys(), group_keys(), client_metrics_keys()):
        for key in keys.values():
            assert key.default is not None
            key.parse(key.default)


def test_a_setting_of_groups_defaults_to_one_of_the_broker_of_the_same_type() -> None:
    for key in group_keys().values():
        for synonym in key.synonyms:
            broker = broker_keys()[synonym]
            assert (broker.type, broker.default) == (key.type, key.default)


def test_values_have_the_types_of_their_settings() -> None:
    config = BrokerConfig(
        {
            "auto.create.topics.enable": " FALSE ",
            "num.partitions": "7",
            "log.cleaner.min.cleanable.ratio": "0.25",
            "log.cleanup.policy": "compact, delete",
            "broker.rack": "r1",
        }
    )
    assert config["auto.create.topics.enable"] is False
    assert config["num.partitions"] == 7
    assert config["log.cleaner.min.cleanable.ratio"] == 0.25
    assert config["log.cleanup.policy"] == ("compact", "delete")
    assert config["broker.rack"] == "r1"


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "5"}, 300_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "5", "log.retention.ms": "9"}, 9),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-1"}, -1),
    ],
)
def test_log_retention_is_taken_from_ms_then_minutes_then_hours(
    settings: dict[str, str], retention_ms: int
) -> None:
    config = BrokerConfig(settings)
    assert config["log.retention.ms"] == retention_ms
    assert config.topic_defaults()["retention.ms"] == str(retention_ms)


@pytest.mark.parametrize("setting", ["log.retention.ms", "log.retention.minutes", "log.retention.hours"])
def test_a_retention_of_no_time_is_refused(setting: str) -> None:
    with pytest.raises(
        ConfigError, match=f"^{re.escape(setting)}=0: must be -1, for no limit, or at least 1$"
    ):
        BrokerConfig({setting: "0"})


def test_log_flush_below_zero_is_no_limit() -> None:
    for setting in ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"):
        config = BrokerConfig({setting: "-1"})
        assert LogConfig.from_mapping(config.topic_defaults()).flush_ms == NEVER
        assert config.text(setting) == "-1"


def test_log_roll_is_taken_from_ms_then_hours() -> None:
    assert BrokerConfig({"log.roll.hours": "3"})["log.roll.ms"] == 3 * HOUR_MS
    assert BrokerConfig({"log.roll.hours": "3", "log.roll.ms": "5"}).topic_defaults()["segment.ms"] == "5"


def test_log_dirs_win_over_log_dir() -> None:
    assert BrokerConfig({"log.dir": "/a"}).log_dirs == (Path("/a"),)
    assert BrokerConfig({"log.dir": "/a", "log.dirs": "/b,/c"}).log_dirs == (Path("/b"), Path("/c"))


def test_broker_id_is_another_name_for_node_id() -> None:
    assert BrokerConfig({}).node_id == -1
    assert BrokerConfig({"broker.id": "3"}).node_id == 3
    assert BrokerConfig({"broker.id": "-1", "node.id": "4"}).node_id == 4


def test_topic_defaults_follow_the_broker_settings_they_are_synonyms_of() -> None:
    defaults = BrokerConfig(
        {"message.max.bytes": "5000", "log.segment.bytes": "2000000", "compression.type": "lz4"}
    ).topic_defaults()
    assert defaults.keys() == topic_keys().keys()
    assert (defaults["max.message.bytes"], defaults["segment.bytes"]) == ("5000", "2000000")
    assert defaults["compression.type"] == "lz4"
    assert defaults["cleanup.policy"] == "delete"
    assert broker_synonym("retention.ms") == "log.retention.ms"
    assert broker_synonym("remote.storage.enable") is None


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("num.partitions", "many", "expected a whole number of 32 bits"),
        ("num.partitions", "3000000000", "expected a whole number of 32 bits"),
        ("num.partitions", "\N{FULLWIDTH DIGIT ONE}", "expected a whole number of 32 bits"),
        ("num.partitions", "0", "expected at least 1"),
        ("compression.gzip.level", "0", "expected from 1 to 9, or -1"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "expected from 0 to 1"),
        ("log.preallocate", "yes", "expected true or false"),
        ("compression.type", "br", "expected one of uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("log.cleanup.policy", "delete,keep", "expected a list of compact, delete"),
        ("durability", "maybe", "expected one of fsync, os"),
        ("listeners", "localhost:9092", "expected NAME://HOST:PORT, such as PLAINTEXT://localhost:9092"),
        ("listeners", "A://h:70000", "expected NAME://HOST:PORT, such as PLAINTEXT://localhost:9092"),
        ("queued.max.request.bytes", "1000", "must be -1 or at least socket.request.max.bytes"),
        ("log.roll.ms", "0", "must be at least 1"),
        ("log.roll.ms", "-1", "must be at least 1"),
        ("log.roll.jitter.ms", "-1", "must be at least 0"),
        ("log.cleaner.threads", "0", "must be at least 1"),
        (
            "log.cleaner.dedupe.buffer.size",
            "1048576",
            "must be above 1048576 for each of log.cleaner.threads (1)",
        ),
        ("log.cleaner.dedupe.buffer.size", "-2", "must be above 1048576 for each of log.cleaner.threads (1)"),
        ("log.cleaner.io.buffer.load.factor", "0", "must be above 0"),
        ("log.cleaner.io.buffer.load.factor", "nan", "expected a number"),
        ("log.cleaner.io.max.bytes.per.second", "inf", "expected a number"),
        ("log.cleaner.io.max.bytes.per.second", "1e999", "expected a number"),
        ("log.cleaner.io.max.bytes.per.second", "1_000", "expected a number"),
        ("max.connections", "0", "must be at least 1"),
        ("max.connection.creation.rate", "0", "must be at least 1"),
        (
            "max.connections.per.ip",
            "0",
            "must be at least 1 where max.connections.per.ip.overrides is not set",
        ),
        ("max.connections.per.ip.overrides", "here", "expected ADDRESS:LIMIT"),
    ],
)
def test_a_wrong_value_is_refused_in_one_line(name: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig({name: text})
    assert str(refused.value) == f"{name}={text}: {reason}"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "listener.security.protocol.map",
            "PLAINTEXT:TLS",
            "listener.security.protocol.map=PLAINTEXT:TLS: expected one of PLAINTEXT, SSL, SASL_PLAINTEXT,"
            " SASL_SSL",
        ),
        (
            "listeners",
            "X://:1",
            "listeners: X has no security protocol; add X:PLAINTEXT to listener.security.protocol.map",
        ),
        (
            "listeners",
            "PLAINTEXT://:1,PLAINTEXT://:2",
            "listeners: the listener name PLAINTEXT is given twice; give each listener its own",
        ),
        ("listeners", "", "listeners: name at least one, such as PLAINTEXT://localhost:9092"),
        (
            "advertised.listeners",
            "PLAINTEXT://0.0.0.0:9092",
            "advertised.listeners: clients cannot connect to 0.0.0.0; "
            "advertise a name or address they can reach",
        ),
        (
            "advertised.listeners",
            "OTHER://a:1",
            "advertised.listeners: OTHER is not one of the listeners (PLAINTEXT)",
        ),
        ("process.roles", "controller", "process.roles: a broker is needed; there is no separate controller"),
        (
            "log.cleaner.threads",
            "128",
            "log.cleaner.dedupe.buffer.size=134217728: must be above 1048576 for each of "
            "log.cleaner.threads (128)",
        ),
        ("log.dirs", "", "log.dirs: name at least one directory, without empty entries"),
        ("log.dirs", "/a,,/b", "log.dirs: name at least one directory, without empty entries"),
    ],
)
def test_what_does_not_fit_together_is_refused_in_one_line(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig({name: text})
    assert str(refused.value) == message


def test_a_file_may_hold_settings_that_nobody_knows() -> None:
    file = {"our.user": "User:admin", "custom.key": "5", "log.retention.msec": "1", "num.partitions": "3"}
    config = BrokerConfig.from_properties(file)
    assert config["num.partitions"] == 3
    assert config.unknown() == ["our.user", "custom.key", "log.retention.msec"]
    assert config.text("custom.key") == "5"
    assert config.without_effect() == []


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("log.retention.msec", "log.retention.ms"),
        ("retention.ms", "log.retention.ms"),
        ("num.partition", "num.partitions"),
        ("auto.create.topic.enable", "auto.create.topics.enable"),
        ("logdirs", "log.dirs"),
        ("zookeper.connect", "zookeeper.connect"),
    ],
)
def test_a_name_that_looks_misspelt_is_refused_on_the_command_line(name: str, known: str) -> None:
    with pytest.raises(ConfigError, match=f"^unknown setting {name}: did you mean {known}\\?$"):
        BrokerConfig.from_properties({}, {name: "1"})


@pytest.mark.parametrize(
    "name",
    [
        "unclean.leader.election.interval.ms",
        "log.unclean.leader.election.enable",
        "replica.lag.max.messages",
        "zookeeper.sync.time.ms",
        "brokerid",
    ],
)
def test_a_name_that_kafka_4_ignores_is_accepted_though_it_looks_misspelt(name: str) -> None:
    assert BrokerConfig.from_properties({}, {name: "1"}).unknown() == [name]


def test_no_name_that_kafka_4_ignores_is_known() -> None:
    assert not IGNORED_NAMES & broker_keys().keys()


VOTERS = "1@one:9093,2@two:9093,3@three:9093"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"controller.quorum.voters": VOTERS, "process.roles": "broker"},
            "controller.quorum.voters: the quorum has 3 members, and this broker does not speak KRaft",
        ),
        (
            {"controller.quorum.voters": VOTERS, "process.roles": "broker,controller"},
            "controller.quorum.voters: the quorum has 3 members, and this broker does not speak KRaft",
        ),
        (
            {
                "controller.quorum.bootstrap.servers": "one:9093,two:9093",
                "process.roles": "broker,controller",
            },
            "controller.quorum.bootstrap.servers: the quorum has 2 members,",
        ),
        (
            {"controller.quorum.bootstrap.servers": "one:9093", "process.roles": "broker"},
            "controller.quorum.bootstrap.servers: process.roles has no controller, so the quorum is another",
        ),
    ],
)
def test_a_broker_of_a_kraft_cluster_does_not_become_a_cluster_of_its_own(
    settings: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_properties(settings)
    assert str(refused.value).startswith(message)
    remedy = re.findall(r"--set (\S+)=", str(refused.value))
    assert BrokerConfig.from_properties(settings, dict.fromkeys(remedy, "")).node_id == -1


def test_a_broker_of_a_kraft_cluster_may_join_one_on_zookeeper() -> None:
    settings = {"controller.quorum.voters": VOTERS, "zookeeper.connect": "localhost:2181"}
    assert BrokerConfig.from_properties(settings).clustered


@pytest.mark.parametrize("name", ["our.user", "custom.key", "qwertyuiop", "my.plugin.retention"])
def test_a_name_of_its_own_is_accepted_on_the_command_line(name: str) -> None:
    assert BrokerConfig.from_properties({}, {name: "1"}).unknown() == [name]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("log.retention.msec", "log.retention.ms"),
        ("zookeper.connect", "zookeeper.connect"),
        ("qwertyuiop", None),
    ],
)
def test_the_nearest_known_name_is_found(name: str, near: str | None) -> None:
    assert nearest(name) == near


def test_a_listener_may_have_its_own_keys_logins_and_limits() -> None:
    own = (
        "ssl.keystore.type",
        "plain.sasl.jaas.config",
        "connections.max.reauth.ms",
        "max.connections",
        "max.connection.creation.rate",
    )
    settings = dict.fromkeys((f"listener.name.x.{name}" for name in own), "1")
    assert BrokerConfig(settings).without_effect() == []


def test_other_settings_of_one_listener_have_their_type_and_no_effect() -> None:
    name = "listener.name.plaintext.max.connections.per.ip"
    config = BrokerConfig({name: "5"})
    assert config.without_effect() == [name]
    assert config.unknown() == []
    assert config["max.connections.per.ip"] == 2_000
    with pytest.raises(ConfigError, match=f"^{name}=five: expected a whole number of 32 bits$"):
        BrokerConfig({name: "five"})
    with pytest.raises(ConfigError, match="loads no Java classes"):
        BrokerConfig({"listener.name.plaintext.principal.builder.class": "com.example.Builder"})


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("listener.name.plaintext.max.connections", "max.connections"),
        ("listener.name.sasl.plain.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.a.sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.expected.issuer"),
        ("listener.name.a.oauthbearer.sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.expected.issuer"),
        ("listener.name.a.oauthbearer.sasl.oauthbearer.another", "oauthbearer.sasl.oauthbearer.another"),
        ("listener.name.plaintext", None),
        ("max.connections", None),
    ],
)
def test_a_setting_of_one_listener_names_the_listener_first(name: str, setting: str | None) -> None:
    assert listener_setting(name) == setting


def test_a_setting_that_nobody_knows_is_text_that_may_be_a_secret() -> None:
    key = broker_key("custom.key")
    assert (key.parse(" 5 "), key.sensitive, key.default, key.dynamic) == ("5", True, None, False)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("earliest", True),
        ("by_duration:PT1H", True),
        ("by_duration:p1dt1.5s", True),
        ("EARLIEST", False),
        ("by_duration:PT-1H", False),
        ("by_duration:P1DT", False),
        ("by_duration:", False),
    ],
)
def test_share_groups_start_at_an_end_or_some_time_ago(text: str, good: bool) -> None:
    key = group_keys()["share.auto.offset.reset"]
    if good:
        assert key.parse(text) == text
    else:
        with pytest.raises(ConfigError):
            key.parse(text)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"group.streams.session.timeout.ms": "1000"},
            "group.streams.session.timeout.ms=1000: must be between group.streams.min.session.timeout.ms ",
        ),
        (
            {"group.streams.num.standby.replicas": "3"},
            "group.streams.num.standby.replicas=3: must not be above group.streams.max.standby.replicas (2)",
        ),
        (
            {
                "group.streams.max.heartbeat.interval.ms": "60000",
                "group.streams.heartbeat.interval.ms": "50000",
            },
            "group.streams.heartbeat.interval.ms=50000: must be less than group.streams.session.timeout.ms",
        ),
        (
            {"group.coordinator.rebalance.protocols": "consumer"},
            "group.coordinator.rebalance.protocols=consumer: must have classic",
        ),
    ],
)
def test_settings_of_groups_are_within_their_limits(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig(settings)
    assert str(refused.value).startswith(reason)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("authorizer.class.name", "com.example.OwnAuthorizer"),
        ("create.topic.policy.class.name", "com.example.Policy"),
        ("remote.log.storage.system.enable", "true"),
    ],
)
def test_what_this_broker_must_not_pretend_to_do_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}={text}: .+"):
        BrokerConfig({name: text})


def test_no_connections_from_most_addresses_are_allowed_where_some_have_a_limit_of_their_own() -> None:
    BrokerConfig({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:4"})


def test_a_default_of_what_is_not_supported_is_accepted() -> None:
    BrokerConfig({"authorizer.class.name": "", "zookeeper.connect": ""})


def test_every_setting_is_obeyed_refused_or_said_to_have_no_effect() -> None:
    package = Path(kafkapy.__file__).parent
    # These name settings without obeying them.
    apart = {package / "configs" / "unsupported.py", package / "configs" / "docs.py"}
    sources = "".join(
        path.read_text()
        for folder in (package, package / "storage", package / "protocol")
        for path in folder.rglob("*.py")
        if path not in apart
    )
    topic_defaults = {broker_synonym(name) for name in topic_keys()}
    silent = [
        name
        for name in broker_keys()
        if not (refusal(name) or without_effect([name]) or name in topic_defaults)
        and f'"{name}"' not in sources
    ]
    assert silent == []


def test_a_setting_that_is_said_to_have_no_effect_is_read_nowhere() -> None:
    package = Path(kafkapy.__file__).parent
    apart = {
        package / "configs" / "unsupported.py",
        package / "configs" / "docs.py",
        package / "configs" / "keys.py",  # names that are listener settings, too
        package / "configs" / "brokers.py",  # numbers of threads, of which a change is checked
        package / "configs" / "values.py",  # remote.storage.enable, which topics may not set
        package / "tools" / "migrate" / "settings.py",
        package / "commands" / "connection" / "client_config.py",  # of clients
        package / "commands" / "connection" / "tls.py",
        package / "pipeline" / "client_options.py",
        package / "stand_ins" / "container.py",  # of containers
    }
    sources = "".join(path.read_text() for path in package.rglob("*.py") if path not in apart)
    idle = (
        *without_effect(broker_keys(), clustered=True),
        *topic_settings_without_effect(topic_keys(), clustered=True),
    )
    assert len(idle) > 100
    assert [name for name in idle if f'"{name}"' in sources] == []


def test_a_secret_does_not_show_in_an_error() -> None:
    key = ConfigKey("a.secret", "INT", None, "", dynamic=False, sensitive=True, synonyms=())
    with pytest.raises(ConfigError, match=r"^a.secret=\[hidden\]: expected"):
        key.parse("hunter2")


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=3\nbroker.rack=a\n")
    config = BrokerConfig.from_properties(path, {"num.partitions": "5"})
    assert (config["num.partitions"], config["broker.rack"]) == (5, "a")
    assert config.originals == {"num.partitions": "5", "broker.rack": "a"}


def test_a_file_that_cannot_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^cannot read .*nowhere: No such file or directory$"):
        BrokerConfig.from_properties(tmp_path / "nowhere")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_a_file_is_utf_8_or_else_latin_1(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "server.properties"
    path.write_text("log.dirs=/daten/größe\n", encoding=encoding)
    assert BrokerConfig.from_properties(path).log_dirs == (Path("/daten/größe"),)


def test_a_malformed_file_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(r"log.dirs=\u12g4")
    with pytest.raises(ConfigError, match=r"^cannot read .*server.properties: [^\n]+$"):
        BrokerConfig.from_properties(path)


def test_dynamic_settings_take_effect_at_once_and_a_wrong_one_changes_nothing() -> None:
    config = BrokerConfig({"num.partitions": "3", "log.retention.hours": "2"})
    changes: list[int] = []
    config.on_change(lambda: changes.append(config["log.retention.ms"]))
    config.set_dynamic({"log.retention.ms": "77"})
    assert changes == [77]
    assert config.text("log.retention.ms") == "77"
    for wrong in ("x", "0"):
        with pytest.raises(ConfigError):
            config.set_dynamic({"log.retention.ms": wrong})
    assert config["log.retention.ms"] == 77
    config.set_dynamic({})
    assert changes == [77, 2 * HOUR_MS]
    assert config.text("log.retention.ms") is None


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("PLAINTEXT://:9092", Listener("PLAINTEXT", "", 9092)),
        ("plaintext://localhost:0", Listener("PLAINTEXT", "localhost", 0)),
        ("PLAINTEXT://[::1]:9092", Listener("PLAINTEXT", "::1", 9092)),
    ],
)
def test_a_listener_is_a_name_a_host_and_a_port(text: str, listener: Listener) -> None:
    (found,) = BrokerConfig({"listeners": text}).listeners
    assert found == listener
    assert str(found) == text.replace("plaintext", "PLAINTEXT")


@pytest.mark.parametrize("assignors", ["com.example.Assignor", "simple,com.example.Assignor", "uniform"])
def test_share_groups_have_no_assignor_but_the_simple_one(assignors: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_properties({"group.share.assignors": assignors})
    assert str(refused.value).startswith(f"group.share.assignors={assignors}: share groups have one assignor")
    for accepted in ("simple", ""):
        assert BrokerConfig.from_properties({"group.share.assignors": accepted}).without_effect() == []
