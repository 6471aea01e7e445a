"""Errors whose messages are for users."""

from typing import ClassVar


class UserError(Exception):
    """Something that a user asked for cannot be done; the message is for the user.

    The command line prints the message and exits with `exit_status`.
    """

    exit_status: ClassVar[int] = 1
