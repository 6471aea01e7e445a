"""Apache Kafka's own jars (broker, tools, clients and what they need), by release."""

from __future__ import annotations

from pathlib import Path

from interop.support.maven import CACHE, Coordinates, copy_jars

RELEASE = "4.3.1"

# A release's jars name no logging backend: its archive adds one, so do we.
_LOGGING = {
    "4": [Coordinates("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")],
    "3": [Coordinates("org.slf4j", "slf4j-reload4j", "1.7.36")],
}


def kafka_jars(release: str = RELEASE) -> Path:
    """The folder with the jars of `release`, fetched on first use; raises JarsUnavailable."""
    kafka = [Coordinates("org.apache.kafka", name, release) for name in ("kafka_2.13", "kafka-tools")]
    return copy_jars(kafka + _LOGGING[release.partition(".")[0]], CACHE / "kafka" / release / "libs")


def classpath(release: str = RELEASE) -> str:
    return f"{kafka_jars(release)}/*"
