"""`kafkapy mcp`: the SDK's own client asks for the views of a cluster."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from mcp import Client, StdioServerParameters

from kafkapy import Broker
from kafkapy.commands.agent_tools import AgentTools
from kafkapy.commands.decoding.decoder import Decoder
from kafkapy.commands.mcp import server
from kafkapy.commands.options import Session
from kafkapy.commands.output import Output

_VIEWS = {
    "describe_cluster",
    "list_topics",
    "describe_topic",
    "read_records",
    "list_groups",
    "describe_group",
    "list_transactions",
    "describe_configs",
    "watch_activity",
}
_CHANGES = {"produce_record", "create_topic", "reset_offsets"}


class Agent:
    """A client of the SDK, in the process of the server."""

    def __init__(self, broker: Broker, *, allow_changes: bool) -> None:
        self._broker, self._allow_changes = broker, allow_changes

    def asks(self, tool: str, **arguments: Any) -> Any:
        """The answer of a tool; fails with the text of its error."""
        result = self._run(lambda client: client.call_tool(tool, arguments))
        assert not result.is_error, result.content[0].text
        return result.structured_content

    def is_told(self, tool: str, **arguments: Any) -> str:
        """The text of a tool's error."""
        result = self._run(lambda client: client.call_tool(tool, arguments))
        assert result.is_error
        return str(result.content[0].text)

    def tools(self) -> dict[str, Any]:
        found = self._run(lambda client: client.list_tools())
        return {tool.name: tool for tool in found.tools}

    def _run(self, ask: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        async def run() -> Any:
            with ExitStack() as stack:
                properties = {"bootstrap.servers": self._broker.bootstrap_servers}
                tools = AgentTools(Session(properties, 10, Output("json"), stack), Decoder(None))
                async with Client(server(tools, allow_changes=self._allow_changes)) as client:
                    return await ask(client)

        return asyncio.run(run())


@pytest.fixture
def reader(broker: Broker) -> Agent:
    return Agent(broker, allow_changes=False)


@pytest.fixture
def writer(broker: Broker) -> Agent:
    return Agent(broker, allow_changes=True)


def committed(broker: Broker, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_an_agent_cannot_change_anything_by_default(reader: Agent, writer: Agent) -> None:
    tools = reader.tools()
    assert set(tools) == _VIEWS
    assert all(tool.annotations.read_only_hint for tool in tools.values())
    tools = writer.tools()
    assert set(tools) == _VIEWS | _CHANGES
    assert [name for name, tool in tools.items() if tool.annotations.destructive_hint] == ["reset_offsets"]
    assert "Unknown tool" in reader.is_told("produce_record", topic="orders", value="x")


def test_records_are_read_decoded_and_filtered(reader: Agent, broker: Broker) -> None:
    broker.create_topics({"read": 1})
    for number in range(30):
        broker.produce("read", key=f"k{number}", value=json.dumps({"n": number}), headers=[("trace", "7")])
    last = reader.asks("read_records", topic="read", limit=2)
    assert [record["value"] for record in last["records"]] == [{"n": 28}, {"n": 29}]
    assert last["records"][0]["headers"] == {"trace": "7"}
    first = reader.asks("read_records", topic="read", start="earliest", limit=3)
    assert [record["offset"] for record in first["records"]] == [0, 1, 2]
    assert not first["all_were_read"]
    found = reader.asks("read_records", topic="read", start="3", where=["n<=4"], key="^k")
    assert [record["offset"] for record in found["records"]] == [3, 4]
    assert found["all_were_read"]


def test_answers_are_bounded(reader: Agent, broker: Broker) -> None:
    broker.create_topics({"long": 1})
    for _ in range(120):
        broker.produce("long", value="x" * 50_000)
    found = reader.asks("read_records", topic="long", limit=1000, start="earliest")
    assert len(found["records"]) == 100
    assert found["records"][0]["value"] == "x" * 2000 + "… (50,000 characters)"
    found = reader.asks("read_records", topic="long", limit=100, start="earliest", max_chars=10**9)
    assert len(json.dumps(found)) < 300_000
    assert not found["all_were_read"]


def test_topics_groups_and_their_lag_are_shown(reader: Agent, broker: Broker) -> None:
    broker.create_topics({"seen": 1})
    for _ in range(5):
        broker.produce("seen", value="x")
    committed(broker, "looking", "seen", 2)
    (row,) = reader.asks("list_topics", match="seen")["topics"]
    assert row == {"topic": "seen", "partitions": 1, "offsets": 5}
    topic = reader.asks("describe_topic", topic="seen")
    assert (topic["groups"], topic["partitions"][0]["end_offset"]) == (["looking"], 5)
    (group,) = reader.asks("list_groups", match="looking")["groups"]
    assert (group["state"], group["lag"]) == ("Empty", 3)
    group = reader.asks("describe_group", group="looking")
    assert group["offsets"] == [{"topic": "seen", "partition": 0, "committed": 2, "end": 5, "lag": 3}]
    cluster = reader.asks("describe_cluster")
    assert (len(cluster["brokers"]), cluster["under_replicated_partitions"]) == (1, 0)
    (log_dir,) = cluster["log_dirs"]
    assert (log_dir["broker"], log_dir["state"]) == (1, "online")
    assert log_dir["replicas"] >= 1
    assert log_dir["bytes"] > 0
    busy = reader.asks("watch_activity", seconds=0.1)
    assert "looking" in {row["group"] for row in busy["groups"]}


def test_transactions_are_shown_with_where_they_are_open(reader: Agent, broker: Broker) -> None:
    broker.create_topics({"paid": 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "transfer-1"})
    producer.init_transactions()
    (row,) = reader.asks("list_transactions", match="transfer-*")["transactions"]
    assert row == {"transactional_id": "transfer-1", "coordinator": 1, "producer_id": 0, "state": "Empty"}
    producer.begin_transaction()
    producer.produce("paid", "17")
    producer.flush()
    found = reader.asks("list_transactions", open_only=True)
    (row,) = [each for each in found["transactions"] if each["transactional_id"] == "transfer-1"]
    assert (row["state"], row["partitions"], row["partitions_left_out"]) == ("Ongoing", ["paid:0"], 0)
    assert row["started"]
    producer.abort_transaction()
    assert "transfer-1" not in str(reader.asks("list_transactions", open_only=True))


def test_no_secret_is_shown() -> None:
    secret = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="open sesame";'
    config = {"listener.name.plaintext.plain.sasl.jaas.config": secret, "ssl.key.password": "open sesame"}
    with Broker(config=config) as broker:
        agent = Agent(broker, allow_changes=False)
        found = agent.asks("describe_configs", kind="broker", name="1", all_settings=True)
        assert found["configs"]["ssl.key.password"] == "(hidden)"
        assert "sesame" not in json.dumps(found)


def test_headers_are_bounded(reader: Agent, broker: Broker) -> None:
    broker.create_topics({"headed": 1})
    broker.produce("headed", value="x", headers=[("n" * 500_000, b"")])
    broker.produce("headed", value="x", headers=[(str(number), b"x") for number in range(1000)])
    found = reader.asks("read_records", topic="headed")
    assert len(json.dumps(found)) < 20_000
    assert found["records"][1]["headers_left_out"] == 800


@pytest.mark.parametrize(
    "value",
    [
        '{"half": "\\ud800"}',
        '{"\\udfff": 1}',
        "[" * 400 + "]" * 400,
        '{"a": ' * 300 + "1" + "}" * 300,
        "[" * 100_000,
        '{"n": NaN, "i": 1e999, "long": ' + "1" * 4000 + "}",
        "[" + "1" * 5000 + "]",
    ],
)
def test_no_record_keeps_others_from_being_read(reader: Agent, broker: Broker, value: str) -> None:
    broker.produce("wild", value=value)
    broker.produce("wild", value="after")
    found = reader.asks("read_records", topic="wild", limit=2, max_chars=10_000)
    assert found["records"][-1]["value"] == "after"
    assert len(found["records"]) == 2


def test_numbers_that_kafka_cannot_have_are_told_to_the_agent(writer: Agent, broker: Broker) -> None:
    broker.create_topics({"counted": 1})
    for start in ("²", "9" * 25, "9" * 5000):
        assert "expected a time" in writer.is_told("read_records", topic="counted", start=start)
    assert "expected 1,000,000 at most" in writer.is_told("create_topic", topic="x", partitions=10**20)
    assert "expected the id of a broker" in writer.is_told("describe_configs", kind="broker", name="x")
    committed(broker, "counting", "counted", 0)
    for to in ("²", "+²", "9" * 30):
        assert "expected a time" in writer.is_told("reset_offsets", group="counting", to=to)


def test_what_is_wrong_is_told_to_the_agent(reader: Agent, writer: Agent) -> None:
    assert "there is no topic nothing" in reader.is_told("read_records", topic="nothing")
    assert "there is no group nobody" in reader.is_told("describe_group", group="nobody")
    assert "expected topic, broker or group" in reader.is_told("describe_configs", kind="x", name="y")
    assert "there is no topic nothing" in writer.is_told("produce_record", topic="nothing", value="x")


def test_an_agent_that_may_creates_writes_and_resets(writer: Agent, broker: Broker) -> None:
    configs = {"retention.ms": "1d"}
    tried = writer.asks("create_topic", topic="made", partitions=1, configs=configs, dry_run=True)
    assert tried["result"] == "would be created"
    assert writer.asks("create_topic", topic="made", partitions=1, configs=configs)["result"] == "created"
    assert writer.asks("describe_topic", topic="made")["configs"]["retention.ms"] == "86400000"
    writer.asks("produce_record", topic="made", value="two apples", key="k", headers={"h": "1"})
    writer.asks("produce_record", topic="made", value=None, key="k")
    first, second = broker.topic("made").records(2)
    assert (first.value, first.key, second.value) == (b"two apples", b"k", None)
    committed(broker, "resetting", "made", 2)
    tried = writer.asks("reset_offsets", group="resetting", to="-1", topic="made")
    assert (tried["offsets"][0]["before"], tried["offsets"][0]["after"], tried["changed"]) == (2, 1, False)
    assert writer.asks("describe_group", group="resetting")["lag"] == 0
    assert writer.asks("reset_offsets", group="resetting", to="earliest", dry_run=False)["changed"]
    assert writer.asks("describe_group", group="resetting")["lag"] == 2


def test_it_speaks_on_standard_input_and_output(broker: Broker) -> None:
    arguments = ["-m", "kafkapy", "mcp", "--bootstrap-server", broker.bootstrap_servers]
    command = StdioServerParameters(
        command=sys.executable, args=arguments, cwd=str(Path(__file__).resolve().parents[2])
    )

    async def run() -> tuple[set[str], Any]:
        async with Client(command) as client:
            tools = await client.list_tools()
            answer = await client.call_tool("describe_cluster", {})
            return {tool.name for tool in tools.tools}, answer.structured_content

    tools, answer = asyncio.run(run())
    assert tools == _VIEWS
    assert answer["brokers"][0]["broker"] == 1
