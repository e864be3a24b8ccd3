"""An estimate to take away: commands, code, snippets for other sites, and its preview image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from textwrap import wrap
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.launching.command import start_of
from service.estimation.recommendations.requests import DecisionLimitsRequest
from service.estimation.requests import PrecisionRequest
from service.estimation.resolution import resolve_precision
from service.estimation.verdict.memory import memory_parts
from service.estimation.verdict.verdict import Verdict, inference_verdict
from service.portal.badge import badge, load, refused_badge
from service.portal.figures import sections
from service.portal.questions import PageRequest
from service.portal.rendering import by_option, rendered
from service.portal.views import own_name
from service.reports.document import Document
from service.reports.estimate import estimate_document

#: Characters of a line of the preview image, and lines of its headline.
_LINE, _MOST_LINES = 44, 3


@dataclass(frozen=True, slots=True)
class Snippet:
    """Something to copy: what it is called, where it is used, and its text."""

    id: str
    name: str
    use: str
    text: str


def badge_image(request: InferenceRequest, snapshot: CatalogSnapshot) -> str:
    """An estimate as a badge, in SVG."""
    estimate = inference_estimate(request, snapshot)
    verdict = inference_verdict(estimate, snapshot, _mean_limits(request))
    return rendered("badge.svg", badge=badge(verdict, estimate))


def refused_badge_image(reason: str) -> str:
    """Why there is no estimate, as a badge, in SVG."""
    return rendered("badge.svg", badge=refused_badge(reason))


def told(request: InferenceRequest, snapshot: CatalogSnapshot) -> dict[str, Any]:
    """The verdict on an estimate as the component shows it, with the estimate itself."""
    estimate = inference_estimate(request, snapshot)
    verdict = inference_verdict(estimate, snapshot, _mean_limits(request))
    return {
        "status": verdict.status,
        "headline": verdict.headline,
        "asked": _asked(verdict),
        "load": load(estimate),
        "figures": [
            {name: value for name, value in asdict(one).items() if name in _SHOWN}
            for one in verdict.figures
        ],
        "estimate": estimate,
    }


def _mean_limits(request: InferenceRequest) -> DecisionLimitsRequest | None:
    """The mean times that a link of the API asks for, as pages hold them against an estimate."""
    asked = request.limits
    if asked is None:
        return None
    return DecisionLimitsRequest(ttft_s=asked.ttft_s, tpot_s=asked.tpot_s, e2e_s=asked.e2e_s)


_SHOWN = ("id", "name", "text", "range_text", "note")


def share_page(request: PageRequest, snapshot: CatalogSnapshot, home: str) -> str:
    """Everything that can be taken away of an estimate.

    Parameters
    ----------
    request
        What is asked.
    snapshot
        The catalog.
    home
        Address of the service, as other machines reach it.
    """
    estimate, verdict = _answered(request, snapshot)
    link = request.link()
    return rendered(
        "share.html",
        here="",
        title="Take it away",
        trail=((f"./?{link}", "The estimate"),),
        headline=verdict.headline,
        asked=_asked(verdict),
        load=load(estimate),
        files="estimate",
        preview="preview.png",
        snippets=_snippets(request, estimate, snapshot, home),
        embeds=_embeds(request, verdict, home),
        link=link,
        element=[] if request.config is not None else _attributes(request),
        badge_query=request.deployment_link() if request.config is None else "",
        home=home,
    )


def estimate_report(request: PageRequest, snapshot: CatalogSnapshot) -> Document:
    """The estimate as a report."""
    estimate, verdict = _answered(request, snapshot)
    groups = [
        (one.title, [(line.name, line.value, line.interval) for line in one.lines])
        for one in sections(estimate)
    ]
    return estimate_document(estimate, verdict, load(estimate), groups, snapshot)


def preview(request: PageRequest, snapshot: CatalogSnapshot) -> str:
    """What a shared link looks like elsewhere, as SVG of 1200 × 630 pixels."""
    estimate, verdict = _answered(request, snapshot)
    return preview_of(verdict, load(estimate), _asked(verdict), estimate["memory"])


def preview_of(verdict: Verdict, told: str, asked: str, memory: Mapping[str, Any]) -> str:
    """The picture of a verdict under a load, with the memory that it takes."""
    parts = memory_parts(memory)
    return rendered(
        "preview.svg",
        lines=_lines(verdict.headline),
        asked=asked,
        load=told,
        figures=[one for one in verdict.figures if one.value is not None][:4],
        status=verdict.status,
        parts=parts,
        all_bytes=max(memory["capacity_bytes"], sum(one.size_bytes for one in parts)),
    )


def _answered(request: PageRequest, snapshot: CatalogSnapshot) -> tuple[Mapping[str, Any], Verdict]:
    """The estimate, and the verdict on it within the limits of the page."""
    estimate = inference_estimate(request.estimate, snapshot)
    return estimate, inference_verdict(estimate, snapshot, request.limits, model=own_name(request))


def _asked(verdict: Verdict) -> str:
    names = verdict.names
    return f"{names.model} in {names.weights} on {names.hardware}, {names.place}"


def _snippets(
    request: PageRequest, estimate: Mapping[str, Any], snapshot: CatalogSnapshot, home: str
) -> list[Snippet]:
    found: list[Snippet] = []
    if request.config is None:
        address = f"{home}v1/estimates/inference?{request.deployment_link()}"
        found = ways_to_ask(address, ("latency", "ttft_s"))
    start = _start(estimate, snapshot)
    if start is not None:
        found.append(Snippet("start", "Start command", "on the machine itself", start))
    return found


def ways_to_ask(address: str, figure: tuple[str, str]) -> list[Snippet]:
    """An address of the API for those who ask it again, and print one of its figures."""
    part, name = figure
    return [
        Snippet("curl", "curl", "in a terminal", f"curl '{address}'"),
        Snippet(
            "python",
            "Python",
            "with nothing but the standard library",
            "import json\nfrom urllib.request import urlopen\n\n"
            f'with urlopen("{address}") as answer:\n'
            "    estimate = json.load(answer)\n"
            f'print(estimate["{part}"]["{name}"])',
        ),
        Snippet(
            "typescript",
            "TypeScript",
            "in a browser or Node.js",
            f'const answer = await fetch("{address}");\n'
            "const estimate = await answer.json();\n"
            f"console.log(estimate.{part}.{name});",
        ),
    ]


def _start(estimate: Mapping[str, Any], snapshot: CatalogSnapshot) -> str | None:
    """The engine's command; None for models and accelerators of one's own."""
    deployment = estimate["deployment"]
    model = snapshot.models.get(deployment["model"])
    accelerator = snapshot.accelerators.get(deployment["accelerator"])
    if model is None or accelerator is None:
        return None
    start = start_of(
        snapshot.engines[deployment["serving"]["engine"]],
        estimate,
        deployment["model"],
        resolve_precision(PrecisionRequest(), model.value).weights.id,
        model.value,
        accelerator.value,
    )
    return None if start is None else by_option(start["command"])


def _embeds(request: PageRequest, verdict: Verdict, home: str) -> list[Snippet]:
    """What other sites place in their pages."""
    title = escape(_asked(verdict), quote=True)
    frame = Snippet(
        "frame",
        "Frame",
        "the verdict with its figures and a chart",
        f'<iframe src="{escape(f"{home}embed?{request.link()}")}" title="{title}" width="640" '
        'height="720" style="border:0" loading="lazy"></iframe>',
    )
    if request.config is not None:
        return [frame]
    query = request.deployment_link()
    fields = " ".join(
        f'{name}="{escape(value, quote=True)}"' for name, value in _attributes(request)
    )
    return [
        Snippet(
            "badge",
            "Badge",
            "a line for a README",
            f"[![{_asked(verdict)}]({home}v1/badges/inference?{query})]({home}?{request.link()})",
        ),
        frame,
        Snippet(
            "element",
            "Element",
            "a component that follows its attributes",
            f'<script type="module" src="{home}portal/headroom-estimate.js"></script>\n'
            f"<headroom-estimate {fields}></headroom-estimate>",
        ),
    ]


def _attributes(request: PageRequest) -> list[tuple[str, str]]:
    """The deployment as attributes of the component."""
    fields = request.deployment_fields()
    return [(name.replace("_", "-"), str(value)) for name, value in fields.items()]


def _lines(text: str) -> list[str]:
    """A headline in lines that the preview image has room for."""
    return wrap(text, _LINE)[:_MOST_LINES]
