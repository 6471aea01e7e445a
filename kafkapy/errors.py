"""The errors that a person is meant to read."""


class UserError(Exception):
    """What was asked for cannot be done; one line that names the mistake and the remedy.

    The command line prints it as it is and exits with status 1; a program catches it.
    """
