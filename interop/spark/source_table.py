"""A table of a database and the changes of it, as Debezium writes them.

Rows are inserted, updated, deleted and inserted again, some get another key, and after a while the table
gets another column. The first rows are read by a snapshot. A delete is followed by a tombstone, and a change
of the key is a delete of the former and a create of the new one. Now and then the connector begins again a
little earlier, and the last changes are there twice. Source: Debezium 3, the connector for PostgreSQL.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]
Record = tuple[bytes, bytes | None]

_KINDS = {"id": "int32", "name": "string", "amount": "int64", "note": "string"}


class SourceTable:
    """The table; `rows` are by key."""

    def __init__(self, seed: int, *, with_schema: bool) -> None:
        self._chance, self._with_schema = random.Random(seed), with_schema
        self.rows: dict[int, Row] = {}
        self._next, self._lsn, self._wide = 0, 10_000, False

    def changes(self, count: int) -> Iterator[Record]:
        """About so many records, in the order of the source's log."""
        sent: list[Record] = []
        for _ in range(count // 10):
            sent += self._event("r", None, self._insert())
        while len(sent) < count:
            before = len(sent)
            self._wide = self._wide or len(sent) > count // 2
            sent += self._change()
            if self._chance.random() < 0.002:
                yield from sent
                count -= len(sent)
                # Whole changes: a connector notes its position after all events of one.
                sent = sent[max(0, before - 50) :] if before > 50 else []
        yield from sent

    def _change(self) -> list[Record]:
        dice, known = self._chance.random(), list(self.rows)[-2_000:]
        if dice < 0.3 or not known:
            return self._event("c", None, self._insert())
        key = self._chance.choice(known)
        before = self.rows[key]
        if dice < 0.7:
            after = self._row(key)
            self.rows[key] = after
            return self._event("u", before, after)
        del self.rows[key]
        deleted = [*self._event("d", before, None), (self._key(key), None)]
        if dice < 0.85:
            return deleted
        after = self._row(key if dice < 0.93 else self._new_key())  # inserted again, or with another key
        self.rows[after["id"]] = after
        return [*deleted, *self._event("c", None, after)]

    def _insert(self) -> Row:
        row = self._row(self._new_key())
        self.rows[row["id"]] = row
        return row

    def _new_key(self) -> int:
        self._next += 1
        return self._next

    def _row(self, key: int) -> Row:
        row: Row = {"id": key, "name": f"n{self._chance.random()}", "amount": self._chance.randrange(2**60)}
        if self._chance.random() < 0.1:
            row["name"] = None
        if self._wide:
            row["note"] = f"new {key}"
        return row

    def _event(self, operation: str, before: Row | None, after: Row | None) -> list[Record]:
        self._lsn += 8
        source = {"connector": "postgresql", "ts_ms": self._lsn, "lsn": self._lsn, "table": "orders"}
        event = {"before": before, "after": after, "source": source, "op": operation, "ts_ms": self._lsn}
        row = after or before
        assert row is not None
        if self._with_schema:
            fields = [{"type": _KINDS[name], "optional": name != "id", "field": name} for name in row]
            rows = [
                {"type": "struct", "fields": fields, "optional": True, "field": name}
                for name in ("before", "after")
            ]
            schema = {"type": "struct", "fields": rows, "optional": False, "name": "shop.orders.Envelope"}
            return [(self._key(row["id"]), json.dumps({"schema": schema, "payload": event}).encode())]
        return [(self._key(row["id"]), json.dumps(event).encode())]

    def _key(self, key: int) -> bytes:
        return json.dumps({"id": key}).encode()
