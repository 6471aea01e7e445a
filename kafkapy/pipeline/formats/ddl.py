"""Spark's DDL for schemas, read without Spark: `id BIGINT NOT NULL, tags ARRAY<STRING>`.

Names may be quoted with backticks, and a colon may follow any name. COMMENTs are ignored. CHAR(n) and
VARCHAR(n) become STRING.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from kafkapy.pipeline.formats.spark_types import (
    NAMES,
    SparkType,
    Struct,
    array,
    decimal,
    field,
    map_of,
    struct_of,
)
from kafkapy.pipeline.pipeline_error import PipelineError, did_you_mean

_SIMPLE: Final = {sql.lower(): name for name, sql in NAMES.items()} | {
    "byte": "byte",
    "short": "short",
    "integer": "integer",
    "long": "long",
    "real": "float",
    "timestamp_ltz": "timestamp",
}
_KNOWN: Final = (*_SIMPLE, "decimal", "char", "varchar", "array", "map", "struct")
_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<word>\w+)|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<sign>[<>(),:-]))",
    re.UNICODE,
)


def parse_ddl(text: str) -> Struct:
    """The struct that the DDL describes.

    Raises PipelineError with the place of a mistake.
    """
    return _Parser(text).schema()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split(text)
        self._next = 0

    def _split(self, text: str) -> list[tuple[str, int, bool]]:
        """Each token, where it begins, and whether it stood in backticks."""
        tokens, position, end = [], 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                self._fail("unexpected", position)
            quoted = match["quoted"]
            token = quoted[1:-1].replace("``", "`") if quoted else match[0].strip()
            tokens.append((token, match.start(match.lastgroup or 0), bool(quoted)))
            position = match.end()
        return tokens

    def _fail(self, problem: str, position: int) -> NoReturn:
        rest = self._text[position:].strip()
        found = f" {rest[:30]!r}" if rest else " at the end"
        raise PipelineError(f"the schema is not DDL: {problem}{found}; for example: id BIGINT, name STRING")

    def _fail_here(self, problem: str) -> NoReturn:
        at = self._tokens[self._next][1] if self._next < len(self._tokens) else len(self._text)
        self._fail(problem, at)

    def _peek(self) -> str:
        """The next token in small letters, '' at the end and for a name in backticks."""
        if self._next >= len(self._tokens) or self._tokens[self._next][2]:
            return ""
        return self._tokens[self._next][0].lower()

    def _take(self, *expected: str) -> bool:
        if self._peek() in expected:
            self._next += 1
            return True
        return False

    def _require(self, sign: str) -> None:
        if not self._take(sign):
            self._fail_here(f"expected {sign!r}, not")

    def schema(self) -> Struct:
        if self._peek() == "struct" and len(self._tokens) > 1 and self._tokens[1][0] == "<":
            self._next += 1
            return self._finished(self._struct())
        return self._finished(struct_of(self._fields()))

    def _finished(self, schema: Struct) -> Struct:
        if self._next < len(self._tokens):
            self._fail_here("unexpected")
        return schema

    def _struct(self) -> Struct:
        self._require("<")
        fields = [] if self._peek() == ">" else self._fields()
        self._require(">")
        return struct_of(fields)

    def _fields(self) -> list[dict[str, object]]:
        fields = [self._field()]
        while self._take(","):
            fields.append(self._field())
        return fields

    def _field(self) -> dict[str, object]:
        if self._next >= len(self._tokens):
            self._fail_here("expected a name")
        name, _, quoted = self._tokens[self._next]
        if not quoted and not re.fullmatch(r"\w+", name):
            self._fail_here("expected a name, not")
        self._next += 1
        self._take(":")
        kind = self._type(name)
        nullable = True
        if self._take("not"):
            self._require("null")
            nullable = False
        if self._take("comment"):
            while self._peek().startswith(("'", '"')):  # '' within a text makes it two
                self._next += 1
        return field(name, kind, nullable=nullable)

    def _type(self, name: str) -> SparkType:
        word = self._peek()
        if not re.fullmatch(r"\w+", word):
            self._fail_here(f"expected the type of {name}, not")
        if word not in _KNOWN and word not in ("dec", "numeric"):
            raise PipelineError(
                f"the schema is not DDL: {name} has an unknown type {word.upper()!r}"
                f"{did_you_mean(word, _KNOWN)}"
            )
        self._next += 1
        if word in _SIMPLE:
            return _SIMPLE[word]
        if word in ("char", "varchar"):
            self._numbers()
            return "string"
        if word in ("decimal", "dec", "numeric"):
            precision, scale = [*self._numbers(), 10, 0][:2] if self._peek() == "(" else (10, 0)
            return decimal(precision, scale)
        if word == "struct":
            return self._struct()
        self._require("<")
        first = self._type(name)
        if word == "array":
            self._require(">")
            return array(first)
        self._require(",")
        value = self._type(name)
        self._require(">")
        return map_of(first, value)

    def _numbers(self) -> list[int]:
        """`(10, 2)`; one number is `(10)`, whose scale is 0."""
        self._require("(")
        numbers = []
        while not self._take(")"):
            if not self._peek().isdigit():
                self._fail_here("expected a number, not")
            numbers.append(int(self._peek()))
            self._next += 1
            self._take(",")
        return [*numbers, 0][:2]
