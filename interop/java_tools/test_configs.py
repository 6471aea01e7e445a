"""kafka-configs of all that has settings, and the tools that change or ask for some."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interop.conftest import MakeTopic
from interop.java_tools.tools import ToolError, tool, tools, write_json
from interop.support.waiting import wait_until

pytestmark = pytest.mark.slow

NODE = ("--entity-type", "brokers", "--entity-name", "1")
ALL = ("--entity-type", "brokers", "--entity-default")
CONNECTIONS = "connection_creation_rate"


@pytest.fixture
def eligible_leader_replicas(request: pytest.FixtureRequest) -> bool:
    """Whether there are those of KIP-966: not in a cluster on ZooKeeper."""
    return str(request.config.getoption("--against")) != "cluster"


def configs(bootstrap_servers: str, *arguments: str) -> str:
    return tool("configs", bootstrap_servers, *arguments)


def shown(bootstrap_servers: str, line: str, *entity: str) -> str:
    """What describes the entity, once it has `line`."""
    return wait_until(
        lambda: printed if line in (printed := configs(bootstrap_servers, *entity, "--describe")) else ""
    )


@pytest.mark.capability("configs")
def test_settings_of_a_group_are_set_shown_and_removed(bootstrap_servers: str, name: str) -> None:
    entity = ("--entity-type", "groups", "--entity-name", name)
    timeout, level = "consumer.session.timeout.ms", "share.isolation.level"
    configs(bootstrap_servers, *entity, "--alter", "--add-config", f"{timeout}=50000,{level}=read_committed")
    printed = shown(bootstrap_servers, f"  {timeout}=50000 ", *entity)
    assert (
        f"  {timeout}=50000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{timeout}=50000, "
        f"DEFAULT_CONFIG:group.{timeout}=45000}}"
    ) in printed
    assert f"  {level}=read_committed sensitive=false" in printed
    everything, named = tools(
        bootstrap_servers,
        ["configs", "--describe", "--all", *entity],
        ["configs", "--describe", "--entity-type", "groups"],
    )
    assert "  streams.heartbeat.interval.ms=5000 sensitive=false" in everything
    assert f"Dynamic configs for group {name} are:" in named
    configs(bootstrap_servers, *entity, "--alter", "--delete-config", f"{timeout},{level}")
    wait_until(lambda: timeout not in configs(bootstrap_servers, *entity, "--describe"))
    with pytest.raises(ToolError, match=f"{timeout} must be greater than or equal to"):
        configs(bootstrap_servers, *entity, "--alter", "--add-config", f"{timeout}=1")


@pytest.mark.capability("configs")
def test_subscriptions_to_client_metrics_are_made_listed_and_deleted(
    bootstrap_servers: str, name: str
) -> None:
    def client_metrics(*arguments: str) -> str:
        return tool("client-metrics", bootstrap_servers, *arguments)

    client_metrics(
        "--alter",
        "--name",
        name,
        "--metrics",
        "org.apache.kafka.",
        "--interval",
        "10000",
        "--match",
        "client_id=x",
    )
    wait_until(lambda: name in client_metrics("--list").splitlines())
    printed = shown(
        bootstrap_servers, "interval.ms", "--entity-type", "client-metrics", "--entity-name", name
    )
    assert (
        "  interval.ms=10000 sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:interval.ms=10000}"
        in printed
    )
    assert "  match=client_id=x sensitive=false" in printed
    assert "  metrics=org.apache.kafka.\n" in client_metrics("--describe", "--name", name)
    client_metrics("--delete", "--name", name)
    wait_until(lambda: name not in client_metrics("--list").splitlines())
    with pytest.raises(ToolError, match="interval must be between 100 and 3600000"):
        client_metrics("--alter", "--name", name, "--interval", "1")


@pytest.mark.capability("configs")
def test_levels_of_loggers_are_shown_changed_and_reset(bootstrap_servers: str) -> None:
    entity = ("--entity-type", "broker-loggers", "--entity-name", "1")
    printed = configs(bootstrap_servers, *entity, "--describe")
    names = [line.strip().partition("=")[0] for line in printed.splitlines()[1:]]
    assert "root" in names
    logger = next(name for name in names if name != "root")
    configs(bootstrap_servers, *entity, "--alter", "--add-config", f"{logger}=TRACE")
    assert f"  {logger}=TRACE sensitive=false synonyms={{}}" in configs(
        bootstrap_servers, *entity, "--describe"
    )
    configs(bootstrap_servers, *entity, "--alter", "--delete-config", logger)
    assert f"  {logger}=TRACE " not in configs(bootstrap_servers, *entity, "--describe")
    with pytest.raises(ToolError, match="is not a supported log level"):
        configs(bootstrap_servers, *entity, "--alter", "--add-config", f"{logger}=LOUD")
    with pytest.raises(ToolError, match=r"Invalid broker logger\(s\): no\.such\.logger"):
        configs(bootstrap_servers, *entity, "--alter", "--add-config", "no.such.logger=INFO")


@pytest.mark.capability("configs")
def test_broker_settings_of_any_name_are_set_and_shown_without_their_values(bootstrap_servers: str) -> None:
    listener = "listener.name.plaintext.max.connections"
    configs(bootstrap_servers, *NODE, "--alter", "--add-config", f"custom.key=secret,{listener}=1000")
    printed = shown(bootstrap_servers, "custom.key", *NODE)
    assert "  custom.key=null sensitive=true synonyms={DYNAMIC_BROKER_CONFIG:custom.key=null}" in printed
    assert f"  {listener}=1000 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{listener}=1000, " in printed
    configs(bootstrap_servers, *NODE, "--alter", "--delete-config", f"custom.key,{listener}")
    wait_until(lambda: "custom.key" not in configs(bootstrap_servers, *NODE, "--describe"))


@pytest.mark.capability("configs")
def test_min_insync_replicas_is_a_default_of_all_brokers(
    bootstrap_servers: str, make_topic: MakeTopic, eligible_leader_replicas: bool
) -> None:
    if not eligible_leader_replicas:
        pytest.skip("a cluster on ZooKeeper has no eligible leader replicas")
    name = "min.insync.replicas"
    line = f"  {name}=1 sensitive=false synonyms={{DYNAMIC_DEFAULT_BROKER_CONFIG:{name}=1"
    everyone, topic = tools(
        bootstrap_servers,
        ["configs", *ALL, "--describe"],
        ["configs", "--entity-type", "topics", "--entity-name", make_topic(), "--describe", "--all"],
    )
    assert f"{line}}}" in everyone
    assert f"{line}, DEFAULT_CONFIG:{name}=1}}" in topic
    with pytest.raises(ToolError, match=f"Broker-level {name} cannot be altered while ELR is enabled"):
        configs(bootstrap_servers, *NODE, "--alter", "--add-config", f"{name}=2")


@pytest.mark.capability("configs")
def test_quotas_of_users_clients_and_addresses_are_set_shown_and_removed(
    bootstrap_servers: str, name: str
) -> None:
    rate, percentage = "consumer_byte_rate", "request_percentage"
    user, address = ("--entity-type", "users", "--entity-name", name), ("--entity-type", "ips")
    clients = (*user, "--entity-type", "clients", "--entity-default")
    tools(
        bootstrap_servers,
        ["configs", *user, "--alter", "--add-config", f"{rate}=1000000,{percentage}=12.5"],
        ["configs", *clients, "--alter", "--add-config", f"{rate}=2000000"],
        ["configs", *address, "--entity-name", "192.0.2.1", "--alter", "--add-config", f"{CONNECTIONS}=500"],
    )
    shown(bootstrap_servers, f"Quota configs for ip '192.0.2.1' are {CONNECTIONS}=500.0", *address)
    line = f"Quota configs for user-principal '{name}', the default client-id are {rate}=2000000.0"
    shown(bootstrap_servers, line, *clients)
    printed = shown(bootstrap_servers, f"Quota configs for user-principal '{name}' are ", *user)
    assert f"{rate}=1000000.0" in printed
    assert f"{percentage}=12.5" in printed
    configs(bootstrap_servers, *user, "--alter", "--delete-config", f"{rate},{percentage}")
    wait_until(lambda: "Quota" not in configs(bootstrap_servers, *user, "--describe"))
    with pytest.raises(ToolError, match=f"Quota {rate} must be greater than 0"):
        configs(bootstrap_servers, *user, "--alter", "--add-config", f"{rate}=-1")


@pytest.mark.capability("configs")
def test_a_throttled_reassignment_sets_rates_and_takes_them_back(
    bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    partitions = [{"topic": topic, "partition": number, "replicas": [1]} for number in range(2)]
    plan = write_json(tmp_path / "plan.json", {"version": 1, "partitions": partitions})

    def reassign(*arguments: str) -> str:
        return tool("reassign-partitions", bootstrap_servers, "--reassignment-json-file", plan, *arguments)

    told = reassign("--execute", "--throttle", "5000000")
    assert "The inter-broker throttle limit was set to 5000000 B/s" in told
    assert "Successfully started partition reassignments" in told
    printed = shown(bootstrap_servers, "leader.replication.throttled.rate=5000000", *NODE)
    assert "  follower.replication.throttled.rate=5000000 sensitive=false" in printed
    told = wait_until(lambda: printed if "is completed" in (printed := reassign("--verify")) else "")
    assert re.search("Clearing broker-level throttles on brokers? 1", told)
    wait_until(lambda: "throttled" not in configs(bootstrap_servers, *NODE, "--describe"))


@pytest.mark.capability("errors")
def test_there_is_no_access_control(bootstrap_servers: str) -> None:
    rule = ("--allow-principal", "User:a", "--operation", "Read", "--topic", "t")
    for arguments in (("--list",), ("--add", *rule)):
        with pytest.raises(ToolError, match="SecurityDisabledException: No Authorizer is configured"):
            tool("acls", bootstrap_servers, *arguments)


@pytest.mark.capability("cluster")
def test_an_election_is_not_needed(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic = make_topic()

    def elect(*arguments: str) -> str:
        return tool("leader-election", bootstrap_servers, *arguments)

    elect("--election-type", "preferred", "--all-topic-partitions")
    for kind in ("preferred", "unclean"):
        told = elect("--election-type", kind, "--topic", topic, "--partition", "0")
        assert f"Valid replica already elected for partitions {topic}-0" in told
    # The words of a controller with KRaft, and of one with ZooKeeper.
    refused = r"UnknownTopicOrPartitionException: (No such partition|The partition does not exist)"
    with pytest.raises(ToolError, match=refused):
        elect("--election-type", "unclean", "--topic", topic, "--partition", "9")


@pytest.mark.capability("cluster")
def test_the_features_of_what_is_served_are_those_of_the_release(
    bootstrap_servers: str, eligible_leader_replicas: bool
) -> None:
    features = {
        words[words.index("Feature:") + 1]: words[words.index("Feature:") + 2 :]
        for line in tool("features", bootstrap_servers, "describe").splitlines()
        if "Feature:" in (words := line.split())
    }
    wanted = {"metadata.version": ("3.3-IV3", "4.3-IV0", "4.3-IV0")}
    if eligible_leader_replicas:
        wanted["eligible.leader.replicas.version"] = ("0", "1", "1")
    for name, levels in wanted.items():
        lowest, highest, finalized = features[name][1], features[name][3], features[name][5]
        assert (lowest, highest, finalized) == levels
    assert eligible_leader_replicas or "eligible.leader.replicas.version" not in features
