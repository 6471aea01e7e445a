"""One line for each failure of Spark: what happened, and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.pipeline import PipelineDefinition
from kafkapy.pipeline.stream_failures import Failure, explain

pytest.importorskip("py4j")

DEFINITION = PipelineDefinition.from_mapping({"topic": "orders", "table": "delta:the lake/orders"})


class JavaError:
    """A Java exception as py4j shows it."""

    def __init__(self, name: str, message: str | None, cause: JavaError | None = None) -> None:
        self._name, self._message, self._cause = name, message, cause

    def getClass(self) -> Any:  # noqa: N802 - Java's name
        return self

    def getName(self) -> str:  # noqa: N802
        return self._name

    def getMessage(self) -> str | None:  # noqa: N802
        return self._message

    def getCause(self) -> JavaError | None:  # noqa: N802
        return self._cause


class CallError(Exception):
    """py4j's error of a call, whose text is the Java stack trace."""

    def __init__(self, call: str, java_exception: JavaError) -> None:
        trace = (
            f"{java_exception.getName()}: {java_exception.getMessage()}\n\tat org.apache.spark.Some.method"
        )
        super().__init__(f"An error occurred while calling {call}.\n: {trace}")
        self.java_exception = java_exception


def explained(*causes: tuple[str, str]) -> Failure:
    java = None
    for name, message in reversed(causes):
        java = JavaError(name, message, java)
    assert java is not None
    return explain(CallError("o9026.save", java), DEFINITION)


def test_a_full_disk_is_told_in_the_words_of_its_cause() -> None:
    task = (
        "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task"
    )
    told = str(
        explained(
            (
                "org.apache.spark.SparkException",
                f"{task} 0.0 in stage 3.0 (TID 7) (localhost executor driver): java.io.IOException: "
                "No space left on device\n\tat java.base/java.io.FileOutputStream.writeBytes",
            ),
        ).error
    )
    assert told == (
        "orders: the disk is full (SparkException: java.io.IOException: No space left on device); "
        "free some space and start again: it continues where it stopped"
    )
    told = str(
        explained(
            ("org.apache.spark.SparkException", "Writing job aborted"),
            ("java.io.IOException", "No space left on device"),
        ).error
    )
    assert "the disk is full (IOException: No space left on device)" in told


def test_executors_without_kafkapy_are_told_what_they_lack() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "worker.py", line 1227, in main\n'
        "ModuleNotFoundError: No module named 'kafkapy'"
    )
    told = str(
        explained(
            ("org.apache.spark.SparkException", f"Job aborted due to stage failure: {trace}"),
            ("org.apache.spark.api.python.PythonException", trace),
        ).error
    )
    assert told.startswith(
        "orders: the Python of Spark's executors lacks a module "
        "(ModuleNotFoundError: No module named 'kafkapy'); install it on every worker"
    )


def test_a_glue_catalog_without_its_clients_names_their_jar() -> None:
    text = (
        "Cannot initialize Catalog implementation org.apache.iceberg.aws.glue.GlueCatalog: Cannot find "
        "constructor for interface org.apache.iceberg.catalog.Catalog\n\tMissing org.apache.iceberg.aws.glue."
        "GlueCatalog [java.lang.NoClassDefFoundError: software/amazon/awssdk/services/glue/model/Some]"
    )
    told = str(explained(("java.lang.IllegalArgumentException", text)).error)
    assert told == (
        "orders: Spark lacks the jar of Iceberg's clients of AWS (NoClassDefFoundError: software/amazon/"
        "awssdk/services/glue/model/Some); bring that of Iceberg's version: spark: "
        "{spark.jars.packages: org.apache.iceberg:iceberg-aws-bundle:1.11.0}"
    )


def test_an_error_in_a_worker_is_its_last_line() -> None:
    told = str(
        explained(
            (
                "org.apache.spark.api.python.PythonException",
                "An exception was thrown from the Python worker. Please see the stack trace below.\n"
                "Traceback (most recent call last):\n"
                '  File "x.py", line 3, in f\n'
                "ValueError: 17 is odd\n",
            ),
        ).error
    )
    assert told == "orders: Spark failed: ValueError: 17 is odd"


def test_a_reset_is_named_as_a_shell_takes_it() -> None:
    failure = explained(
        ("org.apache.spark.SparkException", "[KAFKA_DATA_LOSS.X] Some data may have been lost")
    )
    assert failure.passing
    assert str(failure.error).endswith("kafkapy pipeline reset 'the lake/orders' --to available")


def test_spark_4_0_names_no_condition_of_partitions_that_were_added() -> None:
    text = "Kafka data source in Trigger.AvailableNow should provide the same topic partitions in pre-fetched"
    failure = explained(("org.apache.spark.SparkException", text))
    assert failure.passing
    assert "the partitions of orders are not those that Spark planned with" in str(failure.error)


@pytest.mark.parametrize("condition", ["[CONCURRENT_STREAM_LOG_UPDATE] ", ""])
def test_a_driver_that_another_one_has_succeeded_writes_no_more(condition: str) -> None:
    text = f"{condition}Concurrent update to the log. Multiple streaming jobs detected for 3."
    failure = explained(("org.apache.spark.SparkException", text))
    assert not failure.passing
    assert "another driver has written this batch meanwhile" in str(failure.error)
