"""The error that says why a log cannot be read from its files."""

from kafkapy.errors import UserError


class LogSourceError(UserError):
    """The data directory lacks what was asked for, or a file of it is damaged; one line."""
