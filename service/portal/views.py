"""The page, the embedded view and the badge as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import ValidationError

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.charting.words import duration, gigabytes, number
from service.estimation.decisions.recommendations import recommendation_answer
from service.estimation.inference import inference_estimate
from service.estimation.inference_requests import InferenceRequest
from service.estimation.rejection import FieldError, Rejected
from service.portal.badge import badge
from service.portal.charts import pictures
from service.portal.figures import headlines, sections, table, verdict
from service.portal.options import (
    KV_CACHE_FORMATS,
    WEIGHT_FORMATS,
    options,
    workload_options,
)
from service.portal.questions import LAYOUT, PageRequest

#: What the view for frames takes to be read without scrolling [px].
_FRAME_PX = (640, 720)


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame for a page of another site: its title, its element, and its size [px]."""

    title: str
    html: str
    width: int
    height: int


#: Files that the page loads, and their media types.
ASSETS = {
    "style.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "headroom-estimate.js": "text/javascript",
}


def page(request: PageRequest, snapshot: CatalogSnapshot) -> str:
    """The page about a deployment.

    Raises
    ------
    Rejected
        If the request refers to unknown things or asks for the impossible.
    """
    estimate = inference_estimate(request.estimate, snapshot)
    found = _found(request, estimate)
    return (
        _environment()
        .get_template("page.html")
        .render(
            **_form(found.model_dump(), (), snapshot),
            request=found,
            estimate=estimate,
            verdict=verdict(estimate["memory"]),
            headlines=headlines(estimate),
            sections=sections(estimate),
            pictures=list(pictures(found, snapshot)),
            sources=_sources(estimate),
            advice=_advice(found, snapshot) if found.recommend else None,
        )
    )


def refused_page(
    given: Mapping[str, str], errors: Iterable[FieldError], snapshot: CatalogSnapshot
) -> str:
    """The page with what was given, and what is wrong with it."""
    fields = PageRequest().model_dump() | dict(given)
    form = _form(fields, errors, snapshot)
    return _environment().get_template("page.html").render(**form, request=None, estimate=None)


def embedded(request: PageRequest, snapshot: CatalogSnapshot) -> str:
    """What other sites show in a frame: the verdict, the figures that matter, and memory.

    Raises
    ------
    Rejected
        If the request refers to unknown things or asks for the impossible.
    """
    estimate = inference_estimate(request.estimate, snapshot)
    return (
        _environment()
        .get_template("embed.html")
        .render(
            request=request,
            estimate=estimate,
            verdict=verdict(estimate["memory"]),
            headlines=headlines(estimate),
            pictures=list(pictures(request, snapshot, ("memory-breakdown",))),
        )
    )


def refused_embedded(errors: Iterable[FieldError]) -> str:
    """The frame when there is nothing to show in it."""
    return _environment().get_template("refused_embed.html").render(errors=list(errors))


def framed(request: PageRequest, embed_url: str, most_width_px: int, most_height_px: int) -> Frame:
    """The view for frames as other sites place it in a page, after oEmbed 1.0."""
    width, height = min(_FRAME_PX[0], most_width_px), min(_FRAME_PX[1], most_height_px)
    title = f"{request.model} on {request.accelerator_count} × {request.accelerator}"
    html = (
        _environment()
        .get_template("frame.html")
        .render(url=embed_url, title=title, width=width, height=height)
    )
    return Frame(title, html.strip(), width, height)


def badge_image(request: InferenceRequest, snapshot: CatalogSnapshot) -> str:
    """An estimate as a badge, in SVG.

    Raises
    ------
    Rejected
        If the request refers to unknown things or asks for the impossible.
    """
    shown = badge(inference_estimate(request, snapshot))
    return _environment().get_template("badge.svg").render(badge=shown)


def figures_table(request: PageRequest, snapshot: CatalogSnapshot) -> list[dict[str, Any]]:
    """Every figure of the estimate that the page shows, as rows.

    Raises
    ------
    Rejected
        If the request refers to unknown things or asks for the impossible.
    """
    return table(inference_estimate(request.estimate, snapshot))


@lru_cache(maxsize=8)
def asset(name: str) -> bytes:
    """The content of one of the files that the page loads."""
    return files("service.portal").joinpath("static", name).read_bytes()


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("service.portal"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": number, "gigabytes": gigabytes, "duration": duration}
    # A file under a new name is fetched again, so that the old one may be kept for long.
    made.globals["asset"] = lambda name: f"portal/{name}?v={sha256(asset(name)).hexdigest()[:12]}"
    return made


def _found(request: PageRequest, estimate: Mapping[str, Any]) -> PageRequest:
    """The request with catalog ids in place of aliases, as the form offers them."""
    deployment = estimate["deployment"]
    return request.model_copy(
        update={name: deployment[name] for name in ("model", "accelerator", "region")}
    )


def _form(
    fields: Mapping[str, Any], errors: Iterable[FieldError], snapshot: CatalogSnapshot
) -> dict[str, Any]:
    return {
        "fields": fields,
        "errors": [
            {"name": error.pointer.strip("/").rpartition("/")[2], "detail": error.detail}
            for error in errors
        ],
        "options": options(snapshot),
        "weight_formats": WEIGHT_FORMATS,
        "kv_cache_formats": KV_CACHE_FORMATS,
        "workload_kinds": workload_options(),
        "layout_given": any(fields[name] for name in LAYOUT),
    }


def _sources(estimate: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = {
        source["id"]: source for entry in estimate["provenance"] for source in entry["sources"]
    }
    return sorted(found.values(), key=lambda source: str(source["title"]))


def _advice(request: PageRequest, snapshot: CatalogSnapshot) -> dict[str, Any]:
    """Better choices for the same load, or why there are none."""
    try:
        answer = recommendation_answer(request.recommendation, snapshot)
    except (Rejected, ValidationError) as error:
        return {"choices": [], "problem": str(error), "answer": None}
    choices: dict[tuple[Any, ...], dict[str, Any]] = {}
    for choice in answer["choices"]:
        candidate = choice["candidate"]
        key = tuple(
            candidate[name] for name in ("accelerator", "accelerator_count", "region")
        ) + tuple(candidate["precision"].values())
        row = choices.setdefault(
            key,
            {
                "priorities": [],
                "candidate": candidate,
                "because": choice["agreement"]["because"],
                "link": request.link(
                    accelerator=candidate["accelerator"],
                    accelerator_count=candidate["accelerator_count"],
                    region=candidate["region"],
                    weights=candidate["precision"]["weights"],
                    kv_cache=candidate["precision"]["kv_cache"],
                    **{name: candidate["parallelism"][name] for name in LAYOUT},
                ),
            },
        )
        row["priorities"].append(choice["priority"])
    return {"choices": list(choices.values()), "problem": None, "answer": answer}
