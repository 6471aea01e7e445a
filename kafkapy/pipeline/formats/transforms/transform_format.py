"""Computes the rows of a table from the parsed columns by SQL: `select`, `where`.

Expressions see the columns of the value, and the record's own: `_topic`, `_partition`, `_offset`,
`_timestamp`, `_key`, `_headers`. Each record becomes one row or none, and always the same one: what makes
several rows of one or one of several, or depends on chance or the time, is refused.

An expression that fails for a record (a division by zero, a cast) makes an error of this record alone. Spark
has no such thing in SQL, but Catalyst's `TryEval`, on which its `try_` functions rest. Everything is computed
within a branch of a CASE: there Spark does not take a common part of two expressions out of the `TryEval`.

Expressions may name rows of other tables, each a struct that is null if there is none (`lookup.py`). Such a
table changes, so what is parsed again for a comparison (`reparse`) looks at none: what `select` computes from
it is null, and a record that `where` may have left out by it is `_undecided`.

A null value has no columns: its row stays null, and `where` sees nulls, also before any value has told what
columns there are. A record that `where` does not let
pass keeps the columns to match by, if there are any, as an upsert table may have a row of this key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkapy.pipeline.formats.format import Format
from kafkapy.pipeline.formats.spark_types import Struct, checked_columns, nullable
from kafkapy.pipeline.formats.transforms.lookup import Lookup
from kafkapy.pipeline.join_definition import JoinedTable
from kafkapy.pipeline.pipeline_error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    Tables = Mapping[str, DataFrame]

_STAR: Final = re.compile(r"\*(?:\s+EXCEPT\s*\(.*\))?", re.IGNORECASE | re.DOTALL)
_RECORD: Final = "kafkapy: record"
_COMPUTED: Final = "kafkapy: computed"
_UNFIT_NAME: Final = re.compile(r"[ ,;{}()\n\t=]")
_MOST_NAMES: Final = 100
# Expressions whose value is that of the moment, by the end of their class names.
_OF_THE_MOMENT: Final = re.compile(
    r"\.(Current\w+|Now|LocalTimestamp|UnixTimestampNow|SparkVersion|InputFileName|InputFileBlock\w+)$"
)


class TransformFormat(Format):
    def __init__(
        self,
        inner: Format,
        select: Sequence[str],
        where: str | None,
        keys: Collection[str],
        taken: Collection[str],
        joined: Sequence[JoinedTable] = (),
    ) -> None:
        """`keys` are the columns to match by.

        `taken` are the names, in lower case, that the table has for itself. `joined` are the tables that the
        expressions may name.
        """
        self._inner, self._select, self._where = inner, tuple(select), where
        self._lookups = [Lookup(one) for one in joined]
        self._keys, self._taken = {key.lower() for key in keys}, taken
        self._checked: tuple[Any, Struct] | None = None

    def check(self) -> None:
        self._inner.check()

    @property
    def columns(self) -> Struct | None:
        """None without a session too, which alone knows the types of expressions."""
        from pyspark.sql import SparkSession

        data, session = self._inner.columns, SparkSession._instantiatedSession
        return (
            None if data is None or session is None else self._columns_of(session, data, self._read(session))
        )

    def learn(self, parsed: DataFrame) -> bool:
        return self._inner.learn(parsed)

    def parse(self, records: DataFrame) -> DataFrame:
        return self._transformed(self._inner.parse(records))

    def reparse(self, records: DataFrame) -> DataFrame:
        return self._transformed(self._inner.reparse(records), comparing=True)

    def joined_columns(self, spark: SparkSession) -> set[str]:
        """The columns of the rows that are computed from other tables, in lower case."""
        data = self._inner.columns
        if data is None or not self._lookups or not self._select:
            return set()
        plain = _no_rows(spark, data, {})
        columns = self._columns_of(spark, data, self._read(spark))["fields"]
        texts = [one for text in self._select for one in self._expanded(spark, data, text)]
        return {
            one["name"].lower()
            for text, one in zip(texts, columns, strict=True)
            if not _resolves(plain, text)
        }

    def _read(self, spark: SparkSession) -> Tables:
        """The other tables as they are now."""
        return {one.name: one.read(spark) for one in self._lookups}

    def _columns_of(self, spark: SparkSession, data: Struct, tables: Tables) -> Struct:
        """The columns of the rows, for these of the values and of the other tables."""
        known = data, {name: rows.schema for name, rows in tables.items()}
        if self._checked is None or self._checked[0] != known:
            self._checked = known, self._analysed(spark, data, tables)
        return self._checked[1]

    def _analysed(self, spark: SparkSession, data: Struct, tables: Tables) -> Struct:
        """Checks the expressions on no rows, and returns their columns."""
        from pyspark.errors import PySparkException

        from kafkapy.pipeline.tables.sql import first_line

        self._check_matches(spark, data, tables)
        plain, rows = _no_rows(spark, data, {}), _no_rows(spark, data, tables)
        found = []
        for key, texts in (("where", [self._where] if self._where else []), ("select", self._select)):
            for text in texts:
                try:
                    selected = rows.select(*_expressions(self._expanded(spark, data, text)))
                except PySparkException as error:
                    raise PipelineError(f"{key}: {text}: {first_line(error)}") from None
                _check_plan(f"{key}: {text}", selected)
                if key == "where" and selected.schema[0].dataType.typeName() != "boolean":
                    raise PipelineError(f"where: {text}: expected a condition, which is true or false")
                if key == "select":
                    found += json.loads(selected.schema.json())["fields"]
                    if self._keys.intersection(map(str.lower, selected.columns)) and not (
                        _STAR.fullmatch(text.strip()) or _resolves(plain, text)
                    ):
                        raise PipelineError(
                            f"key: {text} is computed from a joined table, whose rows may change; rows are "
                            "matched by what the record itself has"
                        )
        if not self._select:
            return data
        for one in found:
            if _UNFIT_NAME.search(one["name"]):
                raise PipelineError(f"select: {one['name']}: name its column: {one['name']} AS NAME")
            if one["type"] == "void":
                raise PipelineError(f"select: {one['name']}: null has no type; write CAST(NULL AS TYPE)")
        try:
            columns = nullable(checked_columns({"type": "struct", "fields": found}, self._taken))
        except PipelineError as error:
            raise PipelineError(f"select: {error}") from None
        assert isinstance(columns, dict)
        return columns

    def _check_matches(self, spark: SparkSession, data: Struct, tables: Tables) -> None:
        """Raises PipelineError if a table cannot be joined by what its `match` names."""
        from pyspark.errors import PySparkException

        from kafkapy.pipeline.tables.sql import first_line

        rows = _no_rows(spark, data, {})
        present = {name.lower() for name in rows.columns}
        for one in self._lookups:
            if one.name.lower() in present:
                raise PipelineError(f"join.{one.name}: the values have a column of that name; take another")
            kinds = []
            for _, text in one.joined.match:
                try:
                    selected = rows.select(*_expressions([text]))
                except PySparkException as error:
                    raise PipelineError(f"join.{one.name}.match: {text}: {first_line(error)}") from None
                _check_plan(f"join.{one.name}.match: {text}", selected)
                kinds.append(selected.schema[0].dataType)
            one.check_types(kinds, tables[one.name].schema)

    def _expanded(self, spark: SparkSession, data: Struct, text: str) -> list[str]:
        """The expressions of one item of `select`; `*` are the columns of the value."""
        from pyspark.sql.types import StructType

        from kafkapy.pipeline.tables.sql import quoted

        if not _STAR.fullmatch(text.strip()):
            return [text]
        values = spark.createDataFrame([], StructType.fromJson(nullable(data)))
        return [quoted(name) for name in values.selectExpr(text).columns]

    def _transformed(self, parsed: DataFrame, *, comparing: bool = False) -> DataFrame:
        from pyspark.sql import functions as f
        from pyspark.sql.types import StructType

        from kafkapy.pipeline.formats.outcomes import WHERE
        from kafkapy.pipeline.tables.sql import quoted
        from kafkapy.pipeline.tables.table import RECORD_COLUMNS

        spark = parsed.sparkSession
        data: Struct = json.loads(parsed.schema["_data"].dataType.json())
        known = bool(data["fields"])  # which no value was valid for so far
        tables = self._read(spark)
        columns = self._columns_of(spark, data, tables) if known else data
        select, where = (self._select, self._where) if known else ((), self._where)
        own = [f.col(name.removeprefix("_")).alias(name) for name in RECORD_COLUMNS.names]
        opened = parsed.select(f.struct(*parsed.columns).alias(_RECORD), "_data.*", *own)
        plain = _no_rows(spark, data, {})
        joins = known and not comparing
        if not joins:
            opened = opened.select(
                "*", *(f.lit(None).cast(rows.schema).alias(name) for name, rows in tables.items())
            )
        if not known and where is not None:
            opened = opened.select("*", *_unknown(opened, where))
            where = where if _computes(opened, where) else "false"

        def of(name: str) -> Column:
            return f.col(f"{quoted(_RECORD)}.{quoted(name)}")

        left_out = of("_left_out") if "_left_out" in parsed.columns else f.lit(None).cast("string")
        deletes = of("_deleted") if "_deleted" in parsed.columns else f.lit(False)
        undecided = comparing and known and where is not None and not _resolves(plain, where)
        if undecided:
            where = None
        passes = f.lit(True) if where is None else f.coalesce(f.expr(where), f.lit(False))
        texts = [one for text in select for one in self._expanded(spark, data, text)]
        if comparing and tables:
            texts = [text if _resolves(plain, text) else "NULL" for text in texts]
        values = [
            f.expr(text).alias(one["name"]) for text, one in zip(texts, columns["fields"], strict=False)
        ]
        computed = [passes.alias("passes")]
        if values:
            row = f.struct(*values)
            keys = f.struct(
                *(
                    value if one["name"].lower() in self._keys else f.lit(None).alias(one["name"])
                    for value, one in zip(values, columns["fields"], strict=True)
                )
            )
            row = (
                f.when(passes | deletes, row).otherwise(keys) if self._keys else f.when(passes | deletes, row)
            )
            computed.append(f.when(of("value").isNotNull(), row).alias("row"))
        # A delete by the record's key has no row to compute from.
        wanted = of("_error").isNull() & left_out.isNull() & ~(deletes & of("_data").isNull())
        unmatched: Column = f.lit(None).cast("string")
        for one in self._lookups if joins else ():
            key = _tried(spark, one.key_of_records(tables[one.name].schema))
            opened = one.join(opened.withColumn(one.key, f.when(wanted, key)), tables[one.name])
            unmatched = f.coalesce(unmatched, f.when(wanted, one.error()))
        wanted &= unmatched.isNull()
        opened = opened.withColumn(_COMPUTED, f.when(wanted, _tried(spark, f.struct(*computed))))
        result = f.col(quoted(_COMPUTED))
        problems = {f"where: {where}": passes} if where else {}
        problems |= {f"select: {text}": value for text, value in zip(texts, values, strict=True)}
        failed = f.coalesce(
            *(
                f.when(_tried(spark, f.struct(value)).isNull(), f"cannot be computed with {text}")
                for text, value in problems.items()
            ),
            f.lit("cannot be computed"),
        )
        error = f.when(wanted & result.isNull(), failed)
        dropped = f.when(~result["passes"] & ~deletes, WHERE)
        changed = {
            "_error": f.coalesce(of("_error"), unmatched, error),
            "_left_out": f.coalesce(left_out, dropped),
            "_data": result["row"] if values else of("_data"),
        }
        kept = [of(name).alias(name) for name in parsed.columns if name not in changed]
        kind = StructType.fromJson(columns)
        changed["_data"] = f.when(changed["_error"].isNull(), changed["_data"].cast(kind))
        if undecided:
            changed["_undecided"] = wanted & ~deletes & of("value").isNotNull()
        return opened.select(*kept, *(value.alias(name) for name, value in changed.items()))


def _no_rows(spark: SparkSession, data: Struct, tables: Tables) -> DataFrame:
    """No rows, with the columns of a value, those of the record, and `tables`."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructField, StructType

    from kafkapy.pipeline.tables.table import RECORD_COLUMNS

    fields = [*StructType.fromJson(nullable(data)), *RECORD_COLUMNS]
    fields += [StructField(name, rows.schema) for name, rows in tables.items()]
    return spark.range(0).select(*(f.lit(None).cast(one.dataType).alias(one.name) for one in fields))


def _expressions(texts: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions as f

    return [f.expr(text) for text in texts]


def _resolves(rows: DataFrame, text: str) -> bool:
    """Whether these rows have all columns that an expression names."""
    from pyspark.errors import AnalysisException

    try:
        rows.select(*_expressions([text]))
    except AnalysisException:
        return False
    return True


def _unknown(rows: DataFrame, text: str) -> list[Column]:
    """The columns that an expression names and `rows` lacks, all null.

    No value has told their types so far. A name with dots is that of a field within structs.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    found: dict[str, Any] = {}

    def nulls() -> list[Column]:
        return [f.expr(_null(fields)).alias(name) for name, fields in found.items()]

    for _ in range(_MOST_NAMES):
        try:
            rows.select("*", *nulls()).select(f.expr(text))
        except AnalysisException as error:
            named = error.getMessageParameters().get("objectName", "")
            path = [one.replace("``", "`") for one in re.findall(r"`((?:[^`]|``)+)`", named)]
            if not path or path[0] in rows.columns:
                break
            place = found
            for name in path:
                place = place.setdefault(name, {})
        else:
            break
    return nulls()


def _null(fields: Mapping[str, Any]) -> str:
    """The SQL for a null, or for a null struct with these fields."""
    from kafkapy.pipeline.tables.sql import text

    if not fields:
        return "NULL"
    inner = ", ".join(f"{text(name)}, {_null(one)}" for name, one in fields.items())
    return f"IF(true, NULL, named_struct({inner}))"


def _computes(rows: DataFrame, text: str) -> bool:
    """Whether an expression has a value of true, false or null."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    try:
        return rows.select(f.expr(text)).schema[0].dataType.typeName() in ("boolean", "void")
    except PySparkException:
        return False


def _tried(spark: SparkSession, column: Column) -> Column:
    """The column, or null where its computation fails."""
    from pyspark.sql import Column

    from kafkapy.pipeline.java_classes import java_class

    columns: Any = java_class(spark, "org.apache.spark.sql.classic.ExpressionUtils")
    trying: Any = java_class(spark, "org.apache.spark.sql.catalyst.expressions.TryEval")
    return Column(columns.column(trying(columns.expression(column._jc))))


def _check_plan(text: str, selected: DataFrame) -> None:
    """Raises PipelineError unless one record gives one row, which is always the same."""
    plan = selected._jdf.queryExecution().analyzed()
    names = set(_classes(json.loads(plan.toJSON())))
    kinds = {name.rpartition(".")[2] for name in names}
    if kinds & {"Aggregate", "Window", "Generate"}:
        raise PipelineError(f"{text}: makes one row of several, or several of one; a record is one row")
    if any("Subquery" in kind for kind in kinds):
        raise PipelineError(f"{text}: has a subquery, which is not possible here")
    if not plan.deterministic() or any(_OF_THE_MOMENT.search(name) for name in names):
        raise PipelineError(
            f"{text}: gives another value each time, and a batch may run again; use what the record has, "
            "such as _timestamp"
        )


def _classes(tree: Any) -> Iterator[str]:
    """The names of the classes in a plan's JSON, those of expressions too."""
    if isinstance(tree, list):
        for one in tree:
            yield from _classes(one)
    elif isinstance(tree, dict):
        if isinstance(name := tree.get("class"), str):
            yield name
        for one in tree.values():
            yield from _classes(one)
