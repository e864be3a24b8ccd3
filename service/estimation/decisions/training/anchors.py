"""What counts as good and as bad of a training run, whatever the candidates.

Anchors depend on model, run and limits alone, so that a further candidate changes nobody's score.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from service.core.planning.ranking import Anchor
from service.core.planning.workloads import Metric
from service.estimation.decisions.anchors import (
    BEST_RATIO,
    USUAL_EWIF,
    USUAL_PUE,
    WORLD_G_PER_KWH,
)
from service.estimation.decisions.ground import embodied_g_per_hour
from service.estimation.decisions.siting import USUAL_WUE
from service.estimation.decisions.training.field import SECONDS_PER_DAY
from service.estimation.decisions.training.space import ResolvedTrainingSearch

_FLOPS_PER_PARAMETER_AND_TOKEN = 6.0
#: Source: Grattafiori et al., The Llama 3 Herd of Models, 2024, table 4,
#: https://arxiv.org/abs/2407.21783 (38 to 43 % of dense bf16 peak).
_REFERENCE_MFU_RATIO = 0.4
#: Peak of the reference in bf16 and its thermal design power. Source: NVIDIA, H100 Tensor Core GPU
#: datasheet, 2024 (SXM5: 989 TFLOPS dense, 700 W).
_REFERENCE_FLOPS_PER_S = 989.4e12
_REFERENCE_W = 700.0
#: Host beside each accelerator. Source: NVIDIA, DGX H100 User Guide, 2023 (10.2 kW for eight).
_REFERENCE_SERVER_W = 10_200.0 / 8.0

#: The plan where there is no deadline: a node of eight, but no longer than a month.
_PLAN_ACCELERATORS = 8.0
_PLAN_DAYS = 30.0
#: Time is as good as any at half the plan; without a deadline, utility is 0 at twice the plan.
_BEST_TIME_RATIO = 0.5
_WORST_TIME_RATIO = 2.0


def training_anchors(search: ResolvedTrainingSearch) -> Mapping[Metric, Anchor]:
    """Anchors of the metrics that can be compared.

    Returns
    -------
    mapping
        Time [s], carbon [kg], water [L] and cost [USD] of the run; without cost where no price is
        known of any accelerator in the search.
    """
    hours = reference_hours(search)
    target = search.kind.headroom_target_ratio
    plan_s = min(hours / _PLAN_ACCELERATORS * 3600.0, _PLAN_DAYS * SECONDS_PER_DAY)
    worst_s = plan_s * _WORST_TIME_RATIO
    if search.limits.days is not None:
        plan_s = worst_s = search.limits.days * SECONDS_PER_DAY
    kwh = hours * max(_REFERENCE_W, _REFERENCE_SERVER_W) / 1000.0
    embodied_g = hours * float(embodied_g_per_hour(search.ground).max())
    carbon = (kwh * USUAL_PUE * WORLD_G_PER_KWH + embodied_g) / 1000.0
    water = kwh * (USUAL_PUE * USUAL_EWIF + USUAL_WUE.value)
    found: dict[Metric, Anchor] = {
        "headroom": Anchor(1.0 - target, 1.0),
        "latency": Anchor(plan_s * _BEST_TIME_RATIO, worst_s),
        "carbon": Anchor(carbon * BEST_RATIO, carbon),
        "water": Anchor(water * BEST_RATIO, water),
    }
    prices = search.ground.prices.each_usd_per_hour()
    if np.isfinite(prices).any():
        # The dearest known hour, at the reference's pace.
        cost = hours * float(np.nanmax(prices))
        if search.limits.usd is not None:
            cost = min(cost, search.limits.usd)
        found["cost"] = Anchor(cost * BEST_RATIO, cost)
    return found


def reference_hours(search: ResolvedTrainingSearch) -> float:
    """Hours of the reference accelerator that the first model's run takes at a usual MFU [h]."""
    active = search.models[0].value.active_parameters
    flops = _FLOPS_PER_PARAMETER_AND_TOKEN * active * search.demand.tokens
    return flops / (_REFERENCE_FLOPS_PER_S * _REFERENCE_MFU_RATIO) / 3600.0
