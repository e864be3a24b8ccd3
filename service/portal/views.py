"""The page about inference, the embedded view and the badge as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.core.number_formats import NUMBER_FORMATS
from service.estimation.formatting import duration
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.rejection import FieldError
from service.portal.advice import Recommender, advice, metric
from service.portal.badge import badge
from service.portal.charts import pictures
from service.portal.figures import headlines, sections, table, verdict
from service.portal.options import KV_CACHE_FORMATS, WEIGHT_FORMATS, workload_options
from service.portal.questions import LAYOUT, PageRequest
from service.portal.rendering import form, rendered, sources
from service.reports.recommendation import INFERENCE_TERMS, recommendation_document

#: What the view for frames takes to be read without scrolling [px].
_FRAME_PX = (640, 720)


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame for a page of another site: its title, its element, and its size [px]."""

    title: str
    html: str
    width: int
    height: int


def page(request: PageRequest, snapshot: CatalogSnapshot) -> str:
    """The page about a deployment."""
    estimate = inference_estimate(request.estimate, snapshot)
    found = request.with_ids(estimate["deployment"])
    return rendered(
        "page.html",
        **_form(found.form_fields(), (), snapshot),
        request=found,
        estimate=estimate,
        verdict=verdict(estimate["memory"]),
        headlines=headlines(estimate),
        sections=sections(estimate),
        pictures=list(pictures(found, snapshot)),
        sources=sources(estimate),
        advice=advice(found, snapshot, DEPLOYMENTS) if found.recommend else None,
    )


def refused_page(
    given: Mapping[str, str], errors: Iterable[FieldError], snapshot: CatalogSnapshot
) -> str:
    """The page with what was given, and what is wrong with it."""
    fields = PageRequest().model_dump() | dict(given)
    shown = _form(fields, errors, snapshot)
    return rendered("page.html", **shown, request=None, estimate=None)


def embedded(request: PageRequest, snapshot: CatalogSnapshot) -> str:
    """What other sites show in a frame: the verdict, the figures that matter, and memory."""
    estimate = inference_estimate(request.estimate, snapshot)
    return rendered(
        "embed.html",
        request=request,
        estimate=estimate,
        verdict=verdict(estimate["memory"]),
        headlines=headlines(estimate),
        pictures=list(pictures(request, snapshot, ("memory-breakdown",))),
    )


def refused_embedded(errors: Iterable[FieldError]) -> str:
    """The frame when there is nothing to show in it."""
    return rendered("refused_embed.html", errors=list(errors))


def framed(request: PageRequest, embed_url: str, most_width_px: int, most_height_px: int) -> Frame:
    """The view for frames as other sites place it in a page, after oEmbed 1.0."""
    width, height = min(_FRAME_PX[0], most_width_px), min(_FRAME_PX[1], most_height_px)
    title = f"{request.model_name} on {request.accelerator_count} × {request.accelerator}"
    html = rendered("frame.html", url=embed_url, title=title, width=width, height=height)
    return Frame(title, html.strip(), width, height)


def badge_image(request: InferenceRequest, snapshot: CatalogSnapshot) -> str:
    """An estimate as a badge, in SVG."""
    shown = badge(inference_estimate(request, snapshot))
    return rendered("badge.svg", badge=shown)


def figures_table(request: PageRequest, snapshot: CatalogSnapshot) -> list[dict[str, Any]]:
    """Every figure of the estimate that the page shows, as rows."""
    return table(inference_estimate(request.estimate, snapshot))


def _form(
    fields: Mapping[str, Any], errors: Iterable[FieldError], snapshot: CatalogSnapshot
) -> dict[str, Any]:
    return form(fields, errors, snapshot) | {
        "weight_formats": WEIGHT_FORMATS,
        "kv_cache_formats": KV_CACHE_FORMATS,
        "workload_kinds": workload_options(),
        "layout_given": any(fields[name] for name in LAYOUT),
    }


def _fields(candidate: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the form that ask about a candidate."""
    formats, release = candidate["precision"], candidate["weights_from"]["release"]
    return {
        # Formats of one checkpoint alone have no name: they are those in which it ships.
        "weights": formats["weights"] if formats["weights"] in NUMBER_FORMATS else None,
        "kv_cache": formats["kv_cache"],
        **({} if release is None else {"model": release}),
        **{name: candidate[name] for name in ("accelerator", "accelerator_count", "region")},
        **{name: candidate["parallelism"][name] for name in LAYOUT},
    }


#: What the page recommends.
DEPLOYMENTS = Recommender(
    answer=recommendation_answer,
    document=recommendation_document,
    terms=INFERENCE_TERMS,
    columns=(
        ("First token", lambda candidate: duration(candidate["ttft_s"])),
        ("Each token", lambda candidate: duration(candidate["tpot_s"])),
        ("g CO₂e / 1k tokens", metric("carbon")),
        ("USD / 1k tokens", metric("cost")),
    ),
    fields=_fields,
)
