"""A web server's access log, the same rows for the same number at every call, made inside Spark.

Each row is a request: a visitor comes back and back (50,000 of them, some far more often than others), pages
have their own popularity, sizes and status codes, time goes on unevenly. The value is a line in the Combined
Log Format; the key is the visitor; headers carry the request id and the region; the timestamp is the request's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FIRST_REQUEST_MS = 1_790_000_000_000
MEAN_GAP_MS = 40

_PAGES = (
    "/",
    "/search",
    "/search?q=python",
    "/item/%d",
    "/item/%d/reviews",
    "/basket",
    "/checkout",
    "/feed.xml",
)
_AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (iPhone)", "curl/8.5.0", "FeedReader/2.1 (+bot)")
_REGIONS = ("eu-central", "eu-west", "us-east", "ap-south")


def web_log(spark: SparkSession, rows: int) -> DataFrame:
    """Columns key, value, headers, timestamp, as Spark's Kafka sink takes them."""
    from pyspark.sql import functions as F  # noqa: N812

    def draw(salt: str, below: int) -> Column:
        return F.pmod(F.xxhash64("id", F.lit(salt)), F.lit(below))

    def choose(salt: str, choices: tuple[str, ...]) -> Column:
        # The product of two draws favours the first choices.
        index = (draw(salt, 1000) * draw(salt + "'", 1000) * len(choices) / 1_000_000).cast("int")
        return F.element_at(F.array(*map(F.lit, choices)), index + 1)

    at_ms = F.lit(FIRST_REQUEST_MS) + F.col("id") * MEAN_GAP_MS + draw("jitter", 4 * MEAN_GAP_MS)
    visitor = (draw("visitor", 1000) * draw("again", 1000) / 20).cast("int")
    status = F.when(draw("status", 100) < 92, 200).when(draw("status", 100) < 97, 404).otherwise(503)
    requests = spark.range(rows).select(
        F.concat(F.lit("visitor-"), visitor.cast("string")).alias("visitor"),
        F.format_string("10.%d.%d.%d", (visitor / 6000).cast("int"), visitor % 77, visitor % 253).alias(
            "address"
        ),
        F.timestamp_millis(at_ms).alias("at"),
        F.regexp_replace(choose("page", _PAGES), "%d", draw("item", 9000).cast("string")).alias("page"),
        status.alias("status"),
        (draw("size", 300) * draw("size'", 300) + 180).alias("size"),
        choose("agent", _AGENTS).alias("agent"),
        F.lpad(F.hex(F.xxhash64("id", F.lit("request"))), 16, "0").alias("request"),
        choose("region", _REGIONS).alias("region"),
    )
    line = F.format_string(
        '%s - - [%s] "GET %s HTTP/1.1" %d %d "-" "%s"',
        "address",
        F.date_format("at", "dd/MMM/yyyy:HH:mm:ss Z"),
        "page",
        "status",
        "size",
        "agent",
    )
    headers = F.array(
        F.struct(F.lit("request-id").alias("key"), F.encode("request", "UTF-8").alias("value")),
        F.struct(F.lit("region").alias("key"), F.encode("region", "UTF-8").alias("value")),
    )
    return requests.select(
        F.encode("visitor", "UTF-8").alias("key"),
        F.encode(line, "UTF-8").alias("value"),
        headers.alias("headers"),
        F.col("at").alias("timestamp"),
    )
