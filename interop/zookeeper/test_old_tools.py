"""Kafka 2.8.2's tools with --zookeeper write the tree themselves: the brokers obey."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import java_command, kafka_jars
from interop.zookeeper.conftest import StartBroker

RELEASE = "2.8.2"
"""The last release whose tools take --zookeeper for topics."""


@pytest.fixture(scope="module", autouse=True)
def jars() -> None:
    with skipped_without_jars():
        kafka_jars(RELEASE)


async def run(tool: str, connect: str, *arguments: str) -> str:
    command = [*java_command(RELEASE), f"kafka.admin.{tool}", "--zookeeper", connect, *arguments]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def test_topics_are_created_grown_changed_and_deleted(start_broker: StartBroker, connect: str) -> None:
    broker = await start_broker(1)
    create = ("--create", "--topic", "t", "--partitions", "2", "--replication-factor", "1")
    await run("TopicCommand", connect, *create, "--config", "retention.ms=5000")
    await broker.until(lambda image: "t" in image.topics and not image.unfinished)
    topic = broker.image.topics["t"]
    assert any(topic.id)
    assert topic.configs == {"retention.ms": "5000"}
    assert [state[:4] for state in topic.partitions] == [(1, 0, (1,), (1,))] * 2
    await run("TopicCommand", connect, "--alter", "--topic", "t", "--partitions", "3")
    await broker.until(lambda image: len(image.topics["t"].partitions) == 3 and not image.unfinished)
    entity = ("--entity-type", "topics", "--entity-name", "t")
    await run("ConfigCommand", connect, "--alter", *entity, "--add-config", "segment.ms=60000")
    await broker.until(lambda image: image.topics["t"].configs.get("segment.ms") == "60000")
    assert "Leader: 1" in await run("TopicCommand", connect, "--describe", "--topic", "t")
    await run("TopicCommand", connect, "--delete", "--topic", "t")
    await broker.until(lambda image: not image.topics)
    assert await broker.store.children("/brokers/topics") == []


async def test_quotas_are_changed(start_broker: StartBroker, connect: str) -> None:
    broker = await start_broker(1)
    users = ("--entity-type", "users", "--entity-name", "some one")
    await run("ConfigCommand", connect, "--alter", *users, "--add-config", "producer_byte_rate=1024")
    await broker.until(lambda image: (("user", "some one"),) in image.client_quotas.configs)
    assert broker.image.client_quotas.configs[(("user", "some one"),)] == {"producer_byte_rate": "1024"}
