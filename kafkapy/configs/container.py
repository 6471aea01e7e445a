"""The settings of a container: environment variables, as images of Kafka have them.

    KAFKA_ADVERTISED_LISTENERS                 advertised.listeners
    KAFKA_LISTENER_NAME_SASL__SSL_...          listener.name.sasl_ssl.…
    KAFKA_..._SCRAM___SHA___512_...            ….scram-sha-512.…
    KAFKA_CFG_LOG_RETENTION_HOURS              log.retention.hours

So a file for docker-compose that was written for apache/kafka, confluentinc/cp-kafka or bitnami/kafka needs
another image name only. A variable counts more than the same setting of a file. Without listeners, they are
those that are advertised, on all addresses. Variables that are for a JVM or for a script of an image have no
meaning here, and are passed over.

Source: Apache Kafka's KafkaDockerWrapper and docker/resources/common-scripts, bitnami's libkafka.sh.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kafkapy.configs.config import given_properties
from kafkapy.configs.keys import ConfigError, broker_keys

DATA: Final = "/var/lib/kafkapy"
MOUNTED_FILE: Final = "mnt/shared/config/server.properties"
"""Where a server.properties is mounted into a container of apache/kafka."""
_SECRETS: Final = "etc/kafka/secrets"
METRICS_PORT: Final = "9404"
"""The health check of the image asks there; see Containerfile."""

_CFG: Final = re.compile(r"KAFKA_CFG_(\w+)", re.ASCII)
_OTHER: Final = re.compile(r"KAFKA_(\w+)", re.ASCII)
_STORES: Final = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "ssl.keystore.location",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "ssl.truststore.location",
}
"""Names of files with keys and certificates: the settings that name them."""
_CREDENTIALS: Final = {
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "ssl.keystore.password",
    "KAFKA_SSL_KEY_CREDENTIALS": "ssl.key.password",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "ssl.truststore.password",
}
"""Names of files with passwords: the settings whose values they are."""
_NO_SETTING: Final = re.compile(
    "KAFKA_(?:"
    # Of a JVM, and of its logs.
    "HEAP_OPTS?|OPTS|JMX_.*|JVM_PERFORMANCE_OPTS|GC_LOG_OPTS|DEBUG|LOG4J_.*|TOOLS_LOG4J_.*|EXTRA_ARGS"
    # Of the images.
    "|VERSION|HOME|BASE_DIR|VOLUME_DIR|CONF_DIR|CERTS_DIR|MOUNTED_CONF_DIR|CLUSTER_ID|KRAFT_.*|ENABLE_KRAFT"
    "|SKIP_KRAFT_STORAGE_INIT|SECURITY_PROTOCOL|CONFLUENT_.*|REST_.*"
    # What Kubernetes tells of a service named kafka.
    "|SERVICE_HOST|SERVICE_PORT(?:_.*)?|PORT(?:_.*)?"
    ")"
)
"""Variables of other programs."""
_LOGINS: Final = re.compile(r"KAFKA_(?:CLIENT_USERS|CLIENT_PASSWORDS|INTER_BROKER_(?:USER|PASSWORD))")
"""Variables from which bitnami's script makes a JAAS file."""
_JAAS_FILE: Final = "java.security.auth.login.config"
_HOST: Final = re.compile(r"://(?:\[[^\]]*\]|[^:,]*):")


def container_properties(
    environment: Mapping[str, str], config_file: Path | None, root: Path = Path("/")
) -> dict[str, str]:
    """The properties of a broker in a container.

    `root` is the folder below which mounted files are looked for.

    Raises:
        ConfigError: a file cannot be read, or a variable contradicts another or needs Java.
    """
    if config_file is None and (root / MOUNTED_FILE).exists():
        config_file = root / MOUNTED_FILE
    properties = given_properties(config_file) if config_file is not None else {}
    properties |= _of_variables(environment) | _of_secrets(environment, root / _SECRETS)
    if not properties.get("log.dirs") and not properties.get("log.dir"):
        properties["log.dirs"] = DATA
    if not properties.get("listeners"):
        advertised = properties.get("advertised.listeners") or "PLAINTEXT://:9092"
        properties["listeners"] = _HOST.sub("://0.0.0.0:", advertised)
    return {"metrics.port": METRICS_PORT, **properties}


def setting_of(variable: str) -> str | None:
    """The setting that a variable gives; None if it gives none."""
    if match := _CFG.fullmatch(variable):
        # Scripts of bitnami make a dot of each underscore, but for the names of these two listeners.
        name = _name_of(match[1]).replace("sasl.ssl", "sasl_ssl").replace("sasl.plaintext", "sasl_plaintext")
    elif (match := _OTHER.fullmatch(variable)) and not _is_other(variable):
        name = _name_of(match[1])
    else:
        return None
    return _camel_case().get(name, name)


def _name_of(variable: str) -> str:
    return variable.lower().replace("_", ".").replace("...", "-").replace("..", "_")


def _camel_case() -> dict[str, str]:
    """Settings with capital letters, which a variable cannot show, by their names without."""
    return {name.lower(): name for name in broker_keys() if name != name.lower()}


def _is_other(variable: str) -> bool:
    """Whether a variable has another meaning than that of a setting of the same name."""
    return variable in _STORES or variable in _CREDENTIALS or _NO_SETTING.fullmatch(variable) is not None


def _of_variables(environment: Mapping[str, str]) -> dict[str, str]:
    if _JAAS_FILE in environment.get("KAFKA_OPTS", ""):
        raise ConfigError(
            f"KAFKA_OPTS: {_JAAS_FILE} names a file for Java, which is not read. Give each login module as"
            " KAFKA_LISTENER_NAME_<listener>_<mechanism>_SASL_JAAS_CONFIG (docs/containers.md)"
        )
    properties: dict[str, str] = {}
    variables: dict[str, str] = {}
    for variable, value in environment.items():
        if _LOGINS.fullmatch(variable):
            raise ConfigError(
                f"{variable}: logins are given as JAAS lines, such as"
                " KAFKA_LISTENER_NAME_<listener>_PLAIN_SASL_JAAS_CONFIG (docs/containers.md)"
            )
        name = setting_of(variable)
        if name is None:
            continue
        if properties.get(name, value) != value:
            raise ConfigError(f"{variables[name]}, {variable}: both give {name}; set one of them")
        properties[name], variables[name] = value, variable
    return properties


def _of_secrets(environment: Mapping[str, str], secrets: Path) -> dict[str, str]:
    properties = {
        setting: str(secrets / environment[variable])
        for variable, setting in _STORES.items()
        if environment.get(variable)
    }
    for variable, setting in _CREDENTIALS.items():
        if name := environment.get(variable):
            try:
                properties[setting] = (secrets / name).read_text().rstrip("\n")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                raise ConfigError(f"{variable}: cannot read {secrets / name}: {reason}") from None
    return properties
