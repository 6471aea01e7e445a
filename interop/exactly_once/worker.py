"""A process of the workload: a bank, or a copier of the bank's ledger.

python -m interop.exactly_once.worker '{"kind": "bank", "name": "bank-1.1", ...}'

The bank moves money between accounts: a transaction holds some hundred transfers, each of two records, in
partitions by account; what is taken from one account is given to another. The copier reads the ledger as a
member of a group, and writes each record, with the offsets that it committed, in transactions to the topic of
copies. Both abort a part of their transactions. SIGTERM ends them after the transaction at work.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interop.exactly_once.journal import SUFFIX, Journal
from interop.exactly_once.transactions import (
    AbortNeededError,
    FencedError,
    GroupReader,
    Outgoing,
    Transactions,
)
from tests.promises.history import Partition, Source

FENCED: Final = 3
"""The exit status of a worker that was fenced."""
LEDGER: Final = "ledger"
COPIES: Final = "copies"
GROUP: Final = "copiers"
ACCOUNTS: Final = 50


@dataclass(frozen=True)
class Order:
    """What a worker is to do."""

    kind: str
    name: str
    """Of this process; the producer of the history."""
    transactional_id: str
    servers: str
    folder: str
    """Of the journals."""
    seed: int
    partitions: int
    records: int
    """At most in a transaction."""
    aborted: float
    """This share of the transactions."""
    pause: float
    """Seconds between transactions."""


class Worker(ABC):
    """One transaction after the other, until it is to stop."""

    def __init__(self, order: Order, transactions: Transactions) -> None:
        self.order, self.transactions = order, transactions
        self.chance = random.Random(order.seed)
        self.stopping = threading.Event()

    def work(self) -> None:
        while not self.stopping.wait(self.order.pause):
            try:
                self.one()
            except AbortNeededError as problem:
                print(f"{self.order.name}: {problem}", flush=True)
                self.give_up()

    @abstractmethod
    def one(self) -> None:
        """Do a transaction."""

    def give_up(self) -> None:
        """Abort."""
        self.transactions.abort()

    def end(self) -> None:
        """Commit or abort."""
        if self.chance.random() < self.order.aborted:
            self.give_up()
        else:
            self.transactions.commit()


class Bank(Worker):
    """Writes the ledger."""

    def one(self) -> None:
        transfers = self.chance.randint(1, self.order.records // 2)
        self.transactions.begin()
        self.transactions.send([each for _ in range(transfers) for each in self._transfer()])
        self.end()

    def _transfer(self) -> list[Outgoing]:
        giver, taker = self.chance.sample(range(ACCOUNTS), 2)
        amount = self.chance.randint(1, 1000)
        return [self._entry(giver, -amount), self._entry(taker, amount)]

    def _entry(self, account: int, amount: int) -> Outgoing:
        value = f"{account} {amount} {'.' * self.chance.randrange(100)}".encode()
        return Outgoing((LEDGER, account % self.order.partitions), value)


class Copier(Worker):
    """Copies the ledger."""

    def __init__(self, order: Order, transactions: Transactions) -> None:
        super().__init__(order, transactions)
        self._reader = GroupReader(order.servers, GROUP, LEDGER)

    def work(self) -> None:
        super().work()
        self._reader.close()

    def one(self) -> None:
        messages, membership = self._reader.read(self.chance.randint(1, self.order.records))
        if not messages:
            return
        copies: list[Outgoing] = []
        offsets: dict[Partition, int] = {}
        for message in messages:
            place = (str(message.topic()), int(message.partition() or 0))
            offset, value = int(message.offset() or 0), message.value() or b""
            copies.append(Outgoing((COPIES, place[1]), value, Source(GROUP, place, offset)))
            offsets[place] = offset + 1
        self.transactions.begin()
        self.transactions.send(copies)
        self.transactions.send_offsets(membership, GROUP, offsets)
        self.end()

    def give_up(self) -> None:
        super().give_up()
        self._reader.rewind()


def amounts(value: bytes) -> tuple[int, int]:
    """The account and the amount of a record of the ledger, or of its copy."""
    account, amount, _ = value.split(b" ", 2)
    return int(account), int(amount)


def main(order: Order) -> int:
    journal = Journal(Path(order.folder, order.name + SUFFIX))
    kinds = {"bank": Bank, "copier": Copier}
    try:
        worker = kinds[order.kind](
            order, Transactions(order.name, order.transactional_id, order.servers, journal)
        )
        signal.signal(signal.SIGTERM, lambda *_: worker.stopping.set())
        worker.work()
    except FencedError as problem:
        print(f"{order.name} is fenced: {problem}", flush=True)
        return FENCED
    return 0


if __name__ == "__main__":
    sys.exit(main(Order(**json.loads(sys.argv[1]))))
