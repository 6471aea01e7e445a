"""Log lines: how they are set up, shortened, written in a thread; the logger of requests.

REQUESTS logs the requests that are slow and, at level DEBUG, all of them. It has a level of its own, so that
`--log-level debug` does not log every request; so it is with Apache Kafka's `kafka.request.logger`. A client
with the right to may set it while the broker runs (configs/loggers.py).
"""

from __future__ import annotations

import logging
from typing import Final

REQUESTS: Final = logging.getLogger("kafkapy.request")

if REQUESTS.level == logging.NOTSET:
    REQUESTS.setLevel(logging.INFO)
