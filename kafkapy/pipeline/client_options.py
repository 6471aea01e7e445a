"""A pipeline's Kafka options, which bear the Java client's names, for librdkafka.

Spark's Java client and the Python side (status, reset, dead letters, replay) must reach the same brokers, so
each option that decides whether a connection succeeds is translated, or refused with what to write instead.
Options that only tune Java's consumer are left out. Sources: ConsumerConfig, SslConfigs and SaslConfigs of
Kafka; CONFIGURATION.md of librdkafka.
"""

from __future__ import annotations

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
_SECURITY = ("ssl.", "sasl.", "security.")
_JAAS = re.compile(r"\s*\S*\.(?:Plain|Scram)LoginModule\s+required\s(.*?);?\s*", re.DOTALL)
_JAAS_OPTION = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)')")


def librdkafka_options(options: Mapping[str, str]) -> dict[str, str]:
    """Refuses a security option that has no counterpart."""
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
            "is understood for PLAIN and SCRAM only",
            '...PlainLoginModule required username="..." password="...";',
        )
    return {f"sasl.{name}": re.sub(r"\\(.)", r"\1", login[name]) for name in ("username", "password")}


def _refused(name: str, reason: str, remedy: str) -> PipelineError:
    return PipelineError(
        f"kafka.{name}: the commands that do without Java cannot use it ({reason}); {remedy}"
    )
