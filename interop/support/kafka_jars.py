"""Apache Kafka's own jars (broker, tools, clients and what they need), by release."""

from __future__ import annotations

from pathlib import Path

from interop.support.java_programs import compiled
from interop.support.maven import CACHE, Coordinates, copy_jars

RELEASE = "4.3.1"

# A tool lives for a second: start fast rather than run fast.
TOOL_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true")

# A release's jars name no logging backend: its archive adds one, so do we.
_LOGGING = {
    "4": [Coordinates("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")],
    "3": [Coordinates("org.slf4j", "slf4j-reload4j", "1.7.36")],
}


def kafka_jars(release: str = RELEASE) -> Path:
    """The folder with the jars of `release`, fetched on first use; raises JarsUnavailableError."""
    kafka = [Coordinates("org.apache.kafka", name, release) for name in ("kafka_2.13", "kafka-tools")]
    return copy_jars(kafka + _LOGGING[release.partition(".")[0]], CACHE / "kafka" / release / "libs")


def java_command(release: str = RELEASE, *flags: str) -> list[str]:
    """The start of a command line that runs a main class of `release`; without flags, as a tool runs."""
    return [*_java(release, flags), "-cp", f"{kafka_jars(release)}/*"]


def program_command(source: Path, *flags: str) -> list[str]:
    """The start of a command line that runs a Java program of the tests as a tool."""
    return [*_java(RELEASE, (*TOOL_FLAGS, *flags)), *compiled(source, kafka_jars())]


def _java(release: str, flags: tuple[str, ...]) -> list[str]:
    major = release.partition(".")[0]
    setting = "log4j2.configurationFile" if major == "4" else "log4j.configuration"
    logging = Path(__file__).with_name(f"logging_{major}.properties")
    return ["java", *(flags or TOOL_FLAGS), f"-D{setting}=file:{logging}"]
