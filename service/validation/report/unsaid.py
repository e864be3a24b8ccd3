"""The same measurements, asked about with less: what most people leave out of a request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from service.estimation.measurements.documents import MeasurementDocument
from service.validation.reading import Line

#: Settings that say how something ran rather than what ran on what, by the part of a request.
UNSAID: Mapping[str, tuple[str, ...]] = {
    "serving": ("engine_version", "backend", "flash_attention", "usage_context", "enforce_eager"),
    "training": (
        *("framework_version", "fp8_recipe", "attention", "lora_targets", "cross_entropy"),
        *("gradient_dtype", "gradient_sum_dtype", "prediction_layers", "fused_kernels"),
        *("adapter_dropout", "dropout", "master_weights", "optimizer_state_dtype"),
        *("expert_dispatch", "expert_overlap_ratio"),
    ),
}
#: The same of a whole request.
UNSAID_OF_ALL = ("platform",)
#: The same of training where only rates are measured: sizes of memory and times of steps are those
#: of a micro-batch, and mean nothing without it.
UNSAID_OF_RATES = ("micro_batch_size",)
_OF_BATCHES = ("_bytes", "step_s")


def saying_less(lines: Iterable[Line]) -> Iterator[Line]:
    """Documents whose requests leave to defaults what their sources say of releases and recipes."""
    for line in lines:
        document = line.document
        yield line if document is None else replace(line, document=said_less(document))


def said_less(document: MeasurementDocument) -> MeasurementDocument:
    """A document whose request leaves releases, recipes and the machine to defaults."""
    told = document.model_dump(mode="json", exclude_unset=True)
    request: dict[str, Any] = told["request"]
    for part, names in UNSAID.items():
        if isinstance(request.get(part), dict):
            request[part] = {k: v for k, v in request[part].items() if k not in names}
    for name in UNSAID_OF_ALL:
        request.pop(name, None)
    if not document.ran_out_of_memory and not any(
        name.endswith(_OF_BATCHES) for name in document.figures
    ):
        for name in UNSAID_OF_RATES:
            request.get("training", {}).pop(name, None)
    return MeasurementDocument.model_validate(told)
