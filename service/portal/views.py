"""The page about inference, the embedded view and the badge as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from service.catalog.snapshot import CatalogSnapshot
from service.core.number_formats import NUMBER_FORMATS
from service.core.search.workloads import WORKLOAD_KINDS
from service.core.years import HOURS_PER_MONTH
from service.estimation.formatting import duration, money
from service.estimation.inference.estimate import inference_estimate
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.rejection import FieldError
from service.estimation.verdict.figures import emissions_of_tokens
from service.estimation.verdict.memory import memory_parts
from service.estimation.verdict.verdict import inference_verdict
from service.portal.advice import Column, Recommender, advice
from service.portal.badge import load
from service.portal.bounds import bounds_of
from service.portal.charts import pictures
from service.portal.figures import sections, table
from service.portal.options import (
    BACKENDS,
    KV_CACHE_FORMATS,
    WEIGHT_FORMATS,
    workload_options,
)
from service.portal.places import PLACES, where_searched
from service.portal.questions import DEFAULTS, LAYOUT, PRESETS, ModelQuestion, PageRequest
from service.portal.rendering import form, rendered, sources, told_errors
from service.portal.why import why
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


def page(
    request: PageRequest, snapshot: CatalogSnapshot, *, answer_only: bool = False, home: str = ""
) -> str:
    """The page about a deployment, or only its answer; ``home`` is the service's address."""
    estimate = inference_estimate(request.estimate, snapshot)
    found = request.with_ids(estimate["deployment"])
    recommended = (
        recommendation_answer(found.recommendation(snapshot), snapshot) if found.recommend else None
    )
    choices = () if recommended is None else recommended["choices"]
    said = inference_verdict(estimate, snapshot, found.limits, choices, own_name(found))
    return rendered(
        "page.html",
        **_form(found.form_fields(), (), snapshot),
        answer_only=answer_only,
        home=home,
        request=found,
        estimate=estimate,
        verdict=said,
        reasons={figure.id: why(figure, estimate) for figure in said.figures},
        memory=memory_parts(estimate["memory"]),
        sections=sections(estimate),
        pictures=list(pictures(found, snapshot)),
        sources=sources(estimate),
        remarks=[one["message"] for one in estimate["warnings"]],
        presets=PRESETS,
        searched=where_searched(found.search_in, found.region, snapshot),
        load=load(estimate),
        stated_weights=_stated(estimate["deployment"]["precision"]["weights"]),
        advice=None
        if recommended is None
        else advice(found.at_a_count(snapshot), recommended, snapshot, DEPLOYMENTS),
    )


def steps_page(request: PageRequest, snapshot: CatalogSnapshot) -> str:
    """How everything about a deployment was computed, step by step."""
    estimate = inference_estimate(request.estimate, snapshot)
    return rendered(
        "steps.html",
        request=request.with_ids(estimate["deployment"]),
        estimate=estimate,
        verdict=inference_verdict(estimate, snapshot, model=own_name(request)),
        sources=sources(estimate),
        here="Serve a model",
        title="How it was computed",
        trail=((f"./?{request.link()}", "The answer"),),
    )


def refused_page(
    given: Mapping[str, str],
    errors: Iterable[FieldError],
    snapshot: CatalogSnapshot,
    *,
    answer_only: bool = False,
) -> str:
    """The page with what was given, and what is wrong with it."""
    fields = {**DEFAULTS, **{name: given[name] for name in DEFAULTS if name in given}}
    errors = tuple(errors)
    return rendered(
        "page.html",
        **_form(fields, errors, snapshot),
        answer_only=answer_only,
        presets=PRESETS,
        request=None,
        estimate=None,
        bounds=bounds_of(fields, errors, snapshot),
    )


def embedded(request: PageRequest, snapshot: CatalogSnapshot) -> str:
    """What other sites show in a frame: the verdict, the figures that matter, and memory."""
    estimate = inference_estimate(request.estimate, snapshot)
    return rendered(
        "embed.html",
        request=request,
        verdict=inference_verdict(estimate, snapshot, request.limits, model=own_name(request)),
        load=load(estimate),
        pictures=list(pictures(request, snapshot, ("memory-breakdown",))),
    )


def refused_embedded(
    given: Mapping[str, str], errors: Iterable[FieldError], snapshot: CatalogSnapshot
) -> str:
    """The frame when there is nothing to show in it."""
    return rendered("refused_embed.html", errors=told_errors(given, errors, snapshot))


def refused_reading(
    given: Mapping[str, str],
    errors: Iterable[FieldError],
    snapshot: CatalogSnapshot,
    *,
    page: str = "./",
    up: str = "",
) -> str:
    """A page without a form when there is nothing to show on it.

    ``page`` is where the question can be changed, and ``up`` leads from here to the front page.
    """
    return rendered(
        "refused_reading.html",
        up=up,
        here="",
        title="This cannot be answered",
        trail=(),
        errors=told_errors(given, errors, snapshot),
        back=f"{page}?{urlencode(given)}",
    )


def framed(request: PageRequest, embed_url: str, most_width_px: int, most_height_px: int) -> Frame:
    """The view for frames as other sites place it in a page, after oEmbed 1.0."""
    width, height = min(_FRAME_PX[0], most_width_px), min(_FRAME_PX[1], most_height_px)
    title = f"{request.model_name} on {request.accelerator_count} × {request.accelerator}"
    html = rendered("frame.html", url=embed_url, title=title, width=width, height=height)
    return Frame(title, html.strip(), width, height)


def figures_table(request: PageRequest, snapshot: CatalogSnapshot) -> list[dict[str, Any]]:
    """Every figure of the estimate that the page shows, as rows."""
    return table(inference_estimate(request.estimate, snapshot))


def _form(
    fields: Mapping[str, Any], errors: Iterable[FieldError], snapshot: CatalogSnapshot
) -> dict[str, Any]:
    return form(fields, errors, snapshot) | {
        "weight_formats": WEIGHT_FORMATS,
        "kv_cache_formats": KV_CACHE_FORMATS,
        "backends": BACKENDS,
        "workload_kinds": workload_options(),
        "places": PLACES,
        "kind_limits": WORKLOAD_KINDS[_kind(fields)],
        "layout_given": any(fields[name] for name in (*LAYOUT, "power_limit_w")),
    }


def own_name(request: ModelQuestion) -> str | None:
    """What a model is called that is none of the catalog."""
    return None if request.config is None and request.hub is None else request.model_name


def _stated(weights: str) -> str | None:
    """A format as the form takes it; one of a checkpoint alone has no name, and is as it ships."""
    return weights if weights in NUMBER_FORMATS else None


def _kind(fields: Mapping[str, Any]) -> str:
    """The kind of workload that a form asks about, the usual one where it is none."""
    kind = str(fields["workload_kind"])
    return kind if kind in WORKLOAD_KINDS else PageRequest.model_fields["workload_kind"].default


def _fields(candidate: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the form that ask about a candidate."""
    formats, release = candidate["precision"], candidate["weights_from"].get("release")
    return {
        "weights": _stated(formats["weights"]),
        "kv_cache": formats["kv_cache"],
        **({} if release is None else {"model": release}),
        **{name: candidate[name] for name in ("accelerator", "accelerator_count", "region")},
        **{name: candidate["parallelism"][name] for name in LAYOUT},
        "power_limit_w": None,
    }


def _monthly_usd(per_hour: float) -> str:
    return money(per_hour * HOURS_PER_MONTH)


def _carbon_per_million(per_thousand: float) -> str:
    return emissions_of_tokens(per_thousand * 1e3)


#: What the page recommends.
DEPLOYMENTS = Recommender(
    answer=recommendation_answer,
    document=recommendation_document,
    terms=INFERENCE_TERMS,
    settings=INFERENCE_TERMS.settings,
    columns=(
        Column("Cost a month", "cost.rented.usd_per_hour", _monthly_usd, "cost"),
        Column(
            "Cost per million tokens",
            "cost.rented.usd_per_million_output_tokens",
            money,
            "cost",
        ),
        Column("First token", "latency.ttft_s", duration, "latency"),
        Column("Each token", "latency.tpot_s", duration, "latency"),
        # As choices are told apart: what answers faster answers more in a month.
        Column(
            "CO₂e per million tokens",
            "impacts.per_1k_tokens.carbon.total_gco2e",
            _carbon_per_million,
            "carbon",
        ),
    ),
    fields=_fields,
)
