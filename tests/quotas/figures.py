"""Questions about quotas as lines of text, and kafkapy's answers to them.

Apache Kafka's own classes answer the same lines (interop/quotas/Quotas.java, which has the format).
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from kafkapy.metadata.quotas import CLIENT_ID, USER
from kafkapy.quotas import ClientQuotaType
from kafkapy.quotas.default_callback import DefaultQuotaCallback
from kafkapy.quotas.rate import Rate
from kafkapy.quotas.token_bucket import TokenBucket

_NAMES = ("alice", "bob")
_ENTITIES = [
    (user, client)
    for user in ("-", "*", *_NAMES)
    for client in ("-", "*", *_NAMES)
    if (user, client) != ("-", "-")
]


def questions(seed: int, count: int) -> Iterator[str]:
    """`count` questions of each kind."""
    chance = random.Random(seed)
    for _ in range(count):
        yield _of_times("rate", chance, chance.choice((1_000, 50_000, 0.5)))
    for _ in range(count):
        yield _of_times("bucket", chance, chance.choice((0.5, 2, 10)))
    for _ in range(count):
        chosen = chance.sample(_ENTITIES, chance.randint(0, 6))
        quotas = [f"{user},{client},{chance.randint(1, 10**6)}" for user, client in chosen]
        names = chance.choice(("-", *_NAMES, "carol")), chance.choice(("-", *_NAMES, "carol"))
        yield " ".join(("quota", *quotas, "/", *names))


def _of_times(kind: str, chance: random.Random, limit: float) -> str:
    windows, seconds = chance.choice(((11, 1), (11, 1), (3, 2), (1, 1), (2, 5)))
    now_ms, records = 1_700_000_000_000, []
    scale = limit * chance.choice((0.3, 2, 20)) if kind == "rate" else limit * 5
    for _ in range(chance.randint(5, 60)):
        now_ms += chance.choice((0, 1, 37, 400, 999, 1000, 1001, 2500, 11_000, 30_000))
        value = chance.randint(-1 if kind == "rate" else 0, 10) * max(int(scale), 1)
        records.append(f"{now_ms}:{value}")
    return " ".join((kind, str(windows), str(seconds), str(limit), *records))


def answer(question: str) -> str:
    """kafkapy's answer."""
    kind, *words = question.split(" ")
    if kind == "quota":
        return _quota(words)
    windows, window_ms, limit = int(words[0]), int(words[1]) * 1000, float(words[2])
    records = [(int(ms), float(value)) for ms, value in (word.split(":") for word in words[3:])]
    answers = []
    if kind == "rate":
        rate = Rate(windows, window_ms)
        for ms, value in records:
            rate.record(value, ms)
            answers.append(rate.throttle_ms(limit, ms))
    else:
        bucket = TokenBucket(windows, window_ms)
        for ms, value in records:
            answers.append(bucket.throttle_ms(limit, ms))
            if bucket.tokens(limit, ms) >= 0:
                bucket.take(value, limit, ms)
    return " ".join(map(str, answers))


def _quota(words: list[str]) -> str:
    kind, callback = ClientQuotaType.PRODUCE, DefaultQuotaCallback()
    for word in words[: words.index("/")]:
        user, client, limit = word.split(",")
        names = {USER: user, CLIENT_ID: client}
        entity = {each: None if name == "*" else name for each, name in names.items() if name != "-"}
        callback.update_quota(kind, entity, float(limit))
    user, client = ("" if name == "-" else name for name in words[-2:])
    found = callback.quota_limit(kind, callback.quota_metric_tags(kind, f"User:{user}", client))
    return "-" if found is None else str(found)
