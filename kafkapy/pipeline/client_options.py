"""Translates a pipeline's Kafka options from the Java client's names to librdkafka's.

Spark's Java client and the Python commands (status, reset, dead letters, replay) must reach the same brokers.
So each option that a connection depends on is translated, or refused with a remedy. Options that only tune
the Java clients are left out. A name that nearly matches a known one is refused: a misspelt security.protocol
would otherwise be ignored silently. Sources: ConsumerConfig, SslConfigs and SaslConfigs of Kafka;
CONFIGURATION.md of librdkafka.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from kafkapy.pipeline.pipeline_error import PipelineError

_SAME = {
    "security.protocol",
    "sasl.mechanism",
    "sasl.kerberos.service.name",
    "client.id",
    "client.rack",
    "ssl.cipher.suites",
    "ssl.key.password",
}
# All tuning options of the Java clients, since a name that resembles another may still be correct, and the
# common connection options. Other options with the same prefixes are refused individually below.
_JAVA = re.findall(
    r"\S+",
    """
    acks allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter batch.size buffer.memory
    check.crcs client.dns.lookup client.id client.rack compression.gzip.level compression.lz4.level
    compression.type compression.zstd.level connections.max.idle.ms default.api.timeout.ms
    delivery.timeout.ms enable.idempotence enable.metrics.push exclude.internal.topics fetch.max.bytes
    fetch.max.wait.ms fetch.min.bytes group.instance.id group.protocol group.remote.assignor
    heartbeat.interval.ms interceptor.classes linger.ms max.block.ms max.in.flight.requests.per.connection
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records max.request.size metadata.max.age.ms
    metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    partition.assignment.strategy partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys receive.buffer.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms
    retry.backoff.ms send.buffer.bytes session.timeout.ms socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms transaction.timeout.ms transactional.id
    sasl.jaas.config sasl.kerberos.service.name sasl.mechanism security.protocol security.providers
    ssl.cipher.suites ssl.endpoint.identification.algorithm ssl.key.password ssl.keystore.location
    ssl.keystore.password ssl.keystore.type ssl.truststore.location ssl.truststore.password
    ssl.truststore.type
    """,
)
_SECURITY = ("ssl.", "sasl.", "security.")
_ALIKE = 0.87  # difflib's ratio: all but one or two letters are right
_JAAS = re.compile(r"\s*\S*\.(?:Plain|Scram)LoginModule\s+required\s(.*?);?\s*", re.DOTALL)
_JAAS_OPTION = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)')")


def misspelt(option: str) -> str | None:
    """The known option that resembles this one.

    None if this one is known, or resembles none (a plug-in's).
    """
    if option in _JAVA or option.startswith(_SECURITY):
        return None
    return next(iter(difflib.get_close_matches(option, _JAVA, n=1, cutoff=_ALIKE)), None)


def librdkafka_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options by librdkafka's names.

    Raises PipelineError for a security option without a counterpart.
    """
    translated: dict[str, str] = {}
    for name, value in options.items():
        if name in _SAME:
            translated[name] = value
        elif name == "sasl.jaas.config":
            translated |= _login(value)
        elif name == "ssl.endpoint.identification.algorithm":
            translated[name] = value or "none"
        elif name in ("ssl.truststore.type", "ssl.keystore.type"):
            if value.upper() != "PEM":
                raise _refused(name, f"{value} files are Java's own", "use PEM")
        elif name in ("ssl.truststore.location", "ssl.keystore.location"):
            kind = name.replace("location", "type")
            if kind not in options:
                raise _refused(name, "a JKS file is Java's own", f"use a PEM file and {kind}: PEM")
            if "truststore" in name:
                translated["ssl.ca.location"] = value
            else:
                translated["ssl.certificate.location"] = translated["ssl.key.location"] = value
        elif name.startswith(_SECURITY):
            raise _refused(name, "librdkafka has no such option", "use PEM files and sasl.jaas.config")
    return translated


def _login(jaas: str) -> dict[str, str]:
    match = _JAAS.fullmatch(jaas)
    login = {
        name: quoted or single for name, quoted, single in _JAAS_OPTION.findall(match[1] if match else "")
    }
    if "username" not in login or "password" not in login:
        raise _refused(
            "sasl.jaas.config",
            "only PLAIN and SCRAM are supported",
            '...PlainLoginModule required username="..." password="...";',
        )
    return {f"sasl.{name}": re.sub(r"\\(.)", r"\1", login[name]) for name in ("username", "password")}


def _refused(name: str, reason: str, remedy: str) -> PipelineError:
    return PipelineError(
        f"kafka.{name}: the commands that run without Java cannot use it ({reason}); {remedy}"
    )
