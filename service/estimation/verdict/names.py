"""What people call the parts of a deployment, in place of ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.resolution import UNNAMED
from service.estimation.wording import place_name

#: How formats of a checkpoint itself end, which readers need not know.
_OF_CHECKPOINT = "-checkpoint"


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
        accelerator=accelerator_name(deployment["accelerator"], snapshot),
        accelerator_count=deployment["accelerator_count"],
        place=place_name(deployment["region"], snapshot),
    )


def model_name(model: str) -> str:
    """A model without its organisation."""
    return "Your model" if model == UNNAMED else model.rpartition("/")[2]


def format_name(weights: str) -> str:
    """A format of numbers as people write it."""
    return weights.removesuffix(_OF_CHECKPOINT).upper()


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
        f"{accelerator_name(deployment['accelerator'], snapshot)}"
    )


def place_names(regions: Iterable[str], snapshot: CatalogSnapshot) -> dict[str, str]:
    """Names of regions by their ids, told apart where a cloud has several in a town."""
    named = {region: place_name(region, snapshot) for region in regions}
    counts = Counter(named.values())
    return {
        region: name if counts[name] == 1 else f"{name} {region.partition('/')[2]}"
        for region, name in named.items()
    }
