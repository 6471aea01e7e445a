"""The error of `kafkapy export` and `kafkapy import`."""

from kafkapy.errors import UserError


class TravelError(UserError):
    """A directory cannot be exported or imported; nothing was changed, unless the message says so."""
