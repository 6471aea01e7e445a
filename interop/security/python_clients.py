"""Three client libraries of Python: each writes a record, and reads it."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AiokafkaTokenProvider
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

from interop.security.secure_server import SecureServer, Way
from tests.security.certificates import Certificates

SECONDS = 20.0

RoundTrip = Callable[[SecureServer, Certificates, Way, str], bytes]
"""Writes a record to a topic and returns the value that is read; raises if the client does not come in."""


def with_librdkafka(server: SecureServer, certificates: Certificates, way: Way, topic: str) -> bytes:
    config: dict[str, Any] = {
        "bootstrap.servers": server.addresses[way.listener],
        "security.protocol": way.protocol,
    }
    if way.is_encrypted:
        config["ssl.ca.location"] = str(way.authority(certificates))
    if way.certificate:
        config["ssl.certificate.location"] = config["ssl.key.location"] = str(certificates.client)
    if way.mechanism is not None:
        config["sasl.mechanism"] = way.mechanism
    if way.mechanism == "OAUTHBEARER":
        config["oauth_cb"] = lambda _: (way.token(server.issuer), time.time() + 3600)
    elif way.mechanism is not None:
        config["sasl.username"], config["sasl.password"] = way.username, way.password
    refusals: list[Any] = []
    seconds = 3.0 if way.is_refused else SECONDS
    producer = Producer({**config, "message.timeout.ms": int(seconds * 1000), "error_cb": refusals.append})
    producer.produce(topic, b"librdkafka", on_delivery=lambda error, _: refusals.append(error))
    producer.flush(seconds + 1)
    if any(refusals):
        raise ConnectionError(str(refusals))
    consumer = Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(SECONDS)
    finally:
        consumer.close()
    assert message is not None
    if message.error():
        raise KafkaException(message.error())
    value = message.value()
    assert isinstance(value, bytes)
    return value


def _options(server: SecureServer, way: Way) -> dict[str, Any]:
    """The settings that kafka-python and aiokafka share."""
    config: dict[str, Any] = {
        "bootstrap_servers": server.addresses[way.listener],
        "security_protocol": way.protocol,
    }
    if way.mechanism is not None:
        config["sasl_mechanism"] = way.mechanism
    if way.mechanism not in (None, "OAUTHBEARER"):
        config["sasl_plain_username"], config["sasl_plain_password"] = way.username, way.password
    return config


def _context(certificates: Certificates, way: Way) -> ssl.SSLContext | None:
    if not way.is_encrypted:
        return None
    context = ssl.create_default_context(cafile=str(way.authority(certificates)))
    if way.certificate:
        context.load_cert_chain(str(certificates.client))
    if way.offers is not None:
        context.minimum_version = context.maximum_version = ssl.TLSVersion[way.offers.replace(".", "_")]
    return context


class _KafkaPythonTokens(KafkaPythonTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


class _AiokafkaTokens(AiokafkaTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def with_kafka_python(server: SecureServer, certificates: Certificates, way: Way, topic: str) -> bytes:
    config = {**_options(server, way), "ssl_context": _context(certificates, way)}
    if way.mechanism == "OAUTHBEARER":
        config["sasl_oauth_token_provider"] = _KafkaPythonTokens(way.token(server.issuer))
    return kafka_python_round_trip(config, topic, 3 if way.is_refused else SECONDS)


def kafka_python_round_trip(config: dict[str, Any], topic: str, seconds: float = SECONDS) -> bytes:
    """What kafka-python reads after it has written; `seconds` is its time to come in."""
    producer = KafkaProducer(**config, max_block_ms=seconds * 1000, bootstrap_timeout_ms=seconds * 1000)
    try:
        producer.send(topic, b"kafka-python").get(SECONDS)
    finally:
        producer.close(timeout=5)
    consumer = KafkaConsumer(**config, auto_offset_reset="earliest", consumer_timeout_ms=SECONDS * 1000)
    try:
        consumer.assign([TopicPartition(topic, 0)])
        value = next(consumer).value
        assert isinstance(value, bytes)
        return value
    finally:
        consumer.close()


def with_aiokafka(server: SecureServer, certificates: Certificates, way: Way, topic: str) -> bytes:
    async def round_trip() -> bytes:
        config = {**_options(server, way), "ssl_context": _context(certificates, way)}
        if way.mechanism == "OAUTHBEARER":
            config["sasl_oauth_token_provider"] = _AiokafkaTokens(way.token(server.issuer))
        producer = AIOKafkaProducer(**config)
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"aiokafka")
        finally:
            await producer.stop()
        async with AIOKafkaConsumer(topic, **config, auto_offset_reset="earliest") as consumer:
            value = (await consumer.getone()).value
        assert isinstance(value, bytes)
        return value

    return asyncio.run(asyncio.wait_for(round_trip(), SECONDS))


CLIENTS: dict[str, RoundTrip] = {
    "librdkafka": with_librdkafka,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
}
