"""librdkafka's producer and consumer, with its own log and its callbacks for errors."""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from interop.cluster.working_clients import WorkingClients
from kafkapy.protocol.errors import ErrorCode

PAUSE = 0.01
"""Seconds between records."""
# Connections end and come again, and nobody answers for a moment: these are not answers of a broker.
PASSING = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._WAIT_COORD,
)

_NAMES = {KafkaError(code.value).str(): code.name for code in ErrorCode if code}
_ERROR = re.compile("|".join(re.escape(text) for text in sorted(_NAMES, key=len, reverse=True)))


class LibrdkafkaAtWork(WorkingClients):
    """Each client in a thread of its own."""

    name = "librdkafka"

    def __init__(self, servers: str) -> None:
        super().__init__(servers)
        self._log: list[str] = []
        self._stops = {name: threading.Event() for name in ("producer", "consumer")}
        work = {"producer": self._produce, "consumer": self._consume}
        self._threads = {name: threading.Thread(target=target, name=name) for name, target in work.items()}

    def start(self) -> None:
        for thread in self._threads.values():
            thread.start()

    def stop_producer(self) -> None:
        self._stop("producer")

    def stop_consumer(self) -> None:
        self._stop("consumer")

    def errors(self) -> Counter[str]:
        return Counter(_NAMES[text] for line in self._log for text in _ERROR.findall(line))

    def end(self) -> None:
        self.stop_producer()
        self.stop_consumer()

    def _stop(self, name: str) -> None:
        self._stops[name].set()
        if self._threads[name].ident is not None:
            self._threads[name].join()

    def _settings(self, debug: str) -> dict[str, object]:
        logger = logging.getLogger(f"{__name__}.{debug}")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(_Lines(self._log))
        return {
            "bootstrap.servers": self.servers,
            "error_cb": self._on_error,
            "logger": logger,
            "debug": debug,
        }

    def _on_error(self, error: KafkaError) -> None:
        if error.code() not in PASSING:
            self.told.append(str(error))

    def _produce(self) -> None:
        producer = Producer({**self._settings("msg,topic,eos"), "enable.idempotence": True, "linger.ms": 5})
        number = 0
        while not self._stops["producer"].wait(PAUSE):
            producer.produce(self.topic, str(number), partition=number % 3, on_delivery=self._on_delivery)
            number += 1
            producer.poll(0)
        if unanswered := producer.flush(60):
            self.told.append(f"{unanswered} records are never answered")

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.told.append(str(error))
        else:
            self.acknowledged.append(((message.partition(), message.offset()), message.value().decode()))

    def _consume(self) -> None:
        settings = {"group.id": self.group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({**self._settings("cgrp,topic,consumer"), **settings})
        consumer.subscribe([self.topic], on_assign=self._on_assign)
        while not self._stops["consumer"].is_set():
            for message in consumer.consume(1_000, 0.1):
                if (error := message.error()) is None:
                    place = (message.partition(), message.offset())
                    self.consumed.append((place, message.value().decode()))
                elif error.code() not in PASSING:
                    self.told.append(str(error))
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as problem:
                error = problem.args[0]
                if error.code() not in (*PASSING, KafkaError._NO_OFFSET):
                    self._log.append(f"commit: {error.str()}")
        consumer.close()

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignments.append({each.partition for each in partitions})


class _Lines(logging.Handler):
    """Keeps the lines of a log."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())
