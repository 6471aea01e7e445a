"""Pipelines: their lag, rows a second and dead letters, and what one has done lately."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from kafkapy.errors import UserError
from kafkapy.page.call import Answer, Call
from kafkapy.page.cluster.pipelines import Pipelines
from kafkapy.page.plot import line

PATH: Final = "/pipelines"

_MOST_SHOWN: Final = 500
_MOST_REASONS: Final = 50


def view(call: Call) -> Answer:
    found = _pipelines(call).all()
    known = _topics(call)
    rows = [
        {"file": file, "name": name, "error": str(status)}
        if isinstance(status, UserError)
        else {"file": file, "name": name, "error": "", "status": status, **_links(status.definition, known)}
        for file, name, status in found[:_MOST_SHOWN]
    ]
    running = sum(not isinstance(each, UserError) and each.process is not None for _, _, each in found)
    values = {"title": "Pipelines", "rows": rows, "count": len(found), "running": running}
    return Answer("pipelines.html" if call.text("part") == "" else "pipelines_part.html", values)


def one(call: Call) -> Answer:
    status = _pipelines(call).one(call.number("file", 0), call.query.get("name", ""))
    recent = status.recent
    values = {
        "title": f"Pipeline {status.definition.name}",
        "status": status,
        **_links(status.definition, _topics(call)),
        "plots": []
        if recent is None
        else [
            (plot, about)
            for points, name, about in (
                (
                    _up_to_now(recent.lag, status.lag),
                    "Lag",
                    "Lag from batch to batch, by the records' timestamps",
                ),
                (recent.speed, "Offsets a second", "Offsets read a second, from batch to batch"),
            )
            if (plot := line(points, name)) is not None
        ],
        "reasons": () if recent is None else recent.reasons[:_MOST_REASONS],
        "all_letters": recent is None or recent.all_letters,
    }
    return Answer("pipeline.html" if call.text("part") == "" else "pipeline_part.html", values)


def _pipelines(call: Call) -> Pipelines:
    pipelines = call.sources.pipelines
    assert pipelines is not None  # without any, the page has no such views
    return pipelines


def _topics(call: Call) -> frozenset[str]:
    """The topics that the page has views of; a pipeline may be of another cluster."""
    try:
        return frozenset(call.sources.topics.metadata().topics)
    except UserError:
        return frozenset()


def _up_to_now(points: Sequence[tuple[float, float]], value: float) -> Sequence[tuple[float, float]]:
    """A line up to now."""
    return [*points, (time.time() * 1000, float(value))] if points else points


def _links(definition: Any, known: frozenset[str]) -> dict[str, bool]:
    return {"has_topic": definition.topic in known, "has_letters": definition.dead_letter in known}
