"""Apache Kafka's VerifiableProducer and VerifiableConsumer.

They tell all they do as lines of JSON.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from interop.cluster.working_clients import WorkingClients
from interop.support.kafka_jars import RELEASE, TOOL_FLAGS, java_command, shared_classes
from kafkapy.protocol.errors import ErrorCode

RECORDS_A_SECOND = 100

_ERROR = re.compile(rf"\b({'|'.join(code.name for code in ErrorCode if code)})\b")
# What a client says of its settings and of requests that went well names errors too.
_FAILED = re.compile(r"error|fail|exception|unsuccess", re.IGNORECASE)


class JavaAtWork(WorkingClients):
    """The tools of the newest release."""

    name = "java"

    def __init__(self, servers: str, folder: Path) -> None:
        super().__init__(servers)
        self._folder = folder
        self._threads: dict[subprocess.Popen[str], threading.Thread] = {}

    def start(self) -> None:
        common = ("--topic", self.topic, "--bootstrap-server", self.servers)
        # Unless it is told, this producer does not retry. It goes to another partition after each full batch:
        # with batches as large as they come, some partitions would be left without a record.
        settings = self._folder / "producer.properties"
        settings.write_text(f"retries={2**31 - 1}\nenable.idempotence=true\nbatch.size=500\n")
        rate = ("--throughput", str(RECORDS_A_SECOND))
        self._producer = self._run("Producer", *common, *rate, "--command-config", str(settings))
        self._consumer = self._run("Consumer", *common, "--group-id", self.group, "--verbose")

    def stop_producer(self) -> None:
        self._stop(self._producer)

    def stop_consumer(self) -> None:
        self._stop(self._consumer)

    def errors(self) -> Counter[str]:
        lines = [line for log in self._folder.glob("Verifiable*.log") for line in log.open(errors="replace")]
        return Counter(name for line in lines if _FAILED.search(line) for name in _ERROR.findall(line))

    def end(self) -> None:
        for process, thread in self._threads.items():
            if process.poll() is None:
                process.kill()
            process.wait()
            thread.join()

    def _run(self, kind: str, *arguments: str) -> subprocess.Popen[str]:
        flags = (*TOOL_FLAGS, *shared_classes(), "-Xmx256m", "-Dkafkapy.log.level=DEBUG")
        with (self._folder / f"Verifiable{kind}.log").open("w") as log:
            process = subprocess.Popen(
                [*java_command(RELEASE, *flags), f"org.apache.kafka.tools.Verifiable{kind}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        thread = threading.Thread(target=self._listen, args=(process,))
        thread.start()
        self._threads[process] = thread
        return process

    def _stop(self, process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        self._threads[process].join()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._note(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        match event["name"]:
            case "producer_send_success":
                self.acknowledged.append(((event["partition"], event["offset"]), event["value"]))
            case "record_data":
                self.consumed.append(((event["partition"], event["offset"]), event["value"]))
            case "partitions_assigned":
                self.assignments.append({each["partition"] for each in event["partitions"]})
            case "producer_send_error":
                self.told.append(f"{event['exception']}: {event['message']}")
            case "offsets_committed" if not event["success"]:
                self.told.append(f"commit: {event['error']}")
