"""Log lines of the process: for people (text) or for machines (json), on standard error.

text: `2026-05-01 10:00:00.123 WARNING kafkapy.server: Closing the connection of 10.0.0.7:51234: idle`
json: one object a line: time (ISO 8601, UTC), level, logger, message, and exception where there is one.

A message that holds text from a client is shown with its control characters escaped, so that no request can
forge a log line.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Final

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")

_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127)}


def setup_logging(level: str, style: str) -> None:
    """Send log lines of `level` and above to standard error in `style`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if style == "json" else _TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # It tells its selector at debug level, nothing of ours.
    logging.getLogger("asyncio").setLevel(logging.INFO)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        message = record.getMessage().translate(_CONTROL)
        line = f"{moment}.{int(record.msecs):03d} {record.levelname} {record.name}: {message}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)
