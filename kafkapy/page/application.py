"""The page as an application of Starlette: addresses, forms, errors."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from urllib.parse import parse_qsl

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kafkapy.errors import UserError
from kafkapy.page.call import MOST_FORM, SECRET, Answer, Call, Sources
from kafkapy.page.rendering import rendered, static
from kafkapy.page.views import (
    cluster,
    config_change,
    configs,
    faults,
    group,
    groups,
    messages,
    pipelines,
    produce,
    requests,
    reset,
    topic,
    topics,
    transactions,
)

logger = logging.getLogger(__name__)

_MOST_FIELDS: Final = 100
_MOST_VIEWS: Final = 16
"""So many are made at once; others wait."""


class _Number(Convertor[int]):
    """A part of a path that is a whole number, with no more digits than Python reads."""

    regex = "[0-9]{1,100}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("number", _Number())

View = Callable[[Call], Answer]

_VIEWS: Final[Mapping[str, View]] = {
    "/topics": topics.view,
    "/topics/{topic}": topic.view,
    "/topics/{topic}/messages": messages.view,
    "/topics/{topic}/messages/new": messages.new,
    "/topics/{topic}/{partition:number}/{offset:number}": messages.one,
    "/topics/{topic}/configs": configs.topic,
    "/groups": groups.view,
    "/group": group.view,
    "/transactions": transactions.view,
    "/cluster": cluster.view,
    "/brokers/{broker:number}/configs": configs.broker,
}
_FORMS: Final[Mapping[str, View]] = {
    "/topics/{topic}/produce": produce.form,
    "/topics/{topic}/configs/change": config_change.form,
    "/brokers/{broker:number}/configs/change": config_change.form,
    "/group/reset": reset.form,
}
_CHANGES: Final[Mapping[str, View]] = {
    "/topics/{topic}/produce": produce.send,
    "/topics/{topic}/configs/change": config_change.plan,
    "/topics/{topic}/configs/change/do": config_change.do,
    "/brokers/{broker:number}/configs/change": config_change.plan,
    "/brokers/{broker:number}/configs/change/do": config_change.do,
    "/group/reset": reset.plan,
    "/group/reset/do": reset.do,
}
_FAULTS: Final[Mapping[str, View]] = {
    "/faults/add": faults.add,
    "/faults/remove": faults.remove,
    "/faults/broker": faults.do,
}
_REQUESTS: Final[Mapping[str, View]] = {
    requests.PATH: requests.view,
    "/requests/new": requests.new,
    "/requests/{position:number}": requests.one,
}
_STATIC: Final[Mapping[str, str]] = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


def application(sources: Sources) -> Starlette:
    """The application; `sources` are closed by their owner."""
    limiter = CapacityLimiter(_MOST_VIEWS)

    async def made(view: View, request: Request) -> Response:
        form = await read_form(request) if request.method == "POST" else {}
        call = Call(sources, request.path_params, dict(request.query_params), form)
        if request.method == "POST":
            _require_own(call)
        return await to_thread.run_sync(_response, view, call, limiter=limiter)

    async def home(_: Request) -> Response:
        return RedirectResponse("/topics", 303)

    async def failed(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        text = _WORDS.get(status, "This cannot be done.")
        if isinstance(error, HTTPException) and error.detail and status == 400:
            text = error.detail
        if status == 500:
            logger.error("The page %s failed", request.url.path, exc_info=error)
        return _html("error.html", {"text": text, "title": "Error"}, sources, status)

    views, changes = dict(_VIEWS), dict(_CHANGES)
    if sources.faults is not None:
        views[faults.PATH] = faults.view
        changes |= _FAULTS
    if sources.trace is not None:
        views |= _REQUESTS
    if sources.pipelines is not None:
        views |= {pipelines.PATH: pipelines.view, "/pipeline": pipelines.one}
    if sources.read_only:
        changes.clear()
    else:
        views |= _FORMS
    routes = [Route("/", home), static_route()]
    routes += [Route(path, partial(made, view), methods=["GET"]) for path, view in views.items()]
    routes += [Route(path, partial(made, view), methods=["POST"]) for path, view in changes.items()]
    return Starlette(routes=routes, exception_handlers={HTTPException: failed, Exception: failed})


def static_route() -> Route:
    """The files of the page, which are the same for all."""

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC:
            raise HTTPException(404)
        headers = {"cache-control": "max-age=3600"}
        return Response(static(name), media_type=_STATIC[name], headers=headers)

    return Route("/static/{name}", file)


_WORDS: Final[Mapping[int, str]] = {
    403: "This form was not sent by the page itself, or the page was started anew: load it again.",
    404: "There is no such page; one that was started with --read-only has none for changes.",
    405: "This page takes no such request.",
    413: "The form is too large.",
    500: "The page failed; its log says why.",
}


def _response(view: View, call: Call) -> Response:
    try:
        answer = view(call)
    except UserError as error:
        return _html("error.html", {"text": str(error), "title": "Error"}, call.sources, 400)
    if answer.location is not None:
        return RedirectResponse(answer.location, 303)
    response = _html(answer.template, answer.values, call.sources, answer.status)
    response.headers.update(answer.headers)
    return response


def _html(template: str, values: Mapping[str, object], sources: Sources, status: int) -> Response:
    given = {
        SECRET: sources.secret,
        "logged_in": sources.user,
        "read_only": sources.read_only,
        "views": _named_views(sources),
    }
    text = rendered(template, **given, **values)
    # A value of JSON may have half of a surrogate pair.
    return Response(text.encode(errors="replace"), status, media_type="text/html")


def _named_views(sources: Sources) -> dict[str, str]:
    """What the head of each page leads to."""
    named = {"/topics": "Topics", "/groups": "Groups", "/transactions": "Transactions", "/cluster": "Cluster"}
    if sources.pipelines is not None:
        named[pipelines.PATH] = "Pipelines"
    if sources.trace is not None:
        named[requests.PATH] = "Requests"
    if sources.faults is not None:
        named[faults.PATH] = "Faults"
    return named


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; raises HTTPException for one that is too large, or is none."""
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MOST_FORM:
            raise HTTPException(413)
    try:
        return dict(parse_qsl(content.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None


def _require_own(call: Call) -> None:
    if not secrets.compare_digest(call.form.get(SECRET, "").encode(), call.sources.secret.encode()):
        raise HTTPException(403)
