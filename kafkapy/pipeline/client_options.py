"""Translates a pipeline's Kafka options from the Java client's names to librdkafka's.

Spark's Java client and the Python commands (status, reset, dead letters, replay) must reach the same brokers.
So each option that a connection depends on is translated, or refused with a remedy. Options that only tune
the Java clients, or choose among Java's classes, are left out. A name that nearly matches a known one is
refused: a misspelt security.protocol would otherwise be ignored silently. Sources: ConsumerConfig, SslConfigs
and SaslConfigs of Kafka; CONFIGURATION.md of librdkafka.

Options may be in a file too, in Java's .properties syntax, as Kafka's tools take them (`--command-config`).
One file is often for several kinds of clients, so what a pipeline sets itself is left out there.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafkapy.pipeline.msk_login import MSK_IAM, MSK_MODULE, MskLogin, is_msk_handler
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.security.sasl.jaas import JaasError, parse_jaas
from kafkapy.storage.disk.properties import parse_properties

_SAME = {
    "security.protocol",
    "sasl.mechanism",
    "sasl.kerberos.service.name",
    "sasl.oauthbearer.token.endpoint.url",
    "client.id",
    "client.rack",
    "ssl.key.password",
}
_PEM_TEXTS = {
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
# They choose among Java's classes, protocols and names of ciphers, or say when a login is repeated.
_JAVAS_OWN = re.compile(
    r"ssl\.(cipher\.suites|enabled\.protocols|engine\.factory\.class|keymanager\.algorithm|protocol|provider"
    r"|secure\.random\.implementation|trustmanager\.algorithm)"
    r"|sasl\.login\.(connect|read|retry|refresh)\..*|sasl\.kerberos\.(kinit|min|ticket)\..*"
)
_LOGIN_HANDLER = "sasl.login.callback.handler.class"
_HANDLERS = (_LOGIN_HANDLER, "sasl.client.callback.handler.class")
_KAFKAS_HANDLER = re.compile(r"org\.apache\.kafka\..*\.OAuthBearerLoginCallbackHandler")
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
# Their values are looked at with another option.
_READ_WITH_OTHERS = ("ssl.keystore.type", "ssl.truststore.type", *_HANDLERS)
# What a pipeline sets itself, and how records are turned into objects.
OF_THE_PIPELINE = {
    "bootstrap.servers": "use bootstrap:",
    "group.id": "use group: to publish the position",
    "isolation.level": "pipelines read committed records only",
    "enable.auto.commit": "the position is stored beside the table",
    "auto.offset.reset": "use start:",
}
_CLASSES = re.compile(r"(key|value)\.(de)?serializer|interceptor\.classes|config\.providers.*")


def misspelt(option: str) -> str | None:
    """The known option that resembles this one.

    None if this one is known, or resembles none (a plug-in's).
    """
    if option in _JAVA or option.startswith(_SECURITY):
        return None
    return next(iter(difflib.get_close_matches(option, _JAVA, n=1, cutoff=_ALIKE)), None)


def read_client_config(path: Path) -> dict[str, str]:
    """The options of a file, without those that a pipeline sets itself.

    Raises PipelineError.
    """
    try:
        found = parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else "it is not a file of properties in UTF-8"
        raise PipelineError(f"client_config: {path} cannot be read: {told}") from None
    for name in found:
        if meant := misspelt(name):
            raise PipelineError(f"client_config: {path}: {name}: unknown option (did you mean {meant!r}?)")
    return {
        name: value
        for name, value in found.items()
        if name not in OF_THE_PIPELINE and not _CLASSES.fullmatch(name)
    }


def librdkafka_options(bootstrap: str, options: Mapping[str, str]) -> dict[str, Any]:
    """The options by librdkafka's names, for a client of the brokers at `bootstrap`.

    Raises PipelineError for a security option without a counterpart.
    """
    translated: dict[str, Any] = {"bootstrap.servers": bootstrap}
    # The remedy for a store concerns its password too.
    for name, value in sorted(options.items(), key=lambda option: not option[0].endswith(".location")):
        if name in _SAME:
            translated.setdefault(name, value)  # of a login's own, which counts more
        elif name in _PEM_TEXTS:
            translated[_PEM_TEXTS[name]] = value
        elif name == "sasl.jaas.config":
            translated |= _login(value, bootstrap, options)
        elif name == "ssl.endpoint.identification.algorithm":
            translated[name] = value or "none"
        elif name == "ssl.truststore.location":
            translated["ssl.ca.location"] = _trusted(value, options.get("ssl.truststore.type", "JKS"))
        elif name == "ssl.keystore.location":
            translated |= _identity(value, options.get("ssl.keystore.type", "JKS"))
        elif name == "ssl.keystore.password":
            translated[name] = value
        elif name in _HANDLERS and not (_KAFKAS_HANDLER.fullmatch(value) or is_msk_handler(value)):
            raise _refused(
                name,
                f"{value} is a class of Java",
                "use Kafka's own OAuthBearerLoginCallbackHandler with sasl.oauthbearer.token.endpoint.url",
            )
        elif not name.startswith(_SECURITY) or _JAVAS_OWN.fullmatch(name) or name in _READ_WITH_OTHERS:
            continue
        else:
            raise _refused(name, "librdkafka has no such option", "use PEM files and sasl.jaas.config")
    if translated.get("sasl.mechanism") == MSK_IAM:
        raise _refused(
            "sasl.mechanism", "no line says who logs in", f"set sasl.jaas.config: {MSK_MODULE} required;"
        )
    return translated


def _trusted(location: str, kind: str) -> str:
    if kind.upper() != "PEM":
        raise _refused(
            "ssl.truststore.location",
            f"a {kind} truststore is Java's own",
            f"convert it: keytool -list -rfc -keystore {shlex.quote(location)} > ca.pem, and name that file "
            "with ssl.truststore.type: PEM",
        )
    return location


def _identity(location: str, kind: str) -> dict[str, str]:
    if kind.upper() == "PEM":
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    if kind.upper() == "PKCS12":
        return {"ssl.keystore.location": location}
    raise _refused(
        "ssl.keystore.location",
        f"a {kind} keystore is Java's own",
        f"convert it: keytool -importkeystore -srckeystore {shlex.quote(location)} -destkeystore client.p12 "
        "-deststoretype PKCS12, and name that file with ssl.keystore.type: PKCS12",
    )


def _login(jaas: str, bootstrap: str, options: Mapping[str, str]) -> dict[str, Any]:
    try:
        module = parse_jaas(jaas)
    except JaasError as error:
        raise _refused(
            "sasl.jaas.config", str(error), 'write ...LoginModule required name="value";'
        ) from None
    given, name = module.options, module.class_name.rpartition(".")[2]
    if name in ("PlainLoginModule", "ScramLoginModule") and {"username", "password"} <= given.keys():
        return {f"sasl.{one}": given[one] for one in ("username", "password")}
    if module.class_name == MSK_MODULE or is_msk_handler(options.get(_LOGIN_HANDLER, "")):
        return MskLogin.of(given).options(bootstrap)
    if name == "OAuthBearerLoginModule" and {"clientId", "clientSecret"} <= given.keys():
        if not options.get("sasl.oauthbearer.token.endpoint.url", "").startswith(("http://", "https://")):
            raise _refused(
                "sasl.jaas.config",
                "tokens are asked for at an address",
                "set sasl.oauthbearer.token.endpoint.url to one that begins with https://",
            )
        scope = {"sasl.oauthbearer.scope": given["scope"]} if "scope" in given else {}
        login = {"client.id": given["clientId"], "client.secret": given["clientSecret"], "method": "oidc"}
        return {**{f"sasl.oauthbearer.{one}": value for one, value in login.items()}, **scope}
    if name == "Krb5LoginModule":
        places = {"keyTab": "sasl.kerberos.keytab", "principal": "sasl.kerberos.principal"}
        return {places[one]: given[one] for one in places if one in given}
    raise _refused(
        "sasl.jaas.config",
        f"{name} is not supported with these options",
        "use PlainLoginModule or ScramLoginModule with username and password, OAuthBearerLoginModule with "
        "clientId and clientSecret, or Krb5LoginModule",
    )


def _refused(name: str, reason: str, remedy: str) -> PipelineError:
    return PipelineError(
        f"kafka.{name}: the commands that run without Java cannot use it ({reason}); {remedy}"
    )
