"""Sets up logging on standard error: as text for people, or as JSON for machines.

text: `2026-05-01 10:00:00.123+0200 WARNING kafkapy.network.server: Cannot accept connections: …`, local time
json: one object per line with time (ISO 8601, UTC), level, logger, message, and exception if there is one,
      and the fields of the line, which are logged as extra={"fields": {…}}

Control characters in messages are escaped, so that text from a client cannot forge a log line.

Standard error never blocks the process: lines are queued, and dropped if standard error is not read
(logs/line_writer.py).
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Final

from kafkapy.logs.line_writer import LineWriter

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")

_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    code: f"\\u{code:04x}" for code in (*range(0x2028, 0x202F), *range(0x2066, 0x206A))
}
"""Controls of terminals, ends of lines, and changes of the direction of writing."""


EXIT_SECONDS: Final = 2.0
"""How many seconds the process waits for its last lines to be read."""


def setup_logging(level: str, style: str) -> LineWriter:
    """Send log lines of `level` and above to standard error in `style`; return the writer."""
    formatter = _JsonFormatter() if style == "json" else _TextFormatter()
    writer = LineWriter(sys.stderr, lambda count: formatter.format(_about_dropped(count)))
    handler = _QueueingHandler(writer)
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # At debug level, asyncio logs only its choice of a selector.
    logging.getLogger("asyncio").setLevel(logging.INFO)
    return writer


class _QueueingHandler(logging.Handler):
    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception as error:  # logging's own handling would write to standard error, and block
            line = f"A log line of {record.pathname}:{record.lineno} cannot be formatted: {error!r}"
        self._writer.write(line)

    def flush(self) -> None:
        """Called when the process ends."""
        self._writer.flush(EXIT_SECONDS)


def _about_dropped(count: int) -> logging.LogRecord:
    message = "%d log lines were dropped: standard error was not read"
    return logging.LogRecord(__name__, logging.WARNING, __file__, 0, message, (count,), None)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        local = time.localtime(record.created)
        moment, zone = time.strftime("%Y-%m-%d %H:%M:%S", local), time.strftime("%z", local)
        message = record.getMessage().translate(_CONTROL)
        line = f"{moment}.{int(record.msecs):03d}{zone} {record.levelname} {record.name}: {message}"
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
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)
