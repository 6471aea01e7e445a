"""Why a log cannot be read from its files."""

from kafkapy.errors import UserError


class LogSourceError(UserError):
    """What was asked for is not in the data directory, or a file of it is damaged; one line."""
