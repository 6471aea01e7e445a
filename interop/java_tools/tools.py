"""Runs Apache Kafka's tools by the names of their scripts, without `kafka-` and `.sh`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from interop.support.kafka_jars import java_command
from interop.support.records import Headers, Received, Record

MAIN_CLASSES = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
}


class ToolError(Exception):
    """A tool failed; the message is its output."""


def command(name: str, bootstrap_servers: str, *arguments: str) -> list[str]:
    server = ["--bootstrap-server", bootstrap_servers]
    # These want the server before their subcommand.
    words = [*server, *arguments] if name in ("features", "transactions") else [*arguments, *server]
    return [*java_command(), MAIN_CLASSES[name], *words]


def tool(name: str, bootstrap_servers: str, *arguments: str, stdin: bytes = b"") -> str:
    """Run a tool, and return its standard output."""
    run = subprocess.run(
        command(name, bootstrap_servers, *arguments),
        input=stdin,
        capture_output=True,
        check=False,
        timeout=120,
    )
    if run.returncode:
        raise ToolError((run.stdout + run.stderr).decode(errors="replace"))
    return run.stdout.decode()


def tools(bootstrap_servers: str, *calls: Sequence[str]) -> list[str]:
    """Several calls at once, each a tool's name and its arguments: a Java start takes a second."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda call: tool(call[0], bootstrap_servers, *call[1:]), calls))


def write_json(path: Path, content: Any) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def produce(bootstrap_servers: str, topic: str, records: Sequence[Record], *properties: str) -> None:
    """Send text records; the console producer sets the time itself."""
    arguments = ["--topic", topic, "--reader-property", "parse.key=true"]
    arguments += ["--reader-property", "parse.headers=true", "--reader-property", "null.marker=NULL"]
    for each in properties:
        arguments += ["--command-property", each]
    stdin = b"".join(map(_line, records))
    tool("console-producer", bootstrap_servers, *arguments, stdin=stdin)


def consume(bootstrap_servers: str, topic: str, count: int, *arguments: str) -> list[Received]:
    """Read `count` records with the console consumer, from the beginning of the topic."""
    wanted = ["timestamp", "partition", "offset", "headers", "key"]
    properties = [f"print.{name}=true" for name in wanted] + ["null.literal=NULL"]
    given = [part for each in properties for part in ("--formatter-property", each)]
    limits = ["--topic", topic, "--from-beginning", "--max-messages", str(count), "--timeout-ms", "30000"]
    printed = tool("console-consumer", bootstrap_servers, *limits, *given, *arguments)
    return [_parse(line) for line in printed.splitlines()]


def _line(record: Record) -> bytes:
    headers = b",".join(name.encode() + b":" + (value or b"") for name, value in record.headers)
    return b"\t".join((headers or b"NULL", _or_null(record.key), _or_null(record.value))) + b"\n"


def _or_null(text: bytes | None) -> bytes:
    return b"NULL" if text is None else text


def _parse(line: str) -> Received:
    stamp, partition, offset, headers, key, value = line.split("\t")
    return Received(
        int(partition.removeprefix("Partition:")),
        int(offset.removeprefix("Offset:")),
        Record(_unless_null(key), _unless_null(value), _headers(headers), int(stamp.partition(":")[2])),
    )


def _headers(text: str) -> Headers:
    if text == "NO_HEADERS":
        return ()
    pairs = (pair.partition(":") for pair in text.split(","))
    return tuple((name, value.encode()) for name, _, value in pairs)


def _unless_null(text: str) -> bytes | None:
    return None if text == "NULL" else text.encode()
