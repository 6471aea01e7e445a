"""The replicas of a broker, and the parts that work on their logs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from kafkapy.broker.data import Data
from kafkapy.broker.start import Start
from kafkapy.broker.workers import Workers
from kafkapy.loop.latency_sample import LatencySample
from kafkapy.replicas.group_commit import GroupCommit
from kafkapy.replicas.housekeeping import Housekeeping
from kafkapy.replicas.log_cleaner import LogCleaner
from kafkapy.replicas.log_mover import LogMover
from kafkapy.replicas.log_start_saves import LogStartSaves
from kafkapy.replicas.replica_manager import ReplicaManager
from kafkapy.replicas.replication_quota import QuotaParts, ReplicationQuotas
from kafkapy.replicas.sole_roles import SoleRoles
from kafkapy.replicas.topic_traffic import Traffic
from kafkapy.replicas.write_gate import WriteGate


class Replication(NamedTuple):
    """The replicas, and the parts that sync, move and save for them."""

    replicas: ReplicaManager
    group_commit: GroupCommit
    log_mover: LogMover
    log_starts: LogStartSaves
    write_gate: WriteGate
    sole: SoleRoles | None
    """What gives a broker alone its roles; in a cluster, the controller does."""


def make_replication(start: Start, workers: Workers, data: Data) -> Replication:
    """Make the replicas, which open their logs when the metadata gives them their roles."""
    config, metadata, started, logs = start.config, start.metadata, start.started, data.logs
    durable = config["durability"] == "fsync"
    group_commit = GroupCommit(start.machine.flush_threads)
    has_metrics = config["metrics.port"] is not None
    if has_metrics:
        group_commit.times = LatencySample(asyncio.get_running_loop().time())
    started.callback(group_commit.close)
    if durable:
        for directory in logs.directories:
            group_commit.start(directory)
    mover = LogMover(
        logs,
        workers.threads.blocking,
        config["num.replica.alter.log.dirs.threads"] or len(logs.directories),
        lambda: config["replica.alter.log.dirs.io.max.bytes.per.second"],
    )

    def topic_configs(topic: str) -> Mapping[str, str]:
        found = metadata.image.topics.get(topic)
        return {} if found is None else found.configs

    now = asyncio.get_running_loop().time
    replicas = ReplicaManager(
        logs,
        group_commit,
        blocking=workers.threads.blocking,
        mover=mover,
        waiters=workers.waiters,
        node_id=data.node_id,
        defaults=config.topic_defaults(),
        sync=durable,
        quotas=ReplicationQuotas(
            config["replication.quota.window.num"],
            config["replication.quota.window.size.seconds"],
            QuotaParts(config.__getitem__, topic_configs, now, data.node_id),
        ),
        traffic=Traffic() if has_metrics else None,
    )
    write_gate = WriteGate()
    started.callback(write_gate.close)

    async def close_replicas() -> None:
        await group_commit.drain()
        replicas.close()

    started.push_async_callback(close_replicas)
    started.push_async_callback(mover.stop)
    log_starts = LogStartSaves(logs, workers.threads.blocking)
    sole = None if config.clustered else SoleRoles(replicas, mover, node_id=data.node_id, now=now)
    return Replication(replicas, group_commit, mover, log_starts, write_gate, sole)


def start_upkeep(start: Start, workers: Workers, data: Data, replication: Replication) -> LogCleaner:
    """Start the log cleaner, which is returned, and the housekeeping."""
    cleaner = LogCleaner(
        config=start.config,
        clock=start.machine.clock,
        logs=data.logs,
        replicas=replication.replicas,
        group_commit=replication.group_commit,
        new_pool=start.machine.pool,
        provide=workers.cold_reads.provide,
    )
    cleaner.start()
    start.started.push_async_callback(cleaner.stop)
    housekeeping = Housekeeping(
        config=start.config,
        clock=start.machine.clock,
        logs=data.logs,
        replicas=replication.replicas,
        metadata=start.metadata,
        turns=workers.turns,
        blocking=workers.threads.blocking,
        provide=workers.cold_reads.provide,
        sole=replication.sole,
    )
    housekeeping.start()
    start.started.push_async_callback(housekeeping.stop)
    return cleaner
