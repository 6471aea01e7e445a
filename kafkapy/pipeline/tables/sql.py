"""Spark SQL's notation for names, types and values, and temporary session settings."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def dotted(path: tuple[str, ...]) -> str:
    return ".".join(quoted(name) for name in path)


def text(value: str) -> str:
    """A string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def ddl(kind: DataType) -> str:
    """The type as DDL, with every name in it quoted.

    Types that differ only in nullability have the same DDL.
    """
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{quoted(field.name)}: {ddl(field.dataType)}' for field in kind)}>"
    if isinstance(kind, ArrayType):
        return f"array<{ddl(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{ddl(kind.keyType)}, {ddl(kind.valueType)}>"
    return str(kind.simpleString())


@contextlib.contextmanager
def settings(session: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Sets options of a session for a while, and restores their former values."""
    before = {name: session.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, former in before.items():
            if former is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, former)


def first_line(error: Exception) -> str:
    """The first line of an error in SQL, without Spark's error class and SQLSTATE."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return re.sub(r"^\[[A-Z0-9_.]+\] |\.? SQLSTATE: .*$", "", line)
