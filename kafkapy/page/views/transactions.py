"""Transactions: their states, their producers, and the partitions that they write to."""

from __future__ import annotations

import time
from typing import Final

from kafkapy.commands.units import duration_text
from kafkapy.page.call import Answer, Call
from kafkapy.page.views.paging import paged

_SIZE: Final = 50
_OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


def view(call: Call) -> Answer:
    name, only_open = call.text("name"), call.text("open") == "1"
    with call.sources.wire.admin() as admin, admin.calls() as client:
        found = client.list_transactions(broker_ids=admin.broker_ids())
        listed = sorted(
            (
                each
                for transactions in found.values()
                for each in transactions
                if name.lower() in each.transactional_id.lower()
                and (not only_open or each.state.value in _OPEN)
            ),
            key=lambda each: str(each.transactional_id),
        )
        page = paged(listed, call.number("page", 1), _SIZE)
        names = [each.transactional_id for each in page.items]
        described = client.describe_transactions(names) if names else {}
    rows = []
    for each in page.items:
        details = described.get(each.transactional_id)
        began = -1 if details is None else details.transaction_start_time_ms
        rows.append(
            {
                "listed": each,
                "details": details,
                "open_for": duration_text(time.time() - began / 1000)
                if began > 0 and each.state.value in _OPEN
                else None,
            }
        )
    return Answer(
        "transactions.html",
        {"title": "Transactions", "page": page, "rows": rows, "name": name, "only_open": only_open},
    )
