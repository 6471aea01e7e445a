"""Spark for kafkapy: a session with the right jars, topics as data frames, and a doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkapy.spark.checks import Check, check_setup, doctor
    from kafkapy.spark.sessions import brief_session, defaults_file, require, session
    from kafkapy.spark.setup_error import SparkSetupError
    from kafkapy.spark.source import read_topic

__all__ = [
    "Check",
    "SparkSetupError",
    "brief_session",
    "check_setup",
    "defaults_file",
    "doctor",
    "read_topic",
    "require",
    "session",
]

_MODULES = {
    "Check": "checks",
    "SparkSetupError": "setup_error",
    "brief_session": "sessions",
    "check_setup": "checks",
    "defaults_file": "sessions",
    "doctor": "checks",
    "read_topic": "source",
    "require": "sessions",
    "session": "sessions",
}


def __getattr__(name: str) -> object:
    # Imported on first use, so that the command line can check the machine before it imports pyspark.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"kafkapy.spark.{_MODULES[name]}"), name)
