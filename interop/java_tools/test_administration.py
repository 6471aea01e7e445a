"""Java's tools for administration, from kafka-topics to kafka-log-dirs.

The others are kafka-configs, kafka-consumer-groups, kafka-get-offsets, kafka-delete-records and their kin.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from interop.confluent_kafka import client as confluent
from interop.conftest import MakeTopic
from interop.java_tools.tools import ToolError, consume, tool, tools, write_json
from interop.support.records import Record, check_one_partition, text_records
from interop.support.waiting import wait_until


def table(printed: str) -> list[dict[str, str]]:
    """Rows of a tool's table by the words of its heading."""
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    (start,) = [n for n, words in enumerate(lines) if words[0] == "GROUP"]
    return [dict(zip(lines[start], words, strict=False)) for words in lines[start + 1 :]]


def ids(bootstrap_servers: str) -> list[str]:
    """Those of the brokers, which count from 1."""
    return [str(number) for number, _ in enumerate(bootstrap_servers.split(","), 1)]


@pytest.mark.capability("topics")
def test_topics_are_created_described_grown_and_deleted(bootstrap_servers: str, name: str) -> None:
    def topics(*arguments: str) -> str:
        return tool("topics", bootstrap_servers, *arguments)

    settings = ["--config", "retention.ms=9000", "--config", "cleanup.policy=compact"]
    printed = topics("--create", "--topic", name, "--partitions", "3", *settings)
    assert printed.strip() == f"Created topic {name}."
    head, *partitions = wait_until(
        lambda: topics("--describe", "--topic", name).splitlines(), ignoring=ToolError
    )
    brokers = sorted(ids(bootstrap_servers))
    assert f"PartitionCount: 3\tReplicationFactor: {len(brokers)}\t" in head
    assert {"retention.ms=9000", "cleanup.policy=compact"} <= set(head.partition("Configs: ")[2].split(","))
    assert [re.search(r"Partition: (\d)", line)[1] for line in partitions] == ["0", "1", "2"]  # type: ignore[index]
    for line in partitions:
        leader, replicas, isr = re.search(r"Leader: (\d)\tReplicas: ([\d,]+)\tIsr: ([\d,]+)\t", line).groups()  # type: ignore[union-attr]
        assert leader == replicas[0]
        assert sorted(replicas.split(",")) == sorted(isr.split(",")) == brokers

    topics("--alter", "--topic", name, "--partitions", "5")
    wait_until(lambda: "PartitionCount: 5" in topics("--describe", "--topic", name))
    with pytest.raises(ToolError, match=r"currently has 5 partition\(s\)"):
        topics("--alter", "--topic", name, "--partitions", "2")

    topics("--delete", "--topic", name)
    wait_until(lambda: name not in topics("--list").splitlines())


@pytest.mark.capability("errors")
def test_what_cannot_be_created_says_why(bootstrap_servers: str, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic()
    for arguments, words in (
        (["--topic", topic], f"Topic '{topic}' already exists"),
        (["--topic", "a/b"], "InvalidTopicException"),
        (["--topic", name, "--replication-factor", "4"], "InvalidReplicationFactorException"),
    ):
        with pytest.raises(ToolError, match=words):
            tool("topics", bootstrap_servers, "--create", *arguments)
    with pytest.raises(ToolError, match="does not exist as expected"):
        tool("topics", bootstrap_servers, "--describe", "--topic", name)


@pytest.mark.capability("configs")
def test_configs_are_described_altered_and_reset(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="123456")
    entity = ["--entity-type", "topics", "--entity-name", topic]

    def configs(*arguments: str) -> str:
        return tool("configs", bootstrap_servers, *entity, *arguments)

    assert "retention.ms=123456 sensitive=false" in configs("--describe")
    everything = configs("--describe", "--all")
    assert re.search(
        r"segment.bytes=1073741824 sensitive=false synonyms=\{DEFAULT_CONFIG:log.segment.bytes=1073741824\}",
        everything,
    )
    assert "synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=123456" in everything
    configs("--alter", "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]")
    described = wait_until(
        lambda: printed if "retention.ms=5000" in (printed := configs("--describe")) else ""
    )
    assert "cleanup.policy=compact,delete" in described
    configs("--alter", "--delete-config", "retention.ms")
    wait_until(lambda: "retention.ms" not in configs("--describe"))
    with pytest.raises(ToolError, match=r"Invalid value soon for configuration retention\.ms"):
        configs("--alter", "--add-config", "retention.ms=soon")


@pytest.mark.capability("cluster")
def test_brokers_tell_their_versions_configs_and_log_dirs(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    confluent.produce(bootstrap_servers, topic, text_records(10), partition=1)
    versions, configs, log_dirs, cluster = tools(
        bootstrap_servers,
        ["broker-api-versions"],
        ["configs", "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all"],
        ["log-dirs", "--describe", "--topic-list", topic],
        ["cluster", "cluster-id"],
    )
    told = re.findall(r"^(\S+) \(id: (\d) rack: null", versions, re.MULTILINE)
    assert sorted(told) == sorted(zip(bootstrap_servers.split(","), ids(bootstrap_servers), strict=True))
    for api in (
        "Produce",
        "Fetch",
        "ListOffsets",
        "Metadata",
        "JoinGroup",
        "CreateTopics",
        "DescribeConfigs",
    ):
        assert re.search(rf"\t{api}\(\d+\): \d+ to \d+ \[usable: \d+\]", versions), api
    assert "log.segment.bytes=1073741824 sensitive=false" in configs
    (line,) = [line for line in log_dirs.splitlines() if line.startswith("{")]
    brokers = json.loads(line)["brokers"]
    assert sorted(str(broker["broker"]) for broker in brokers) == ids(bootstrap_servers)
    for broker in brokers:
        sizes = {
            partition["partition"]: partition["size"]
            for log_dir in broker["logDirs"]
            for partition in log_dir["partitions"]
        }
        assert sizes[f"{topic}-0"] == 0
        assert sizes[f"{topic}-1"] > 500
    assert re.fullmatch(r"Cluster ID: [\w-]{22}", cluster.strip())


@pytest.mark.capability("positions")
@pytest.mark.capability("delete records")
def test_offsets_are_told_and_records_deleted(
    bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    sent = [Record(None, b"%d" % n, (), 1_700_000_000_000 + 1_000 * n) for n in range(100)]
    confluent.produce(bootstrap_servers, topic, sent, partition=0)

    def offsets(*times: str) -> list[str]:
        calls = [["get-offsets", "--topic", topic, "--time", time] for time in times]
        return tools(bootstrap_servers, *calls)

    assert offsets("latest", "earliest", "max-timestamp", "1700000042500") == [
        f"{topic}:0:100\n{topic}:1:0\n",
        f"{topic}:0:0\n{topic}:1:0\n",
        f"{topic}:0:99\n",
        f"{topic}:0:43\n",
    ]
    wanted = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 60}]}
    plan = write_json(tmp_path / "delete.json", wanted)
    printed = tool("delete-records", bootstrap_servers, "--offset-json-file", plan)
    assert f"partition: {topic}-0\tlow_watermark: 60" in printed
    assert offsets("earliest") == [f"{topic}:0:60\n{topic}:1:0\n"]
    received = consume(bootstrap_servers, topic, 40)
    check_one_partition(sent[60:], received, 60)


@pytest.mark.capability("groups")
@pytest.mark.capability("group admin")
def test_groups_are_joined_described_reset_and_deleted(
    bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    topic, sent = make_topic(2), text_records(100)
    told = confluent.produce(bootstrap_servers, topic, sent)
    ends = {str(n): str(sum(each.partition() == n for each in told)) for n in (0, 1)}
    received = consume(bootstrap_servers, topic, 100, "--group", name)
    assert sorted(each.record for each in received) == sorted(sent)

    def groups(*arguments: str) -> str:
        return tool("consumer-groups", bootstrap_servers, *arguments)

    def offsets() -> dict[str, tuple[str, str]]:
        rows = table(groups("--describe", "--group", name))
        return {row["PARTITION"]: (row["CURRENT-OFFSET"], row["LAG"]) for row in rows}

    assert offsets() == {partition: (end, "0") for partition, end in ends.items()}
    listed, state, kinds = tools(
        bootstrap_servers,
        ["consumer-groups", "--list", "--state"],
        ["consumer-groups", "--describe", "--group", name, "--state"],
        ["groups", "--list"],
    )
    assert table(listed)
    assert re.search(rf"^{name} +Empty", listed, re.MULTILINE)
    assert re.search(rf"^{name} .*Empty +0", state, re.MULTILINE)
    assert re.search(rf"^{name} +Classic +consumer", kinds, re.MULTILINE)

    reset = ["--group", name, "--reset-offsets", "--topic", topic, "--execute"]
    groups(*reset, "--to-earliest")
    assert offsets() == {partition: ("0", end) for partition, end in ends.items()}
    groups(*reset, "--shift-by", "5")
    assert {offset for offset, _lag in offsets().values()} == {"5"}
    groups("--group", name, "--delete-offsets", "--topic", f"{topic}:0")
    assert offsets()["1"][0] == "5"
    assert offsets().get("0", ("-", ""))[0] == "-"

    groups("--delete", "--group", name)
    assert name not in groups("--list").splitlines()
    assert "GroupIdNotFoundException" in groups("--delete", "--group", name)
