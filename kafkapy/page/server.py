"""A page in threads of this process, for a broker of this process or any cluster.

with kafkapy.Page(broker.bootstrap_servers) as page:
    print(page.url)
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from kafkapy.errors import UserError
from kafkapy.serving.served import Served

_TOKEN_BYTES: Final = 24
_LOGINS: Final = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")


class Page(Served):
    """A page that shows a cluster; a context manager.

    It asks for a token if others than this machine's users reach it, or if it has a login of its own, whose
    rights are for those who know the token. `url` has it. With `login` it asks who one is in place of that.

    Args:
        bootstrap_servers: the cluster.
        host: where it listens.
        port: 0 takes a free one.
        token: the token to ask for; made by chance by default, where one is needed.
        schema_registry: the URL of a registry, whose schemas decode keys and values.
        faults: where `kafkapy run` serves the faults of the brokers.
        trace: the file of a live tap, `kafkapy trace --write`, whose requests are shown.
        pipelines: YAML files of pipelines, or tables, which are shown.
        read_only: nothing can be changed by it.
        login: each user logs in with the name and password that the broker knows, and has their rights.
        client_config: further arguments of kafka-python's clients, for TLS and logins; with `login`, without
            name and password.
        timeout: seconds that the cluster has for each answer.
    """

    noun = "page"
    extra = "page"

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        schema_registry: str | None = None,
        faults: str | None = None,
        trace: str | Path | None = None,
        pipelines: Sequence[str | Path] = (),
        read_only: bool = False,
        login: bool = False,
        client_config: Mapping[str, Any] | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._config = {**(client_config or {}), "bootstrap_servers": bootstrap_servers.split(",")}
        self._host, self._port, self._token = host, port, token
        self._registry, self._faults = schema_registry, faults
        self._trace = None if trace is None else Path(trace)
        self._pipelines = [str(each) for each in pipelines]
        self._read_only, self._login, self._timeout = read_only, login, timeout

    def _start(self, stack: ExitStack) -> str:
        """Connect to the cluster, and serve; the address has the token if there is one."""
        from starlette.applications import Starlette
        from starlette.types import ASGIApp

        from kafkapy.commands.connection.client_config import password_login
        from kafkapy.commands.decoding.decoder import Decoder
        from kafkapy.commands.decoding.schemas import Schemas
        from kafkapy.page.application import application
        from kafkapy.page.call import Sources
        from kafkapy.page.cluster.faults import Faults
        from kafkapy.page.cluster.groups import Groups
        from kafkapy.page.cluster.lag_history import LagHistory
        from kafkapy.page.cluster.pipelines import Pipelines
        from kafkapy.page.cluster.topics import Topics
        from kafkapy.page.cluster.wire import Wire
        from kafkapy.page.logins import Logins
        from kafkapy.page.protection import TOKEN, Protection, is_local
        from kafkapy.serving.http_server import HttpServer
        from kafkapy.trace.pieces import Pieces

        if self._login and "sasl_mechanism" not in self._config:
            raise UserError("a page with login needs the mechanism by which users log in to the broker")
        faults = None if self._faults is None else Faults(self._faults)
        trace = None if self._trace is None else Pieces(self._trace)
        pipelines = Pipelines(self._pipelines, self._timeout) if self._pipelines else None
        decoder = Decoder(None if self._registry is None else Schemas(self._registry))

        def page(config: Mapping[str, Any], user: str | None) -> tuple[Starlette, ExitStack]:
            """The page with a connection to the cluster, and what ends it."""
            with ExitStack() as own:
                wire = own.enter_context(Wire(config, self._timeout))
                topics = Topics(wire, self._timeout)
                groups = Groups(wire, topics, self._timeout)
                history = LagHistory(lambda name: groups.lag(groups.group(name)))
                own.callback(history.stop)
                sources = Sources(
                    wire=wire,
                    topics=topics,
                    groups=groups,
                    history=history,
                    decoder=decoder,
                    faults=faults,
                    trace=trace,
                    pipelines=pipelines,
                    secret=secrets.token_urlsafe(_TOKEN_BYTES),
                    read_only=self._read_only,
                    user=user,
                )
                return application(sources), own.pop_all()

        def page_of(user: str, password: str) -> tuple[Starlette, ExitStack]:
            return page({**self._config, **password_login(user, password)}, user)

        has_login = self._config.get("security_protocol", "PLAINTEXT") in _LOGINS
        token = self._token
        if token is None and not self._login and (has_login or not is_local(self._host)):
            token = secrets.token_urlsafe(_TOKEN_BYTES)
        server = HttpServer(self._host, self._port, name="kafkapy-page")
        stack.callback(server.stop)
        port = int(server.url.rpartition(":")[2])
        if self._login:
            inner: ASGIApp = (logins := Logins(page_of, port))
            stack.callback(logins.close)
        else:
            inner, own = page(self._config, None)
            stack.push(own)
        names = [self._host]
        server.serve(Protection(inner, names=names, token=token, port=port, has_logins=self._login))
        # Views end before what they read from is closed.
        stack.callback(server.stop)
        return f"{server.url}/" if token is None else f"{server.url}/?{urlencode({TOKEN: token})}"
