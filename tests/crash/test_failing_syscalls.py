"""System calls of a running broker fail, by strace.

Nothing acknowledged is lost, no failed sync is tried again, and one log directory goes offline alone.

Needs strace and the permission to trace; skipped with the reason elsewhere.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.load import RECONNECT, LoadError, RecordingProducer, create_topic, random_value, read_pass
from tests.crash.results import note
from tests.promises.checker import check
from tests.promises.history import Acked, History
from tests.servers.kafkapy_process import KafkapyProcess

CALLS = int(os.environ.get("KAFKAPY_FAILED_SYSCALLS", "5"))
"""In all: each with another system call, error and number."""
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
WRITES = "pwritev,pwritev2,pwrite64,write"
SYNCS = "fdatasync,fsync"
ON_LOGS = [
    (calls, fault, kind)
    for calls in (SYNCS, SYNCS, WRITES, WRITES, "ftruncate", "openat", "rename,renameat,renameat2")
    for fault in ("EIO", "ENOSPC", "EINTR")
    for kind in ("once", "from then on")
    if (fault, kind) != ("EINTR", "from then on")  # a call that is always interrupted never ends
]
SECONDS = 1.5


@cache
def why_not() -> str | None:
    """Why this machine cannot trace; None if it can."""
    if shutil.which("strace") is None:
        return "failing system calls need strace, which is not installed"
    probe = ["strace", "-f", "--seccomp-bpf", "-e", "inject=fdatasync:error=EIO:when=1", "true"]
    run = subprocess.run(probe, capture_output=True, text=True, check=False)
    return None if run.returncode == 0 else f"failing system calls need ptrace: {run.stderr.strip()[:200]}"


def tracer(trace: Path, calls: str, error: str, number: int, kind: str, paths: list[Path]) -> list[str]:
    """strace as a grandchild of the broker, which stays this process's child."""
    when = f"{number}+" if kind == "from then on" else str(number)
    inject = f"inject={calls}:error={error}:when={when}"
    watched = f"trace={calls},{SYNCS}"
    selected = [option for path in paths for option in ("-P", str(path))]
    return [
        "strace", "-D", "-f", "-qq", "-ttt", "-y", "-o", str(trace),
        *selected, "-e", watched, "-e", inject,
    ]  # fmt: skip


def log_files(directory: Path) -> list[Path]:
    """What a broker may touch of its logs: the files that are there, and their directories."""
    files = [path for path in directory.glob("topic-*/*") if not path.name.startswith(".")]
    return [directory, *directory.glob("topic-*"), *files, *directory.glob("*-checkpoint*")]


def synced_after_a_failure(trace: Path) -> list[str]:
    """Syncs of the same file after one that failed."""
    failed: set[str] = set()
    again: list[str] = []
    for line in trace.read_text(errors="replace").splitlines():
        found = re.search(r"\b(fdatasync|fsync)\(\d+<([^>]*)>", line)
        if found is None:
            continue
        if found[2] in failed:
            again.append(line)
        if "= -1 EIO" in line or "= -1 ENOSPC" in line:
            failed.add(found[2])
    return again


def first_failure(trace: Path, calls: str) -> float | None:
    """When the first of these calls failed, in seconds since 1970."""
    for line in trace.read_text(errors="replace").splitlines():
        if "(INJECTED)" in line and any(f"{call}(" in line for call in calls.split(",")):
            return float(line.split()[1])
    return None


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_system_calls_of_the_broker_fail(tmp_path: Path) -> None:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    chance = random.Random(SEED)
    chosen = chance.sample(ON_LOGS, min(CALLS, len(ON_LOGS)))
    chosen += [chance.choice(ON_LOGS) for _ in range(CALLS - len(chosen))]
    acknowledged = failed = 0
    for turn, (calls, fault, kind) in enumerate(chosen):
        number = chance.randrange(1, 40 if calls in (SYNCS, WRITES) else 3)
        what = f"{fault} for {calls} number {number}, {kind}"
        try:
            acked, has_failed = _fail_and_judge(tmp_path / str(turn), calls, fault, number, kind)
        except (AssertionError, KafkaException) as error:
            raise AssertionError(f"{what}, KAFKAPY_SEED={SEED}: {error}") from error
        acknowledged += acked
        failed += has_failed
    note("R5", "system calls that fail, by strace", tried=len(chosen), acknowledged=acknowledged, hit=failed)


def _fail_and_judge(folder: Path, calls: str, fault: str, number: int, kind: str) -> tuple[int, bool]:
    folder.mkdir()
    history: History = []
    data, trace = folder / "data", folder / "trace"
    partitions = [("topic", 0), ("topic", 1)]
    chance = random.Random(number)
    with KafkapyProcess(folder) as broker:
        create_topic(broker.bootstrap_servers, "topic", 2, {"segment.bytes": "1048576"})
    prefix = tracer(trace, calls, fault, number, kind, log_files(data))
    with KafkapyProcess(folder, prefix=prefix).killed_at_end() as broker:
        broker.launch()
        producer = RecordingProducer("p", broker.bootstrap_servers, history, idempotent=True)
        deadline = time.monotonic() + 20
        stop_at = float("inf")
        while broker.running and time.monotonic() < min(stop_at, deadline):
            for _ in range(20):
                producer.send(chance.choice(partitions), random_value(chance, 20_000))
            producer.poll()
            if stop_at == float("inf") and producer.last_ack:
                stop_at = time.monotonic() + SECONDS
            time.sleep(0.005)
        producer.poll()
        last_ack = producer.last_ack
        broker.restart_as_itself()
        producer.send(partitions[0], b"the last one")
        producer.flush()
        assert producer.fatal is None, producer.fatal
        read_pass(broker.bootstrap_servers, "reader", dict.fromkeys(partitions, 0), history)
    findings = check(history)
    assert not findings, "\n".join(map(str, findings[:10]))
    assert not (again := synced_after_a_failure(trace)), f"a failed sync was tried again:\n{again[0]}"
    at = first_failure(trace, calls)
    if at is not None and calls == SYNCS and fault == "EIO":
        # A flush that had ended before may still be on its way to the client.
        assert last_ack < at + 0.5, f"acknowledged {last_ack - at:.2f} s after a sync had failed"
    return sum(isinstance(event, Acked) for event in history), at is not None


@pytest.mark.slow
def test_one_log_directory_goes_offline_alone(tmp_path: Path) -> None:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    one, other = tmp_path / "one", tmp_path / "other"
    data = Path(f"{one},{other}")
    history: History = []
    with KafkapyProcess(tmp_path, data=data) as broker:
        create_topic(broker.bootstrap_servers, "topic", 2, {})
    homes = {index: next(d for d in (one, other) if (d / f"topic-{index}").is_dir()) for index in (0, 1)}
    assert homes[0] != homes[1], "two partitions of a new broker share a directory"
    bad = next(index for index, home in homes.items() if home == other)
    trace = tmp_path / "trace"
    prefix = tracer(trace, SYNCS, "EIO", 3, "from then on", log_files(other))
    with KafkapyProcess(tmp_path, data=data, prefix=prefix) as broker:
        healthy = RecordingProducer("healthy", broker.bootstrap_servers, history, idempotent=True)
        doomed = RecordingProducer("doomed", broker.bootstrap_servers, history, idempotent=True)
        deadline = time.monotonic() + 30
        while "is offline from now on" not in broker.log_path.read_text():
            assert time.monotonic() < deadline, "the log directory does not fail"
            healthy.send(("topic", 1 - bad), b"before")
            doomed.send(("topic", bad), b"before")
            healthy.poll()
            doomed.poll()
            time.sleep(0.005)
        doomed.poll()
        healthy.flush()
        before = sum(isinstance(event, Acked) and event.producer == "doomed" for event in history)
        for _ in range(200):
            healthy.send(("topic", 1 - bad), b"after")
        healthy.flush()
        doomed.poll()
        after = sum(isinstance(event, Acked) and event.producer == "doomed" for event in history)
        assert after <= before + 1, "records are acknowledged whose directory is offline"
        read_pass(broker.bootstrap_servers, "healthy", {("topic", 1 - bad): 0}, history)
        with pytest.raises((LoadError, KafkaException)):
            _read_quickly(broker.bootstrap_servers, ("topic", bad))
        broker.restart_as_itself()
        doomed.flush()
        read_pass(broker.bootstrap_servers, "after", {("topic", 0): 0, ("topic", 1): 0}, history)
    findings = check(history)
    assert not findings, "\n".join(map(str, findings[:10]))
    assert not synced_after_a_failure(trace)
    note(
        "R5",
        "one of two log directories fails",
        tried=1,
        acknowledged=sum(isinstance(event, Acked) for event in history),
    )


def _read_quickly(servers: str, partition: tuple[str, int]) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "log_level": 0})
    try:
        consumer.get_watermark_offsets(TopicPartition(*partition), timeout=2)
    finally:
        consumer.close()


@pytest.mark.slow
def test_a_broker_whose_metadata_cannot_be_synced_commits_nothing_more(tmp_path: Path) -> None:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    data, trace = tmp_path / "data", tmp_path / "trace"
    # The start takes a few syncs of its own.
    prefix = tracer(trace, SYNCS, "EIO", 12, "once", [data / "metadata.db-wal", data / "metadata.db"])
    created: list[str] = []
    with KafkapyProcess(tmp_path, prefix=prefix) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **RECONNECT})
        for number in range(50):
            name = f"topic-{number}"
            try:
                admin.create_topics([NewTopic(name, 1, 1)], request_timeout=5)[name].result(10)
            except KafkaException:
                break
            created.append(name)
        assert broker.wait(30) == 1, "the only log directory is offline"
        assert first_failure(trace, SYNCS) is not None
        broker.restart_as_itself()
        found = admin.list_topics(timeout=30).topics
    assert created
    assert not [name for name in created if name not in found]
    assert len(found) <= len(created) + 1
    assert not (again := synced_after_a_failure(trace)), f"a failed sync was tried again:\n{again[0]}"
