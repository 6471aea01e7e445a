"""A web access log as a Spark data frame: the same rows for the same seed, on any machine.

Every column is computed from the row's number by hashing, so that a million rows need no driver memory and
any part can be made again to compare with. Shaped like a real log in the combined format: few clients make
most requests, few pages get most of them, robots and errors occur, the time stands in the line.

    key      the client's address: one client's requests share a partition
    value    the log line, with the row's number as the last field
    headers  the host that was asked, and a trace id
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

_FIRST_SECOND = 1_760_000_000

_PAGES = (
    "/",
    "/index.html",
    "/search?q=kafka",
    "/products/1701",
    "/products/42?ref=mail",
    "/basket",
    "/checkout",
    "/static/app.js",
    "/static/style.css",
    "/images/logo.png",
    "/api/v1/stock",
    "/robots.txt",
    "/größe?maß=1",
)
_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/141.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 Mobile",
    "curl/8.5.0",
    "ExampleBot/2.1 (+http://bot.example/about)",
)
_STATUSES = ("200", "200", "200", "200", "200", "200", "304", "302", "404", "500")


def access_log(spark: SparkSession, first: int, last: int, seed: int) -> DataFrame:
    """Return rows `first` to `last` (exclusive) for Spark's Kafka sink: key, value, headers."""

    def draw(name: str, count: int, skew: int = 1) -> str:
        """A number below `count` drawn for the row; a skew above 1 favours low numbers."""
        uniform = f"(pmod(xxhash64(id, {seed}, '{name}'), 1000003) / 1000003.0)"
        return f"int(floor(power({uniform}, {skew}) * {count}))"

    def one_of(name: str, values: tuple[str, ...], skew: int = 1) -> str:
        listed = ", ".join(f"'{value}'" for value in values)
        return f"element_at(array({listed}), {draw(name, len(values), skew)} + 1)"

    client = draw("client", 40_000, 3)
    address = f"concat_ws('.', '10', {client} div 65536, ({client} div 256) % 256, {client} % 256)"
    # A request every 25 ms on average, up to two seconds late in the log.
    second = f"{_FIRST_SECOND} + int((id * 25 - {draw('late', 2_000)}) div 1000)"
    time = f"date_format(timestamp_seconds({second}), 'dd/MMM/yyyy:HH:mm:ss Z')"
    line = f"""concat(
        address, ' - ', if({draw("user", 10)} = 0, concat('user', {draw("name", 500)}), '-'),
        ' [', {time}, '] "', {one_of("method", ("GET", "GET", "GET", "POST", "HEAD"))}, ' ',
        {one_of("page", _PAGES, 2)}, ' HTTP/1.1" ', {one_of("status", _STATUSES)}, ' ',
        {draw("size", 90_000, 4)}, ' "-" "', {one_of("agent", _AGENTS, 2)}, '" ', id
    )"""
    host = one_of("host", ("www.example", "api.example"))
    headers = f"""array(
        named_struct('key', 'host', 'value', encode({host}, 'utf-8')),
        named_struct('key', 'trace', 'value', unhex(lpad(hex(xxhash64(id, {seed}, 'trace')), 16, '0')))
    )"""
    return (
        spark.range(first, last, numPartitions=4)
        .withColumn("address", f.expr(address))
        .select(
            f.expr("encode(address, 'utf-8')").alias("key"),
            f.expr(f"encode({line}, 'utf-8')").alias("value"),
            f.expr(headers).alias("headers"),
        )
    )


Fingerprint = dict[str, int]


def fingerprint_columns() -> list[Column]:
    """Return aggregates that are equal if the rows are the same, in any order."""
    number = f.expr("bigint(substring_index(decode(value, 'utf-8'), ' ', -1))")
    content = f.xxhash64("key", "value", "headers")
    return [
        f.count("*").alias("rows"),
        f.min(number).alias("first"),
        f.max(number).alias("last"),
        f.sum(content.cast("decimal(38, 0)")).cast("string").alias("sum"),
        f.bit_xor(content).alias("xor"),
    ]


def fingerprint(rows: DataFrame) -> Fingerprint:
    (row,) = rows.agg(*fingerprint_columns()).collect()
    return {name: int(value) for name, value in row.asDict().items()}
