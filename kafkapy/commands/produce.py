"""`kafkapy produce`: what kafka-console-producer.sh does."""

from __future__ import annotations

import sys
from typing import Any, BinaryIO, Final

import click

from kafkapy.commands.options import Session, connected, settings
from kafkapy.commands.records import Message
from kafkapy.errors import UserError


@click.command()
@click.argument("topic")
@click.option("--file", "-f", "source", type=click.File("rb"), default="-", help="Instead of standard input.")
@click.option("--input", "input_", type=click.Choice(["lines", "json"]), default="lines", show_default=True)
@click.option("--key-separator", "-K", help="The key of a line is before it.")
@click.option("--key", "-k", help="The key of all records.")
@click.option(
    "--header", "-H", "headers", metavar="KEY=VALUE", multiple=True, help="A header of all records."
)
@click.option("--partition", "-p", type=click.IntRange(min=0), help="Else by the key.")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), help="Which replicas must have a record.")
@click.option("--compression-type", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]))
@connected
def produce(
    session: Session,
    topic: str,
    source: BinaryIO,
    input_: str,
    key_separator: str | None,
    key: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    acks: str | None,
    compression_type: str | None,
) -> None:
    """Write lines of standard input as records (kafka-console-producer.sh).

    --input json reads what kafkapy consume --format json writes: a line has value, key and headers.
    """
    if key_separator is not None and (key is not None or input_ == "json"):
        raise UserError("--key-separator is for lines without --key: leave it out")
    given = {"acks": acks, "compression.type": compression_type}
    session.properties |= {name: value for name, value in given.items() if value is not None}
    partitions = session.admin.partitions([topic])
    if partition is not None and partition >= len(partitions):
        raise UserError(f"{topic} has no partition {partition}: it has {len(partitions)}")
    everywhere = [(name, value.encode()) for name, value in settings(headers, "--header").items()]
    if source is sys.stdin.buffer and sys.stdin.isatty():
        session.output.note("Each line is a record; Ctrl-D ends.")
    count = 0
    with Writer(session) as writer:
        for number, line in enumerate(source, 1):
            data = line.rstrip(b"\r\n")
            if input_ == "json":
                message = Message.of_json(data, number)
            else:
                message = Message.of_line(data, key_separator.encode() if key_separator else None, number)
            if key is not None:
                message.key = key.encode()
            message.headers += everywhere
            message.partition = partition
            writer.write(topic, message)
            count = number
    if session.output.format == "text":
        session.output.note(f"records: {count}")
    else:
        session.output.item({"topic": topic, "records": count})


_MOST_BYTES: Final = 100 * 1024 * 1024
"""Of a record: brokers know how large it may be, and take requests of so many bytes by default."""


class Writer:
    """A producer; its `with` block ends when all records are acknowledged, or with UserError."""

    def __init__(self, session: Session) -> None:
        from kafka import KafkaProducer

        from kafkapy.commands.connection.client_config import role_config
        from kafkapy.commands.connection.failures import quieten

        quieten()
        config = role_config(session.properties, KafkaProducer.DEFAULT_CONFIG)
        if config.get("acks", -1) != -1:
            config.setdefault("enable_idempotence", False)
        config.setdefault("max_request_size", _MOST_BYTES)
        self._producer = KafkaProducer(**session.config, **config)
        self._failure: Any = None

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._producer.flush()
        self._producer.close()
        if kind is None:
            self._check()

    def write(self, topic: str, message: Message) -> None:
        """Send a record; raises UserError once one has failed."""
        from kafkapy.commands.connection.failures import explained

        self._check()
        with explained():
            future = self._producer.send(
                topic,
                value=message.value,
                key=message.key,
                headers=message.headers,
                partition=message.partition,
                timestamp_ms=message.timestamp,
            )
        future.add_errback(self._fail)

    def _fail(self, error: Any) -> None:
        self._failure = self._failure or error

    def _check(self) -> None:
        from kafkapy.commands.connection.failures import explained

        if self._failure is not None:
            with explained():
                raise self._failure
