"""The login of this broker at another one by Kerberos: GSSAPI, from the client's side.

It shows the principal of the line for clients, and the other broker must prove that it has a key of the same
service at its own host. Source: RFC 4752, Java's GssKrb5Client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kafkapy.security.sasl.client_login import ClientLogin, ClientLoginError
from kafkapy.security.sasl.kerberos.exchange import NO_LAYER, KerberosError, SecurityContext


class KerberosLogin(ClientLogin):
    """A login that proves a ticket."""

    def __init__(self, context: SecurityContext) -> None:
        self._context = context
        self._has_chosen = False

    async def first(self) -> bytes:
        return await self._told(lambda: self._context.step(None)) or b""

    async def answer(self, token: bytes) -> bytes | None:
        if self._has_chosen:
            if token:
                raise ClientLoginError("it answers the choice of a layer with a token")
            return None
        if not self._context.is_complete:
            return await self._told(lambda: self._context.step(token)) or b""
        return await self._told(lambda: self._choose(token))

    def _choose(self, token: bytes) -> bytes:
        offer = self._context.unwrap(token)
        if not offer or not offer[0] & NO_LAYER:
            raise KerberosError("it demands a layer of its own")
        self._has_chosen = True
        return self._context.wrap(bytes([NO_LAYER, 0, 0, 0]))

    @staticmethod
    async def _told(call: Callable[[], bytes | None]) -> bytes | None:
        """The result of a call in a thread, since it may read files and wait for a ticket."""
        try:
            return await asyncio.get_running_loop().run_in_executor(None, call)
        except KerberosError as error:
            raise ClientLoginError(str(error)) from None
