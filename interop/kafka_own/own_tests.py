"""Apache Kafka's own integration tests, run against kafkapy.

Maven has them, as jars of the classifier `test`. Their classes that start a cluster are replaced by those in
`java/`, which come earlier on the class path.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from interop.kafka_own.outcomes import Outcome, Verdict
from interop.support.java_programs import compiled_classes
from interop.support.kafka_jars import RELEASE, TEMPORARY_FILES
from interop.support.maven import CACHE, Coordinates, copy_jars

CLUSTER_TESTS: Final = ("kafka-clients-integration-tests", "kafka-server", "kafka-tools", "kafka_2.13")
STREAMS_TESTS: Final = "kafka-streams-integration-tests"
"""The artifacts with tests of clusters, and of Kafka Streams."""
ARTIFACTS: Final = (*CLUSTER_TESTS, STREAMS_TESTS)

_HELPERS: Final = ("kafka-clients", "kafka-metadata", "kafka-server-common", "kafka-streams")
"""Artifacts whose tests have classes that the tests of others use."""

_TOGETHER_WITH: Final = (
    Coordinates("org.apache.kafka", "kafka-test-common-runtime", RELEASE),
    Coordinates("org.apache.kafka", "kafka-streams", RELEASE),
    Coordinates("org.apache.kafka", "kafka-streams-scala_2.13", RELEASE),
    Coordinates("org.apache.kafka", "kafka-streams-test-utils", RELEASE),
    Coordinates("org.apache.kafka", "kafka-tools", RELEASE),
    Coordinates("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    Coordinates("org.mockito", "mockito-core", "5.20.0"),
    # It wants another release of JUnit than the tests.
    Coordinates(
        "org.mockito", "mockito-junit-jupiter", "5.20.0", (("org.junit.jupiter", "junit-jupiter-api"),)
    ),
    Coordinates("junit", "junit", "4.13.2"),
    Coordinates("org.hamcrest", "hamcrest", "3.0"),
    Coordinates("org.junit.platform", "junit-platform-console", "1.13.1"),
)
_FOLDER: Final = Path(__file__).parent
_CHECKOUT: Final = _FOLDER.parents[1]
_SECONDS_OF_A_TEST: Final = 180
_FLAGS: Final = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx1g", "-Djava.awt.headless=true"),
    # Mockito attaches itself.
    "-XX:+EnableDynamicAgentLoading",
    "-Djunit.jupiter.extensions.autodetection.enabled=true",
    f"-Djunit.jupiter.execution.timeout.default={_SECONDS_OF_A_TEST} s",
    "-Dlog4j2.configurationFile=file:" + str(_CHECKOUT / "interop" / "support" / "logging_4.properties"),
)


def own_test_jars() -> Path:
    """The folder with the tests' jars, fetched on first use; raises JarsUnavailableError."""
    tests = [
        Coordinates("org.apache.kafka", name, RELEASE, classifier="test") for name in (*ARTIFACTS, *_HELPERS)
    ]
    return copy_jars([*tests, *_TOGETHER_WITH], CACHE / "kafka-own" / RELEASE)


def classes_with_tests(artifact: str) -> list[str]:
    """The classes of an artifact whose tests start a cluster."""
    jar = own_test_jars() / f"{artifact}-{RELEASE}-test.jar"
    marks = [b"integration/utils/EmbeddedKafkaCluster"]
    if artifact != STREAMS_TESTS:
        marks = [
            b"org/apache/kafka/common/test/api/ClusterTest",
            b"org/apache/kafka/common/test/api/ClusterTemplate",
        ]
    with zipfile.ZipFile(jar) as archive:
        found = {
            name.removesuffix(".class").replace("/", ".")
            for name in archive.namelist()
            if name.endswith(".class") and any(mark in archive.read(name) for mark in marks)
        }
    return sorted(name for name in found if name.endswith("Test"))


def run(classes: Sequence[str], folder: Path, *, seconds: float | None = None) -> list[Outcome]:
    """Run the tests of these classes, one after the other in one JVM.

    `folder` gets the reports, and what the tests and kafkapy print. A run that ends without a report has
    hung, or Java could not run: this raises RuntimeError; TimeoutError after `seconds`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    jars = own_test_jars()
    replaced = compiled_classes(sorted((_FOLDER / "java").rglob("*.java")), jars)
    kafkapy = f"{sys.executable}\n-m\ninterop.kafka_own.brokers"
    command = ["java", *_FLAGS, TEMPORARY_FILES, f"-Dkafkapy.command={kafkapy}"]
    command += [f"-Dkafkapy.output={folder / 'kafkapy.out'}", "-cp", f"{replaced}:{jars}/*"]
    command += ["org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner"]
    command += ["--reports-dir", str(folder), "--details", "none"]
    command += [part for name in classes for part in ("--select-class", name)]
    with (folder / "java.out").open("wb") as output:
        try:
            # The brokers end when the JVM does, which it does at once when it is killed.
            subprocess.run(
                command,
                cwd=_CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired as expired:
            raise TimeoutError(f"{', '.join(classes)} took longer than {seconds:.0f} s") from expired
    report = folder / "TEST-junit-jupiter.xml"
    if not report.exists():
        raise RuntimeError(f"no report of {', '.join(classes)}; see {folder / 'java.out'}")
    return list(_outcomes(report))


def _outcomes(report: Path) -> Iterator[Outcome]:
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("skipped") is not None:
            continue
        name = re.match(r"\w+", case.attrib["name"])
        assert name, case.attrib["name"]
        test = f"{case.attrib['classname'].rpartition('.')[2]}.{name[0]}"
        problem = next(
            (each for each in (case.find("failure"), case.find("error")) if each is not None), None
        )
        if problem is None:
            verdict, message = Verdict.PASSED, ""
        else:
            verdict, message = _why(problem)
        yield Outcome(test, verdict, message)


def _why(problem: ElementTree.Element) -> tuple[Verdict, str]:
    trace = problem.text or ""
    for pattern, verdict in _VERDICTS.items():
        if found := re.search(pattern, trace):
            return verdict, found[1]
    message = problem.attrib.get("message", "") or trace.partition("\n")[0]
    return Verdict.FAILED, " ".join(message.split())


_VERDICTS: Final = {
    r"\.NeedsTheInside: (.*)": Verdict.NEEDS_THE_INSIDE,
    # Metrics of a broker that runs in the JVM of the test.
    r": (Unable to find metric .*|metric not found.*)": Verdict.NEEDS_THE_INSIDE,
    r"\.NotServed: (.*)": Verdict.NOT_SERVED,
}
