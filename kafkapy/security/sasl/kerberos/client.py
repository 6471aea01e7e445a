"""The login of this broker at another server by Kerberos: GSSAPI, from the client's side.

It shows the principal of its line, and the server must prove that it has a key of the service that was asked
for at its own host. Source: RFC 4752, Java's GssKrb5Client.
"""

from __future__ import annotations

import asyncio

from kafkapy.security.sasl.client_login import ClientLogin, ClientLoginError
from kafkapy.security.sasl.kerberos.exchange import NO_LAYER, KerberosError, SecurityContext


class TicketProof:
    """The tokens that prove a ticket, one after the other."""

    def __init__(self, context: SecurityContext) -> None:
        self._context = context
        self._has_chosen = False

    def answer(self, token: bytes | None) -> bytes | None:
        """The answer to a token, or the first token; None after the last one.

        It may read files and wait for a ticket.

        Raises:
            KerberosError: the server has not proved its name, or wants what it must not.
        """
        if self._has_chosen:
            if token:
                raise KerberosError("it answers the choice of a layer with a token")
            return None
        if not self._context.is_complete:
            return self._context.step(token) or b""
        offer = self._context.unwrap(token or b"")
        if not offer or not offer[0] & NO_LAYER:
            raise KerberosError("it demands a layer of its own")
        self._has_chosen = True
        return self._context.wrap(bytes([NO_LAYER, 0, 0, 0]))


class KerberosLogin(ClientLogin):
    """A login at another broker, by a ticket."""

    def __init__(self, context: SecurityContext) -> None:
        self._proof = TicketProof(context)

    async def first(self) -> bytes:
        return await self._answer(None) or b""

    async def answer(self, token: bytes) -> bytes | None:
        return await self._answer(token)

    async def _answer(self, token: bytes | None) -> bytes | None:
        try:
            return await asyncio.get_running_loop().run_in_executor(None, self._proof.answer, token)
        except KerberosError as error:
            raise ClientLoginError(str(error)) from None
