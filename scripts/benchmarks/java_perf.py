"""Apache Kafka's own ProducerPerformance and ConsumerPerformance."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

from interop.support.kafka_jars import RELEASE, java_command
from scripts.benchmarks.load import Figures, Target

_SENT = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\)", re.MULTILINE)


def java_perf(partitions: int, record_size: int, megabytes: int) -> Callable[[Target, float], Figures]:
    """Load: the tools' defaults but acks=all, linger.ms=5 and batches of 128 KiB."""

    def run(target: Target, scale: float) -> Figures:
        topic = target.new_topic(partitions)
        records = max(10_000, int(megabytes * 1e6 * scale / record_size))
        gigabytes = records * record_size / 1e9
        server = ["--bootstrap-server", target.bootstrap_servers, "--topic", topic]

        watch = target.stopwatch()
        printed = _tool(
            "ProducerPerformance",
            *server,
            "--num-records",
            str(records),
            "--record-size",
            str(record_size),
            "--throughput",
            "-1",
            "--command-property",
            "acks=all",
            "linger.ms=5",
            "batch.size=131072",
        )
        written = watch.cost()
        summary = _SENT.findall(printed)[-1]
        if int(summary[0]) != records:
            raise RuntimeError(f"{summary[0]} of {records} records were sent")

        watch = target.stopwatch()
        printed = _tool("ConsumerPerformance", *server, "--num-records", str(records), "--hide-header")
        read = watch.cost()
        fields = [field.strip() for field in printed.strip().splitlines()[-1].split(",")]
        if int(fields[4]) < records:
            raise RuntimeError(f"{fields[4]} of {records} records were read")
        target.delete_topic(topic)
        return {
            # The tools' MB is 2**20 bytes.
            "produce MB/s": float(summary[2]) * 1.048576,
            "produce CPU s/GB": written.cpu_seconds / gigabytes,
            # The rate of fetching, without joining the group.
            "consume MB/s": float(fields[8]) * 1.048576,
            "consume CPU s/GB": read.cpu_seconds / gigabytes,
        }

    return run


def _tool(name: str, *arguments: str) -> str:
    command = [*java_command(RELEASE, "-Xmx512m"), f"org.apache.kafka.tools.{name}", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if run.returncode:
        raise RuntimeError(f"{name} failed: {run.stdout[-500:]}{run.stderr[-500:]}")
    return run.stdout
