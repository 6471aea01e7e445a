"""The brokers of `kafkapy run`, and what they do wrong on purpose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafkapy.errors import UserError
from kafkapy.remote.address import BROKERS, FAULTS
from kafkapy.remote.client import ask, spoken

_SECONDS: Final = 5.0
"""How long a list may take."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What a broker does wrong; `hits` of the `asked` that it concerns have met it."""

    number: int
    text: str
    hits: int
    asked: int


@dataclass(frozen=True, slots=True)
class Breakable:
    """A broker that can be broken; `problem` says why its faults are not known."""

    number: int
    state: str
    cut_off_from: Sequence[int]
    faults: Sequence[Fault]
    problem: str


class Faults:
    """Asks the process of `kafkapy run` at `url`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def brokers(self) -> list[Breakable]:
        """All brokers with their faults; raises UserError."""
        try:
            return [self._broker(told) for told in self._get(BROKERS)["brokers"]]
        except (TypeError, ValueError):
            raise UserError(f"{self._url} serves no brokers of kafkapy run") from None

    def of_all(self) -> list[Fault]:
        """The faults that all brokers have together; raises UserError."""
        return self._listed(FAULTS)

    def add(self, broker: int | None, of: str, do: str, arguments: Iterable[str]) -> None:
        """Switch a fault of a broker on, or of all; raises UserError."""
        ask(self._url, "POST", _faults_of(broker), spoken(of, do, arguments))

    def remove(self, broker: int | None, number: int) -> None:
        """Switch a fault of a broker off, or of all; raises UserError."""
        ask(self._url, "DELETE", f"{_faults_of(broker)}/{number}")

    def do(self, broker: int, action: str) -> None:
        """Kill, start, pause … a broker; raises UserError."""
        ask(self._url, "POST", f"{BROKERS}/{broker}", {"do": action})

    def _get(self, path: str) -> Any:
        return ask(self._url, "GET", path, seconds=_SECONDS)

    def _broker(self, told: Any) -> Breakable:
        number, problem = int(told["broker"]), ""
        faults: list[Fault] = []
        try:
            faults = self._listed(_faults_of(number))
        except UserError as error:
            problem = str(error)
        return Breakable(number, told["state"], told["cut_off_from"], faults, problem)

    def _listed(self, path: str) -> list[Fault]:
        told = self._get(path)["faults"]
        return [Fault(each["number"], each["fault"], each["hits"], each["asked"]) for each in told]


def _faults_of(broker: int | None) -> str:
    return FAULTS if broker is None else f"{BROKERS}/{broker}{FAULTS}"
