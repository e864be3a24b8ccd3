"""What people call the parts of a deployment, in place of ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.formatting import number
from service.estimation.resolution import UNNAMED
from service.estimation.wording import place_name

#: How formats of a checkpoint itself end, which readers need not know.
_OF_CHECKPOINT = "-checkpoint"
#: What may be trained, and with what, as people call it.
_METHODS = {
    "full": "all weights",
    "lora": "LoRA adapters",
    "qlora": "QLoRA adapters",
}
_OPTIMIZERS = {
    "adamw": "AdamW",
    "adamw-8bit": "8-bit AdamW",
    "paged-adamw": "paged AdamW",
    "paged-adamw-8bit": "paged 8-bit AdamW",
    "adafactor": "Adafactor",
    "lion": "Lion",
    "muon": "Muon",
    "sgd-momentum": "SGD with momentum",
    "sgd": "SGD",
    "galore-adamw": "GaLore AdamW",
    "galore-adamw-8bit": "8-bit GaLore AdamW",
    "apollo": "APOLLO",
    "apollo-mini": "APOLLO-Mini",
}
#: Ways to divide work as people call them.
_DEGREES = (
    ("tensor", "tensor parallel"),
    ("pipeline", "pipeline of"),
    ("context", "context parallel"),
    ("expert", "expert parallel"),
)


@dataclass(frozen=True, slots=True)
class Names:
    """A deployment as people call it: its model, format of weights, accelerator and place."""

    model: str
    weights: str
    accelerator: str
    accelerator_count: int
    place: str

    @property
    def hardware(self) -> str:
        """How many of which accelerator."""
        return f"{self.accelerator_count:,} × {self.accelerator}"


def names_of(
    deployment: Mapping[str, Any], snapshot: CatalogSnapshot, model: str | None = None
) -> Names:
    """Names of the parts of a deployment.

    Parameters
    ----------
    deployment
        As estimates echo it, or a candidate of a recommendation.
    snapshot
        Holds the names.
    model
        What the model is called, where it has no name of its own.
    """
    return Names(
        model=model or model_name(deployment["model"]),
        weights=format_name(deployment["precision"]["weights"]),
        accelerator=_limited(deployment, snapshot),
        accelerator_count=deployment["accelerator_count"],
        place=place_name(deployment["region"], snapshot),
    )


def model_name(model: str) -> str:
    """A model without its organisation."""
    return "Your model" if model == UNNAMED else model.rpartition("/")[2]


def format_name(weights: str) -> str:
    """A format of numbers as people write it."""
    return weights.removesuffix(_OF_CHECKPOINT).upper()


def method_name(method: str) -> str:
    """What is trained, in words."""
    return _METHODS.get(method, method)


def optimizer_name(optimizer: str) -> str:
    """An optimizer as its authors write it."""
    return _OPTIMIZERS.get(optimizer, optimizer)


def layout_words(layout: Mapping[str, int]) -> list[str]:
    """How work is divided among accelerators, and in how many copies it is done."""
    copies = layout["data"]
    divided = [f"{name} {layout[degree]}" for degree, name in _DEGREES if layout.get(degree, 1) > 1]
    return [*divided, "1 copy" if copies == 1 else f"{copies:,} copies"]


def accelerator_name(accelerator: str, snapshot: CatalogSnapshot) -> str:
    """An accelerator without its vendor."""
    entry = snapshot.accelerators.get(accelerator)
    if entry is None:
        return "your accelerator" if accelerator == UNNAMED else accelerator
    return entry.value.name.removeprefix(f"{entry.value.vendor} ")


def deployment_name(deployment: Mapping[str, Any], snapshot: CatalogSnapshot) -> str:
    """Model, format and accelerators of an echoed deployment, as people call them."""
    return (
        f"{model_name(deployment['model'])} in {format_name(deployment['precision']['weights'])} "
        f"on {deployment['accelerator_count']:,} × "
        f"{_limited(deployment, snapshot)}"
    )


def _limited(deployment: Mapping[str, Any], snapshot: CatalogSnapshot) -> str:
    """An accelerator with the limit of its power, where there is one."""
    name = accelerator_name(deployment["accelerator"], snapshot)
    limit_w = deployment.get("power_limit_w")
    return name if limit_w is None else f"{name} at {number(limit_w)} W"


def place_names(regions: Iterable[str], snapshot: CatalogSnapshot) -> dict[str, str]:
    """Names of regions by their ids, told apart where a cloud has several in a town."""
    named = {region: place_name(region, snapshot) for region in regions}
    counts = Counter(named.values())
    return {
        region: name if counts[name] == 1 else f"{name} {region.partition('/')[2]}"
        for region, name in named.items()
    }
