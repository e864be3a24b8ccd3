"""What all pages are made with: templates, the files they load, forms, sources."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from service.catalog.snapshot import CatalogSnapshot
from service.core.number_formats import NUMBER_FORMATS
from service.estimation.formatting import counted, duration, gigabytes, number
from service.estimation.recommendations.against import in_words
from service.estimation.rejection import FieldError
from service.estimation.verdict.names import format_name
from service.extras import how_to_add, is_installed
from service.portal.glossary import TERMS
from service.portal.options import options
from service.portal.pickers import COLLECTION_OF, detail, text_of
from service.portal.why import written

if TYPE_CHECKING:
    from jinja2 import Environment

#: Files that the pages load, and their media types.
ASSETS = {
    "style.css": "text/css",
    "page.js": "text/javascript",
    "charts.js": "text/javascript",
    "share.js": "text/javascript",
    "vega.js": "text/javascript",
    "picker.js": "text/javascript",
    "places.js": "text/javascript",
    "extras.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "headroom-estimate.js": "text/javascript",
}

#: How far plans that make something fit change the answers, in words.
_REACHES = {
    "same-result": "Same result",
    "near-same-result": "Almost the same quality",
    "more-accelerators": "More accelerators",
    "other-recipe": "Another recipe",
}
#: What fields are called where they are told apart from their form.
_LABELS = {
    "region": "place",
    "accelerator_count": "how many",
    "input_tokens": "prompt tokens",
    "output_tokens": "answer tokens",
    "concurrency": "requests at once",
    "ttft_s": "first token within",
    "tpot_s": "each next token within",
    "usd_per_month": "budget a month",
    "hub": "name on the Hugging Face Hub",
    "config": "config.json",
    "kv_cache": "KV cache",
    "requests_per_s": "requests a second",
    "power_limit_w": "power limit of each",
    "per_usd": "your exchange rate",
    "ttft_p95_s": "first token within",
    "tpot_p95_s": "each next token within",
    "kgco2e_per_year": "CO₂e a year",
    "l_per_year": "water a year",
    "weight_bits_at_least": "bits of a weight, at least",
    "usd": "budget",
    "days": "deadline",
    "kgco2e": "CO₂e, at most",
    "litres": "water, at most",
    "it_power_kw": "power, at most",
    "tokens": "tokens of the run",
    "lora_rank": "rank of adapters",
    "peak_ratio": "busiest hour, times the average",
    "growth_percent": "growth a year",
    "refresh_years": "years until hardware is replaced",
    "start_s": "time that a copy takes to start",
    "wait_percent": "requests that can wait",
    "wait_hours": "hours that they can wait",
    "generation": "generation under contract",
    "contracted_percent": "contracted share",
    "gco2e_per_kwh": "emissions of what is contracted",
    "reserve_percent": "reserve",
    "site_kw": "power of the site",
    "rack_kw": "power of a rack",
    "water_l_per_day": "water a day, at most",
    "rates": "requests in each part of the day",
}
#: How a message suggests what was meant.
_MEANT = re.compile(r"; (did you mean [^?]*\?|it could be any of .*)")
#: A format in a text for the API, where it goes by its id.
_FORMAT = re.compile(
    rf"\b(?:{'|'.join(map(re.escape, sorted(NUMBER_FORMATS, key=len, reverse=True)))})\b"
)
#: A date, as it is split from what stands around it.
_DATE = re.compile(r"\b(\d{4}-\d{2}-\d{2})\b")
#: What parts a number from its unit.
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=[^\W\d]{1,4}\b|%|×)|(?<=[gt]) (?=CO₂e)")
#: What stands between the options of a command, other than in quotes.
_BEFORE_OPTION = re.compile(r"""('[^']*'|"[^"]*")| (?=--?[A-Za-z])""")
#: Letters of an interval that a phone has room for beside its figure, and what parts its ends.
_LONGEST_KEPT = 13
_ELLIPSIS = "\N{NO-BREAK SPACE}…\N{NO-BREAK SPACE}"
#: Whole numbers below this are written without an exponent.
_MOST_WRITTEN_OUT = 1e15


def rendered(template: str, up: str = "", **content: Any) -> str:
    """A page from its template; ``up`` leads from its address to the front page."""
    return _environment().get_template(template).render(up=up, **content)


@lru_cache(maxsize=8)
def asset(name: str) -> bytes:
    """The content of one of the files that the pages load."""
    packed = packed_asset(name)
    if packed is not None:
        return gzip.decompress(packed)
    return files("service.portal").joinpath("static", name).read_bytes()


@lru_cache(maxsize=8)
def packed_asset(name: str) -> bytes | None:
    """The content as gzip, of a file that is kept so; None of the others."""
    kept = files("service.portal").joinpath("static", f"{name}.gz")
    return kept.read_bytes() if kept.is_file() else None


@lru_cache(maxsize=8)
def _version(name: str) -> str:
    """What a file's content is told apart by."""
    return sha256(packed_asset(name) or asset(name)).hexdigest()[:12]


def form(
    fields: Mapping[str, Any], errors: Iterable[FieldError], snapshot: CatalogSnapshot
) -> dict[str, Any]:
    """What forms need: what was given, what is wrong with it, and what can be chosen."""
    return {
        "fields": fields,
        "errors": told_errors(fields, errors, snapshot),
        "options": options(snapshot),
        "picked": {
            name: _picked(name, fields[name], snapshot)
            for name in fields
            if name.partition("_")[0] in COLLECTION_OF and name.removesuffix("_count") == name
        },
    }


def told_errors(
    fields: Mapping[str, Any], errors: Iterable[FieldError], snapshot: CatalogSnapshot
) -> list[dict[str, Any]]:
    """What is wrong, by the names of fields as people read them, with links that repair it."""
    listed = []
    for error in errors:
        name, said = field_of(error.pointer, fields), _detail(error, fields)
        meant = error.suggestions if name in fields else ()
        listed.append(
            {
                "name": name,
                "label": _LABELS.get(name, name.replace("_", " ")),
                "detail": _MEANT.sub("", said) if meant else said,
                "repairs": _repairs(name, meant, fields, snapshot),
            }
        )
    return listed


def _repairs(
    name: str, meant: Iterable[str], fields: Mapping[str, Any], snapshot: CatalogSnapshot
) -> list[dict[str, str]]:
    """What may have been meant, each with the query of the repaired question."""
    found = []
    for value in meant:
        stated = {key: given for key, given in fields.items() if given not in (None, "", False)}
        collection = COLLECTION_OF.get(name.partition("_")[0])
        text = value if collection is None else text_of(collection, value, snapshot)
        found.append({"text": text, "query": urlencode(stated | {name: value})})
    return found


def _picked(name: str, value: Any, snapshot: CatalogSnapshot) -> dict[str, str]:
    """What a field that suggests shows, what it stands for, and what to know about that."""
    collection = COLLECTION_OF[name.partition("_")[0]]
    stated = "" if value is None else str(value)
    return {
        "value": stated,
        "text": text_of(collection, stated, snapshot),
        "detail": detail(collection, stated, snapshot),
        "collection": collection,
    }


def field_of(pointer: str, fields: Mapping[str, Any]) -> str:
    """The field of a form that an error's place in the request belongs to."""
    parts = [part for part in pointer.split("/") if part]
    if parts[:1] == ["model"]:
        return next((name for name in ("config", "hub") if fields.get(name)), "model")
    if parts == ["parallelism"]:
        return "tensor" if "tensor" in fields else "accelerator_count"
    return parts[-1] if parts else ""


def sources(*estimates: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The documents that estimates rest on, by title."""
    found = {
        source["id"]: source
        for estimate in estimates
        for entry in estimate["provenance"]["entries"]
        for source in entry["sources"]
    }
    return sorted(found.values(), key=lambda source: str(source["title"]))


def _detail(error: FieldError, fields: Mapping[str, Any]) -> str:
    """What is wrong, as a reader of the form sees it, with where in a pasted config.json."""
    detail = error.detail
    detail = detail.replace(" as {'config': …} instead", " below instead")
    # The page shows what that operation tells.
    detail = re.sub(r"\. /v1/estimates/bounds tells .*", "", detail)
    # Whatever a form holds is text.
    detail = detail.removesuffix(", without quotation marks")
    # What there is to choose stands in the form.
    detail = re.sub(r" \(known: [^)]*\)", "", detail)
    detail = re.sub(r"^unknown id '([^']*)'", "the catalog has nothing called “\\1”", detail)
    detail = re.sub(r"^ambiguous id '([^']*)'", "“\\1” can mean several entries", detail)
    place = error.pointer.removeprefix("/model/config/")
    if place != error.pointer and fields.get("config") and not detail.startswith(place):
        return f"{place}: {detail}"
    return detail


def _typed(value: Any) -> str:
    """A number as people type it, to the last of its digits."""
    if not isinstance(value, float):
        return str(value)
    if value.is_integer() and abs(value) < _MOST_WRITTEN_OUT:
        return f"{value:.0f}"
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def by_option(command: str) -> str:
    """A command with each option on a line of its own, as shells read it: none breaks inside."""
    return _BEFORE_OPTION.sub(lambda found: found[1] or " \\\n  ", command)


def _unbroken(text: str) -> str:
    """A figure whose unit does not begin another line; a short interval stays on one."""
    kept = _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)
    return kept if len(kept) > _LONGEST_KEPT else kept.replace(" … ", _ELLIPSIS)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("service.portal"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": number, "gigabytes": gigabytes, "duration": duration}
    made.filters["typed"] = _typed
    made.filters["written"] = written
    made.filters["unbroken"] = _unbroken
    made.filters["by_date"] = _DATE.split
    made.filters["by_option"] = by_option
    made.filters["formats_named"] = lambda text: _FORMAT.sub(lambda one: format_name(one[0]), text)
    made.filters["counted"] = counted
    made.filters["pace"] = lambda ratio: in_words({"latency": ratio})
    made.globals["terms"] = TERMS
    made.globals["reaches"] = _REACHES
    # A file under a new name is fetched again, so that the old one may be kept for long.
    made.globals["asset"] = lambda name: f"portal/{name}?v={_version(name)}"
    made.globals["images_missing"] = lambda: (
        "" if is_installed("images") else f"To see charts, {how_to_add(['images'])}."
    )
    return made
