"""`python -m interop.spark.flights [--bootstrap HOST:PORT] [--flights N]`"""

from __future__ import annotations

import argparse
import os

from interop.spark.flights.produce import produce

parser = argparse.ArgumentParser(
    prog="python -m interop.spark.flights",
    description="Write departures from New York in 2013, planes and airports to a broker.",
)
default = os.environ.get("KAFKAPY_BOOTSTRAP", "127.0.0.1:9092")
parser.add_argument("--bootstrap", default=default, metavar="HOST:PORT")
parser.add_argument("--flights", type=int, default=20_000, metavar="N", help="of 336,776; default: 20000")
arguments = parser.parse_args()
for topic, count in produce(arguments.bootstrap, arguments.flights).items():
    print(f"{topic}: {count:,} records")
