"""The error that says why a log cannot be read from its files."""

from kafkapy.errors import UserError


class LogSourceError(UserError):
    """A log cannot be read: it does not exist, or is damaged.

    The message is one line.
    """
