"""Options of a search, corrected by what own measurements say of any deployment on each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Accelerator
from service.core.learning import Kin
from service.core.search.batch_evaluation import AcceleratorOption
from service.estimation.learning.kin import name_of
from service.estimation.learning.lessons import learn

#: No deployment has this name: layouts and formats are still to be chosen.
_ANY = ""


def learnt_options(
    options: Sequence[AcceleratorOption],
    model: Entry[ModelArchitecture],
    accelerators: Iterable[Entry[Accelerator]],
    engine: str,
    snapshot: CatalogSnapshot,
) -> list[AcceleratorOption]:
    """Options for a model, each corrected as far as own reports tell of model, hardware or engine.

    What they tell of single deployments counts when the chosen ones are estimated once more.
    """
    if snapshot.reports is None:
        return list(options)
    found = []
    for option, accelerator in zip(options, accelerators, strict=True):
        calibration = option.calibration
        log_sigma = {
            "decode": float(calibration.decode_log_sigma),
            "prefill": float(calibration.prefill_log_sigma()),
            "power": float(calibration.power.log_sigma),
        }
        kin = Kin(name_of(model), name_of(accelerator), engine, _ANY, 1.0, 1.0)
        learnt = learn(kin, log_sigma, snapshot)
        if learnt is not None and learnt.lessons:
            option = replace(option, calibration=calibration.corrected(learnt.corrections))
        found.append(option)
    return found
