"""Apache Kafka's own integration tests, run against kafkapy.

Maven has them, as jars of the classifier `test`. Their classes that start a cluster are replaced by those in
`java/`, which come earlier on the class path.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from interop.kafka_own.class_header import ClassHeader
from interop.kafka_own.outcomes import Outcome, Verdict
from interop.support.java_programs import compiled_classes
from interop.support.kafka_jars import RELEASE, TEMPORARY_FILES
from interop.support.maven import CACHE, Coordinates, copy_jars

_SCALA_TESTS: Final = "kafka_2.13"
ARTIFACTS: Final = (
    "kafka-clients-integration-tests",
    "kafka-server",
    "kafka-tools",
    _SCALA_TESTS,
    "kafka-streams-integration-tests",
)
"""The artifacts with tests of clusters."""

_HELPERS: Final = (
    "kafka-clients",
    "kafka-metadata",
    "kafka-server-common",
    "kafka-storage-api",
    "kafka-streams",
)
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
    # It wants another log than the tests.
    Coordinates("no.nav.security", "mock-oauth2-server", "2.2.1", (("ch.qos.logback", "logback-classic"),)),
    # Tests with logins name its classes, whether they use Kerberos or not.
    *(
        Coordinates(
            "org.apache.directory.server", name, "2.0.0-M24", (("org.bouncycastle", "bcprov-jdk15on"),)
        )
        for name in (
            "apacheds-core-api",
            "apacheds-interceptor-kerberos",
            "apacheds-jdbm-partition",
            "apacheds-ldif-partition",
            "apacheds-mavibot-partition",
            "apacheds-protocol-kerberos",
            "apacheds-protocol-ldap",
            "apacheds-protocol-shared",
        )
    ),
    # What Apache's directory server loads by its name: without it, no Kerberos server starts.
    Coordinates("org.apache.directory.api", "api-ldap-codec-standalone", "1.0.0"),
    Coordinates("org.bouncycastle", "bcpkix-jdk18on", "1.80"),
    Coordinates("junit", "junit", "4.13.2"),
    Coordinates("org.hamcrest", "hamcrest", "3.0"),
    Coordinates("org.junit.platform", "junit-platform-console", "1.13.1"),
)
_MARKS: Final = (
    b"org/apache/kafka/common/test/api/ClusterTest",
    b"org/apache/kafka/common/test/api/ClusterTemplate",
    b"integration/utils/EmbeddedKafkaCluster",
)
"""What the classes with tests name."""
_HARNESS: Final = "kafka/server/QuorumTestHarness"
"""The superclass of those that name none of these."""
_FOLDER: Final = Path(__file__).parent
_CHECKOUT: Final = _FOLDER.parents[1]
_SECONDS_OF_A_TEST: Final = 180
_SECONDS_OF_A_START: Final = 600
_FLAGS: Final = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx1g", "-Djava.awt.headless=true"),
    # Mockito attaches itself.
    "-XX:+EnableDynamicAgentLoading",
    # The Kerberos server of the tests looks at Java's own classes.
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djunit.jupiter.extensions.autodetection.enabled=true",
    f"-Djunit.jupiter.execution.timeout.default={_SECONDS_OF_A_TEST} s",
    # What begins a class loads most of Apache Kafka's classes first, which a busy machine does slowly.
    f"-Djunit.jupiter.execution.timeout.lifecycle.method.default={_SECONDS_OF_A_START} s",
    f"-Dlog4j2.configurationFile=file:{_FOLDER / 'logging.properties'}",
)


def own_test_jars() -> Path:
    """The folder with the tests' jars, fetched on first use; raises JarsUnavailableError."""
    tests = [
        Coordinates("org.apache.kafka", name, RELEASE, classifier="test") for name in (*ARTIFACTS, *_HELPERS)
    ]
    return copy_jars([*tests, *_TOGETHER_WITH], CACHE / "kafka-own" / RELEASE)


def classes_with_tests(artifact: str) -> list[str]:
    """The classes of an artifact whose tests start a cluster."""
    contents = _class_files(artifact)
    known = {**_class_files(_SCALA_TESTS), **contents}
    return sorted(
        name.replace("/", ".")
        for name, content in contents.items()
        if name.endswith("Test")
        and not (header := ClassHeader.of(content)).is_abstract
        and (any(mark in content for mark in _MARKS) or _is_of_harness(header, known))
    )


@cache
def _class_files(artifact: str) -> dict[str, bytes]:
    """The class files of an artifact's tests, by their names with slashes for dots."""
    with zipfile.ZipFile(own_test_jars() / f"{artifact}-{RELEASE}-test.jar") as archive:
        names = [name for name in archive.namelist() if name.endswith(".class")]
        return {name.removesuffix(".class"): archive.read(name) for name in names}


def _is_of_harness(header: ClassHeader, known: Mapping[str, bytes]) -> bool:
    """Whether a class is a subclass of the harness."""
    while header.superclass in known:
        if header.superclass == _HARNESS:
            return True
        header = ClassHeader.of(known[header.superclass])
    return False


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
