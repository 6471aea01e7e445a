"""Errors whose messages are for users."""


class UserError(Exception):
    """Something that a user asked for cannot be done; the message is for the user.

    The command line prints the message and exits with status 1.
    """
