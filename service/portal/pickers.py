"""Fields that choose out of hundreds of entries: what they show, mean and suggest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from service.catalog.derived import derived
from service.catalog.search import search
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.formatting import number
from service.estimation.references import HUB_PREFIX
from service.estimation.wording import cloud_name

Collection = Literal["models", "accelerators", "regions"]
COLLECTIONS: tuple[Collection, ...] = get_args(Collection)
#: The fields of forms that choose out of a collection, without the number of a column.
COLLECTION_OF: Mapping[str, Collection] = {
    "model": "models",
    "accelerator": "accelerators",
    "region": "regions",
}
#: What is suggested before anything is typed.
_USUAL: Mapping[Collection, tuple[str, ...]] = {
    "models": (
        "meta-llama/Llama-3.1-8B",
        "meta-llama/Llama-3.1-70B",
        "Qwen/Qwen3-32B",
        "openai/gpt-oss-120b",
        "deepseek-ai/DeepSeek-R1",
        "google/gemma-3-27b-it",
        "mistralai/Mixtral-8x7B-v0.1",
    ),
    "accelerators": (
        "nvidia-h100-sxm-80gb",
        "nvidia-h200-sxm-141gb",
        "nvidia-b200-sxm-180gb",
        "nvidia-l40s-48gb",
        "nvidia-l4-24gb",
        "nvidia-rtx-4090-24gb",
        "amd-mi300x-192gb",
    ),
    "regions": (
        "aws/eu-north-1",
        "aws/us-east-1",
        "azure/westeurope",
        "gcp/us-central1",
        "country/DE",
        "country/FR",
        "country/US",
    ),
}
MOST_SUGGESTIONS = 12
MOST_TYPED = 200
_KINDS = {"country": "Countries", "grid": "Grids", "state": "States"}
#: What accelerators look like, by their form.
_FORMS = {
    "pcie": "card",
    "board": "card",
    "sxm": "module",
    "oam": "module",
    "module": "module",
    "superchip": "module",
    "wafer": "wafer",
    "soc": "chip",
    "apu": "chip",
    "cpu": "chip",
}
_BYTES_PER_GB, _BYTES_PER_TB = 1e9, 1e12


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An entry to choose: what is sent, what is read, what to know about it, and its group.

    ``form`` is what hardware looks like, for a picture of it; empty of everything else.
    """

    value: str
    text: str
    detail: str
    group: str
    form: str = ""


def suggestions(collection: Collection, typed: str, snapshot: CatalogSnapshot) -> list[Suggestion]:
    """Entries that somebody may mean who types, the likeliest first; the usual ones at first."""
    if not typed.strip():
        entries: Iterable[str] = (
            id_ for id_ in _USUAL[collection] if id_ in snapshot.collection(collection)
        )
    else:
        hits = search(snapshot, typed, (collection,), MOST_SUGGESTIONS)
        entries = (hit.entry_id for hit in hits)
    found = [_suggestion(collection, id_, snapshot) for id_ in entries]
    name = typed.strip()
    if collection == "models" and _may_be_on_the_hub(name) and name not in snapshot.models:
        found.append(Suggestion(f"{HUB_PREFIX}{name}", name, "look it up", "Hugging Face Hub"))
    return found


def as_rows(found: Iterable[Suggestion]) -> list[dict[str, str]]:
    """Suggestions as they go over the wire."""
    return [asdict(one) for one in found]


def detail(collection: Collection, id_: str, snapshot: CatalogSnapshot) -> str:
    """What to know about an entry that was chosen; empty where it is none of the catalog."""
    if id_ not in snapshot.collection(collection):
        return ""
    return _suggestion(collection, id_, snapshot).detail


def text_of(collection: Collection, value: str, snapshot: CatalogSnapshot) -> str:
    """What a field shows for a value: the name of an entry, else the value as it is."""
    return _texts(snapshot)[collection].get(value, value)


def meant(name: str, value: str, snapshot: CatalogSnapshot) -> str:
    """The value that a field's text means: the id of an entry that has this name, else the text."""
    collection = COLLECTION_OF.get(name.partition("_")[0])
    if collection is None:
        return value
    return _ids(snapshot)[collection].get(value.strip().casefold(), value)


@derived()
def _texts(snapshot: CatalogSnapshot) -> dict[Collection, dict[str, str]]:
    return {
        "models": {},
        "accelerators": {id_: entry.value.name for id_, entry in snapshot.accelerators.items()},
        "regions": {id_: _place(id_, snapshot) for id_ in snapshot.regions},
    }


@derived()
def _ids(snapshot: CatalogSnapshot) -> dict[Collection, dict[str, str]]:
    return {
        collection: {text.casefold(): id_ for id_, text in texts.items()}
        for collection, texts in _texts(snapshot).items()
    }


def _place(id_: str, snapshot: CatalogSnapshot) -> str:
    """A region by its town and what its cloud calls it."""
    entry = snapshot.regions[id_]
    place = entry.document.get("place")
    if entry.document.get("kind") != "cloud" or not place:
        return entry.value.name
    return f"{place}, {cloud_name(id_, entry.value.name)} {id_.partition('/')[2]}"


def _suggestion(collection: Collection, id_: str, snapshot: CatalogSnapshot) -> Suggestion:
    text = text_of(collection, id_, snapshot)
    if collection == "models":
        return Suggestion(id_, text, _model_detail(id_, snapshot), _organisation(id_, snapshot))
    if collection == "accelerators":
        entry = snapshot.accelerators[id_].value
        form = _FORMS.get(str(snapshot.accelerators[id_].document.get("form_factor")), "")
        return Suggestion(id_, text, _accelerator_detail(id_, snapshot), entry.vendor, form)
    document = snapshot.regions[id_].document
    kind = str(document.get("kind"))
    grid = snapshot.regions[id_].value.grid_gco2e_per_kwh
    told = "" if grid is None else f"{number(round(float(grid.value)))} g CO₂e/kWh"
    group = _KINDS.get(kind) or cloud_name(id_, snapshot.regions[id_].value.name)
    return Suggestion(id_, text, told, group)


def _model_detail(id_: str, snapshot: CatalogSnapshot) -> str:
    architecture = snapshot.models[id_].value
    size = f"{number(float(f'{architecture.total_parameters / 1e9:.3g}'))} B parameters"
    longest = architecture.max_position_embeddings
    return size if longest is None else f"{size} · {round(longest / 1e3):,}k context"


def _organisation(id_: str, snapshot: CatalogSnapshot) -> str:
    return str(snapshot.models[id_].document.get("organisation") or "Others")


def _accelerator_detail(id_: str, snapshot: CatalogSnapshot) -> str:
    one = snapshot.accelerators[id_].value
    parts = [
        f"{number(float(one.memory_bytes) / _BYTES_PER_GB)} GB",
        f"{number(float(one.memory_bandwidth_bytes_per_s) / _BYTES_PER_TB)} TB/s",
    ]
    price = _least_prices(snapshot).get(id_)
    if price is not None:
        parts.append(f"from {number(price)} USD/h")
    return " · ".join(parts)


@derived()
def _least_prices(snapshot: CatalogSnapshot) -> dict[str, float]:
    """The lowest list price on demand of each accelerator, over clouds and places [USD/h]."""
    found: dict[str, float] = {}
    for entry in snapshot.instances.values():
        one: Any = entry.value
        for price in one.prices.get("on-demand", {}).values():
            each = price.usd_per_hour / one.accelerators
            found[one.accelerator] = min(each, found.get(one.accelerator, each))
    return found


def _may_be_on_the_hub(name: str) -> bool:
    owner, _, rest = name.partition("/")
    return bool(owner and rest) and " " not in name and "/" not in rest
