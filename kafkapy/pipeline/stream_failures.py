"""Explains why a streaming query ended, in one line with a remedy.

It also tells whether starting the query again may help.

Spark wraps the cause in several exceptions, each with its own traces; `causes` unwraps them. Sources of the
names: Spark's error conditions (KAFKA_DATA_LOSS and others of the Kafka source), Kafka's clients
(org.apache.kafka.common.errors), Delta (io.delta.exceptions), Iceberg (org.apache.iceberg.exceptions).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kafkapy.errors import UserError
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import LimitError, PipelineError
from kafkapy.pipeline.reset_command import reset_command
from kafkapy.spark.installation import ICEBERG


@dataclass(frozen=True)
class Failure:
    """An explained failure.

    `passing` means that it may go away by itself, as when a broker restarts.
    """

    error: PipelineError
    passing: bool = False


@dataclass(frozen=True)
class _Known:
    """A known failure.

    `pattern` is searched in the text `class: message` of each cause.
    """

    pattern: re.Pattern[str]
    told: str
    passing: bool = False


# The first entry that matches any cause counts.
_KNOWN: Final = (
    _Known(
        # py4j's errors when the JVM is gone. They cannot come from the broker: only Java connects to it.
        re.compile(r"^(Py4JNetworkError|Connection\w*Error|BrokenPipeError): "),
        "Spark's JVM has ended; it may have been killed for its memory (spark: {{spark.driver.memory: 2g}} "
        "limits it); start the pipeline again: it continues where it stopped",
    ),
    _Known(
        re.compile(r"No space left on device|Disk quota exceeded"),
        "the disk is full ({line}); free some space and start again: it continues where it stopped",
    ),
    _Known(
        re.compile(r"No module named '"),
        "the Python of Spark's executors lacks a module ({line}); install it on every worker, as here: "
        "pip install '.[spark]' in a checkout (spark: {{spark.pyspark.python: PATH}} names that Python)",
    ),
    _Known(
        re.compile(r"NoClassDefFoundError: software/amazon/awssdk/\S*?(?=[\]\s]|$)"),
        "Spark lacks the jar of Iceberg's clients of AWS ({found}); bring that of Iceberg's version: spark: "
        f"{{{{spark.jars.packages: org.apache.iceberg:iceberg-aws-bundle:{ICEBERG}}}}}",
    ),
    _Known(
        re.compile(r"java\.lang\.OutOfMemoryError"),
        "Spark ran out of memory; give it more (spark: {{spark.driver.memory: 4g}}) or smaller batches "
        "(max_offsets_per_trigger)",
    ),
    _Known(
        re.compile(r"(?:\w+:)?/[^\n]*?/_kafkapy/tombstones/part-[^\s/]*\.parquet"),
        "a file of the tombstones that were read before is damaged; delete {found} and start again, then "
        "audit the table: a key that is in several partitions may be back",
    ),
    _Known(
        re.compile(r"KAFKA_DATA_LOSS|OffsetOutOfRangeException|Cannot fetch offset|may have been lost"),
        "the topic {topic} no longer has the next offsets to read ({line}); to continue with what is there: "
        "{available}",
        # If records are really lost, `positions.py` finds and names them before the query is started again.
        passing=True,
    ),
    _Known(
        re.compile(r"(SaslAuthentication|SslAuthentication|(Topic|Group|Cluster)Authorization)Exception"),
        "the broker refuses this client ({line}); see kafka: in the definition",
    ),
    _Known(
        # The names of conditions are not in the texts of Spark 4.0. It passes if the broker is restarting.
        # It stays if partitions were added after a batch was killed (SPARK-53560), which `positions.py` finds
        # before the query is started again.
        re.compile(r"WITH_TRIGGER_AVAILABLENOW|_AND_PREFETCHED|_THAN_PREFETCHED|Trigger\.AvailableNow"),
        "the partitions of {topic} are not those that Spark planned with ({line}); run the pipeline without "
        "--once until it has caught up",
        passing=True,
    ),
    _Known(
        re.compile(
            r"common\.errors\.(Timeout|Disconnect|Network|LeaderNotAvailable|NotLeaderOrFollower|Retriable"
            r"|UnknownTopicOrPartition|CoordinatorNotAvailable|KafkaStorage)\w*Exception"
            r"|java\.net\.(Connect|SocketTimeout)Exception|java\.util\.concurrent\.TimeoutException"
            r"|Cannot fetch record for offset|No resolvable bootstrap urls"
        ),
        "the broker at {bootstrap} does not respond properly ({line})",
        passing=True,
    ),
    _Known(
        re.compile(r"ExecutorLostFailure|ExecutorDeadException|Checkpoint block rdd_"),
        "executors were lost ({line})",
        passing=True,
    ),
    _Known(
        # The checkpoint has the batch already: this driver stood still, and another one has taken over.
        re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|Concurrent update to the log"),
        "another driver has written this batch meanwhile ({line}); this one writes no more; start it again "
        "if no other runs",
    ),
    _Known(
        re.compile(
            r"io\.delta\.exceptions\.Concurrent|org\.apache\.spark\.sql\.delta\.Concurrent"
            r"|CommitFailedException|iceberg\.exceptions\.ValidationException"
        ),
        "something else changed the table at the same time ({line})",
        passing=True,
    ),
)


# Messages of `topics.py` and `formats/registry.py` about servers that restart, and librdkafka's error texts.
_AWAY: Final = re.compile(
    r"cannot reach a Kafka broker|the schema registry \S+ (cannot be reached|answered 5)"
    r"|failed: Broker: (Leader not available|Not leader for|Coordinator (not avail|load)|Request timed out)"
)


# Lines that say nothing by themselves, the last line of Python's traceback, the words before a task's cause
_EMPTY: Final = re.compile(r"stack trace below|^Traceback |An error occurred while calling o\d+\.")
_PYTHONS_ERROR: Final = re.compile(r"(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): ")
_TASK: Final = re.compile(r"^(?:Job aborted due to stage failure: .* executor \w+\)|An error occurred)?: ")


def explain(error: BaseException, definition: PipelineDefinition) -> Failure:
    """Explains `error`, which a batch raised or the query ended with."""
    found = _explain(error, definition)
    return Failure(type(found.error)(definition.redacted(str(found.error))), found.passing)


def _explain(error: BaseException, definition: PipelineDefinition) -> Failure:
    if isinstance(error, LimitError):
        return Failure(error)
    if isinstance(error, UserError):
        return Failure(PipelineError(str(error)), passing=_AWAY.search(str(error)) is not None)
    found = list(causes(error))
    told = {
        "available": reset_command(definition.table.folder, "available"),
        "topic": definition.topic,
        "location": definition.table.folder,
        "bootstrap": definition.bootstrap,
    }
    for known in _KNOWN:
        for name, message in reversed(found):  # the innermost is the cause; outer ones quote it within theirs
            if match := known.pattern.search(f"{name}: {message}"):
                line = _short(name, message, known.pattern)
                text = known.told.format(line=line, found=match[0], **told)
                return Failure(PipelineError(f"{definition.name}: {text}"), known.passing)
    name, message = found[-1]
    return Failure(PipelineError(f"{definition.name}: Spark failed: {_short(name, message)}"))


def causes(error: BaseException) -> Iterator[tuple[str, str]]:
    """Class and message of an error and of all its causes, Java's included, outermost first."""
    from py4j.protocol import Py4JError, Py4JJavaError

    yield type(error).__name__, str(error)
    thrown: Any = getattr(error, "java_exception", None)
    origin = getattr(error, "_origin", None)  # pyspark's CapturedException keeps the Java exception
    if thrown is None and origin is not None:
        thrown = origin.java_exception if isinstance(origin, Py4JJavaError) else origin
    try:
        for _ in range(20):
            if thrown is None:
                break
            yield thrown.getClass().getName(), str(thrown.getMessage())
            thrown = thrown.getCause()
    except (Py4JError, OSError):  # the JVM has ended
        return
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier is not None:
        yield from causes(earlier)


def _short(name: str, message: str, pattern: re.Pattern[str] | None = None) -> str:
    """One line without Java's packages: `DeltaConcurrentModificationException: the table ...`.

    It is the message's first line, or the one with `pattern`. A traceback of Python begins with words that
    say nothing, and ends with the error.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    line = next(
        (line for line in lines if pattern is not None and pattern.search(line)), lines[0] if lines else ""
    )
    if _EMPTY.search(line):
        line = next((one for one in reversed(lines) if _PYTHONS_ERROR.match(one)), line)
    if _PYTHONS_ERROR.match(line):
        return line if len(line) <= 300 else f"{line[:297]}..."
    line = _TASK.sub("", line)
    text = f"{name.rpartition('.')[2]}: {line}" if line and line != "null" else name.rpartition(".")[2]
    return text if len(text) <= 300 else f"{text[:297]}..."
