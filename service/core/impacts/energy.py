"""Power of a deployment by what it does, and the energy of a request."""

from __future__ import annotations

from dataclasses import dataclass

from service.core.deployment import Accelerator
from service.core.elementwise import Number, maximum, minimum
from service.core.explanation import Formula, paths
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import (
    Interval,
    bounded,
    from_log_sigma,
    independent_sum,
    product,
    quotient,
    scale,
)
from service.core.performance.calibration import PowerModel
from service.core.performance.inference.latency import Usage

SECONDS_PER_HOUR = 3600.0
_ONE = Interval(1.0, 1.0, 1.0)


#: Paths start at an ``InferenceEnergy`` or a ``TrainingEnergy``.
POWER = (
    Formula(
        "accelerator_busy_power_w",
        "min(idle_power_w + max(thermal_design_power_w - idle_power_w, 0) * min(resident_ratio"
        " + active_ratio * kernel_ratio + memory_ratio * memory_utilisation_ratio"
        " + compute_ratio * compute_utilisation_ratio, 1), thermal_design_power_w)",
        "fitted on measured power, see the named calibration",
        "power.busy_power_w",
        paths(
            "power.thermal_design_power_w",
            "power.usage.kernel_ratio",
            "power.model.resident_ratio",
            "power.model.active_ratio",
            "power.model.memory_ratio",
            "power.model.compute_ratio",
            "power.idle_power_w",
            "power.usage.memory_utilisation_ratio",
            "power.usage.compute_utilisation_ratio",
            coefficients="power.model.source",
        ),
    ),
    Formula(
        "accelerator_mean_power_w",
        "busy_ratio * busy_power_w + (1 - busy_ratio) * idle_power_w",
        "definition",
        "power.accelerator_mean_power_w",
        paths("power.usage.busy_ratio", "power.busy_power_w", "power.idle_power_w"),
    ),
    Formula(
        "it_power_w",
        "accelerator_count * (accelerator_mean_power_w + host_power_w)",
        "definition",
        "power.it_power_w",
        paths("power.accelerator_count", "power.accelerator_mean_power_w", "power.host_power_w"),
    ),
)
#: Paths start at an ``InferenceEnergy``.
REQUEST = (
    Formula(
        "it_energy_per_request_wh",
        "it_power_w / requests_per_s / 3600",
        "definition",
        "request.it_wh",
        paths("power.it_power_w"),
    ),
)


@dataclass(frozen=True, slots=True)
class DeploymentPower:
    """Mean IT power of a deployment, before the building's share.

    Per accelerator [W]: ``busy_power_w`` while requests are in flight, ``idle_power_w`` otherwise,
    ``accelerator_mean_power_w`` over time, ``host_power_w`` its share of the server. ``it_power_w``
    is the whole deployment's.
    """

    busy_power_w: Interval
    idle_power_w: Interval
    accelerator_mean_power_w: Interval
    host_power_w: Interval
    it_power_w: Interval
    thermal_design_power_w: Number
    accelerator_count: int
    usage: Usage
    model: PowerModel


@dataclass(frozen=True, slots=True)
class RequestEnergy:
    """IT energy of one request, idle share included [Wh]."""

    accelerators_wh: Interval
    host_wh: Interval
    it_wh: Interval


def deployment_power(
    accelerator: Accelerator,
    accelerator_count: int,
    usage: Usage,
    model: PowerModel,
    infrastructure: Infrastructure,
) -> DeploymentPower:
    """Mean IT power of a deployment under load, never above the thermal design power [W].

    ``P = P_idle + (TDP − P_idle) · min(1, r + a·kernels + m·u_memory + c·u_compute)`` while busy,
    where the coefficients are fitted on measured power and ``kernels`` is the share of that time
    in which kernels run. An accelerator that waits for its engine draws little more than one that
    holds a model and does nothing.

    Parameters
    ----------
    accelerator, accelerator_count
        Device and how many.
    usage
        Shares of peak bandwidth, peak FLOP/s and time in use [-].
    model
        Fitted coefficients and their residual spread.
    infrastructure
        Host share and default idle power.

    Raises
    ------
    ValueError
        If the accelerator's thermal design power is unknown.
    """
    tdp_w = accelerator.thermal_design_power_w
    if tdp_w is None:
        raise ValueError(f"{accelerator.id} has no thermal design power")
    idle_w = infrastructure.idle_power_w(accelerator)
    share = minimum(
        model.resident_ratio
        + model.active_ratio * usage.kernel_ratio
        + model.memory_ratio * usage.memory_utilisation_ratio
        + model.compute_ratio * usage.compute_utilisation_ratio,
        1.0,
    )
    busy_value = idle_w.value + maximum(tdp_w - idle_w.value, 0.0) * share
    busy_w = bounded(from_log_sigma(busy_value, model.log_sigma), idle_w.low, tdp_w)
    mean_w = independent_sum(
        (scale(busy_w, usage.busy_ratio), scale(idle_w, 1.0 - usage.busy_ratio))
    )
    it_w = scale(independent_sum((mean_w, infrastructure.host_power_w)), accelerator_count)
    return DeploymentPower(
        busy_power_w=busy_w,
        idle_power_w=idle_w,
        accelerator_mean_power_w=mean_w,
        host_power_w=infrastructure.host_power_w,
        it_power_w=it_w,
        thermal_design_power_w=tdp_w,
        accelerator_count=accelerator_count,
        usage=usage,
        model=model,
    )


def request_energy(power: DeploymentPower, requests_per_s: Interval) -> RequestEnergy:
    """Energy of one request: mean power over the rate of requests [Wh].

    Parameters
    ----------
    power
        Mean power of the deployment [W].
    requests_per_s
        Requests ended per second by the whole deployment [1/s].
    """
    per_request_h = scale(quotient(_ONE, requests_per_s), 1.0 / SECONDS_PER_HOUR)
    count = power.accelerator_count
    accelerators_wh = product(scale(power.accelerator_mean_power_w, count), per_request_h)
    host_wh = product(scale(power.host_power_w, count), per_request_h)
    return RequestEnergy(
        accelerators_wh=accelerators_wh,
        host_wh=host_wh,
        it_wh=product(power.it_power_w, per_request_h),
    )
