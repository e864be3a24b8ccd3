"""What counts as good and as bad of a training run, whatever the candidates.

Anchors depend on model, run and limits alone, so that a further candidate changes nobody's score.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator
from service.core.performance.kernels import peak_flops_per_s
from service.core.performance.training.run import SECONDS_PER_DAY, SECONDS_PER_HOUR
from service.core.performance.training.step import SIX
from service.core.search.ranking import Anchor
from service.core.search.workloads import Metric
from service.estimation.recommendations.reference import reference, up_to
from service.estimation.recommendations.training.search import KG_PER_GRAM
from service.estimation.recommendations.training.space import ResolvedTrainingSearch

#: The calibration that says how well a usual run uses the reference accelerator.
_REFERENCE_TRAINING = "recommendations/reference-training"

#: The plan where there is no deadline: a node of eight, but no longer than a month.
_PLAN_ACCELERATORS = 8.0
_PLAN_DAYS = 30.0
#: Time is as good as any at half the plan; without a deadline, utility is 0 at twice the plan.
_BEST_TIME_RATIO = 0.5
_WORST_TIME_RATIO = 2.0


def training_anchors(
    search: ResolvedTrainingSearch, snapshot: CatalogSnapshot
) -> Mapping[Metric, Anchor]:
    """Anchors of the metrics that can be compared.

    Returns
    -------
    mapping
        Time [s], carbon [kg], water [L] and cost [USD] of the run; without cost where no price is
        known of any accelerator in the search.
    """
    context, limits = search.context, search.limits
    standard = reference(snapshot, context)
    accelerator = standard.accelerator.value
    mfu_ratio = snapshot.calibrations[_REFERENCE_TRAINING].value["mfu_ratio"].value
    hours = reference_hours(search, accelerator, float(mfu_ratio))
    # At work, with its share of the machine.
    platform = accelerator.platform
    host_w = platform.host_power_w(1.0).value / platform.accelerators
    power_w = float((standard.accelerator_power_w + host_w) / platform.supply_efficiency_ratio)
    plan_s = min(hours / _PLAN_ACCELERATORS * SECONDS_PER_HOUR, _PLAN_DAYS * SECONDS_PER_DAY)
    worst_s = plan_s * _WORST_TIME_RATIO
    if limits.days is not None:
        plan_s = worst_s = limits.days * SECONDS_PER_DAY
    target = search.kind.headroom_target_ratio
    found: dict[Metric, Anchor] = {
        "headroom": Anchor(1.0 - target, 1.0),
        "latency": Anchor(plan_s * _BEST_TIME_RATIO, worst_s),
    }
    priced = bool(np.isfinite(context.prices.each_usd_per_hour()).any())
    found |= standard.anchors(hours * power_w / 1000.0, hours, KG_PER_GRAM, priced)
    if "cost" in found and limits.usd is not None:
        found["cost"] = up_to(min(found["cost"].worst, limits.usd))
    return found


def reference_hours(
    search: ResolvedTrainingSearch, accelerator: Accelerator, mfu_ratio: float
) -> float:
    """Hours of the reference that the first model's run takes at a usual MFU [h]."""
    flops = SIX * search.models[0].value.active_parameters * search.demand.tokens
    peak, _ = peak_flops_per_s(accelerator, "bf16")
    return float(flops / (peak * mfu_ratio) / SECONDS_PER_HOUR)
