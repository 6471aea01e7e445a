"""Apache Kafka's own jars (broker, tools, clients and what they need), by release."""

from __future__ import annotations

import tempfile
from pathlib import Path

from interop.support.class_archive import ClassArchive
from interop.support.java_programs import compiled
from interop.support.maven import CACHE, Coordinates, copy_jars

RELEASE = "4.3.1"

# A tool runs for a second: a fast start matters more than fast code.
TOOL_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true")

# To start log4j's core is a sixth of a short call of a tool of Kafka 4. Its API alone prints warnings, too.
_PLAIN_LOGS = (
    "-Dlog4j2.loggerContextFactory=org.apache.logging.log4j.simple.SimpleLoggerContextFactory",
    "-Dorg.apache.logging.log4j.simplelog.level=WARN",
)

TEMPORARY_FILES = f"-Djava.io.tmpdir={tempfile.gettempdir()}"
"""A JVM that is killed leaves the libraries that it has unpacked: where the tests clean up."""

# A release's jars name no logging backend: its archive adds one, so do we.
_LOGGING = {
    "4": [Coordinates("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")],
    "3": [Coordinates("org.slf4j", "slf4j-reload4j", "1.7.36")],
    "2": [Coordinates("org.slf4j", "slf4j-reload4j", "1.7.36")],
}


def kafka_jars(release: str = RELEASE) -> Path:
    """The folder with the jars of `release`, fetched on first use; raises JarsUnavailableError."""
    kafka = [Coordinates("org.apache.kafka", name, release) for name in ("kafka_2.13", "kafka-tools")]
    return copy_jars(kafka + _LOGGING[release.partition(".")[0]], CACHE / "kafka" / release / "libs")


def streams_jars() -> Path:
    """The folder with the jars of Kafka Streams, fetched on first use.

    Raises JarsUnavailableError.
    """
    streams = Coordinates("org.apache.kafka", "kafka-streams", RELEASE)
    return copy_jars([streams, *_LOGGING[RELEASE.partition(".")[0]]], CACHE / "kafka-streams" / RELEASE)


def connect_jars() -> Path:
    """The folder with the jars of Kafka Connect and MirrorMaker 2; raises JarsUnavailableError."""
    connect = [
        Coordinates("org.apache.kafka", name, RELEASE)
        for name in ("connect-runtime", "connect-file", "connect-mirror")
    ]
    return copy_jars([*connect, *_LOGGING[RELEASE.partition(".")[0]]], CACHE / "kafka-connect" / RELEASE)


def java_command(release: str = RELEASE, *flags: str) -> list[str]:
    """Return the start of a command line for a main class of `release`.

    Without `flags`, those of a tool.
    """
    flags = flags or _tool_flags(release)
    return [*_java(release, flags), "-cp", f"{kafka_jars(release)}/*"]


def program_command(source: Path, *flags: str, release: str = RELEASE) -> list[str]:
    """The start of a command line that runs a Java program of the tests as a tool."""
    return [*_java(release, (*_tool_flags(release), *flags)), *compiled(source, kafka_jars(release))]


def streams_command(source: Path, *flags: str) -> list[str]:
    """The start of a command line that runs a Kafka Streams program of the tests."""
    return [*_java(RELEASE, (*TOOL_FLAGS, *flags)), *compiled(source, streams_jars())]


def connect_command(*flags: str) -> list[str]:
    """The start of a command line for a main class of Kafka Connect or MirrorMaker 2."""
    return [*_java(RELEASE, (*TOOL_FLAGS, *flags)), "-cp", f"{connect_jars()}/*"]


def class_archive(release: str = RELEASE) -> ClassArchive:
    """Return the archive of `release`'s classes."""
    return ClassArchive(CACHE / "kafka" / release, kafka_jars(release))


def shared_classes(release: str = RELEASE) -> tuple[str, ...]:
    """Return the flags to use the archive, if kafka_process.archive_classes has made it."""
    return class_archive(release).flags()


def _tool_flags(release: str) -> tuple[str, ...]:
    return (*TOOL_FLAGS, *_PLAIN_LOGS, *shared_classes(release))


def _java(release: str, flags: tuple[str, ...]) -> list[str]:
    major = release.partition(".")[0]
    setting, logging = (
        ("log4j2.configurationFile", "logging_4.properties")
        if major == "4"
        else ("log4j.configuration", "logging_3.properties")
    )
    return ["java", *flags, TEMPORARY_FILES, f"-D{setting}=file:{Path(__file__).with_name(logging)}"]
