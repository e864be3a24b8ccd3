"""Power of a deployment by what it does, and the energy of a request."""

from __future__ import annotations

from service.core.deployment import Accelerator
from service.core.elementwise import Number, is_nothing, maximum, minimum, sqrt
from service.core.explanation import Formula, paths
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import (
    Interval,
    at_most,
    bounded,
    exact,
    from_log_sigma,
    independent_sum,
    quotient,
    scale,
)
from service.core.lightweight import computed_once, lightweight
from service.core.performance.calibration import PowerModel
from service.core.performance.usage import PhaseUse, Usage
from service.core.platform import Platform

SECONDS_PER_HOUR = 3600.0
#: What stands for a span of no width [W].
_LEAST_SPAN_W = 1e-9
NO_POWER = exact(0.0)


def _phase_formulas(name: str, phase: str) -> tuple[Formula, Formula]:
    """What a phase would draw above idle, and what it draws as the limit of power nears."""
    return (
        Formula(
            f"accelerator_{name}_wanted_w",
            "max(design_power_w - idle_power_w, 0) * (resident_ratio + active_ratio * kernel_ratio)"
            " + memory_j_per_byte * bytes_per_s + matrix_j_per_flop * matrix_flops_per_s",
            "fitted on measured power, see the named calibration",
            f"power.{phase}.wanted_w",
            paths(
                "power.design_power_w",
                "power.idle_power_w",
                "power.model.resident_ratio",
                "power.model.active_ratio",
                "power.model.memory_j_per_byte",
                "power.model.matrix_j_per_flop",
                f"power.{phase}.use.kernel_ratio",
                f"power.{phase}.use.bytes_per_s",
                f"power.{phase}.use.matrix_flops_per_s",
                coefficients="power.model.source",
            ),
        ),
        Formula(
            f"accelerator_{name}_power_w",
            "max(waiting_power_w, idle_power_w + min(own_ratio * wanted_w / sqrt(sqrt(1 + (wanted_w"
            " / max(most_power_w - idle_power_w, 1e-9)) ** 4)), max(most_power_w - idle_power_w,"
            " 0)))",
            "governors keep the mean below the limit, as measured nodes show",
            f"power.{phase}.power_w",
            paths(
                "power.most_power_w",
                "power.idle_power_w",
                "power.waiting_power_w",
                "power.model.own_ratio",
                f"power.{phase}.wanted_w",
            ),
        ),
    )


#: Paths start at an ``InferenceEnergy`` or a ``TrainingEnergy``; a run of training has one phase.
POWER = (
    *_phase_formulas("prefill", "prefill"),
    *_phase_formulas("main", "main"),
    Formula(
        "accelerator_busy_power_w",
        "prefill_ratio * prefill_power_w + main_ratio * main_power_w",
        "definition; of a single phase, its power",
        "power.busy_power_w",
        paths(
            prefill_ratio="power.prefill.use.time_ratio",
            prefill_power_w="power.prefill.power_w",
            main_ratio="power.main.use.time_ratio",
            main_power_w="power.main.power_w",
        ),
    ),
    Formula(
        "accelerator_mean_power_w",
        "busy_ratio * busy_power_w + (1 - busy_ratio) * waiting_power_w",
        "definition; what waits holds its model",
        "power.accelerator_mean_power_w",
        paths("power.usage.busy_ratio", "power.busy_power_w", "power.waiting_power_w"),
    ),
    Formula(
        "computing_power_w",
        "computing_machines * host_processors_w * computing_ratio / accelerator_count",
        "figures of the platform",
        "power.computing_power_w",
        paths(
            "power.computing_machines",
            "power.accelerator_count",
            "power.platform.host_processors_w",
            "power.usage.computing_ratio",
            platform="power.platform.id",
        ),
    ),
    Formula(
        "host_power_w",
        "min((machines * (host_idle_w + max(host_load_w - host_idle_w, 0) * busy_ratio)"
        " / accelerator_count + computing_power_w + accelerator_mean_power_w)"
        " / supply_efficiency_ratio, rated_power_w * max(machines, computing_machines)"
        " / accelerator_count) - accelerator_mean_power_w",
        "figures of the platform",
        "power.host_power_w",
        paths(
            "power.machines",
            "power.accelerator_count",
            "power.platform.host_idle_w",
            "power.platform.host_load_w",
            "power.platform.supply_efficiency_ratio",
            "power.platform.rated_power_w",
            "power.usage.busy_ratio",
            "power.computing_machines",
            "power.computing_power_w",
            "power.accelerator_mean_power_w",
            platform="power.platform.id",
        ),
    ),
    Formula(
        "it_power_w",
        "accelerator_count * (accelerator_mean_power_w + host_power_w + tiers_power_w)",
        "definition",
        "power.it_power_w",
        paths(
            "power.accelerator_count",
            "power.accelerator_mean_power_w",
            "power.host_power_w",
            "power.tiers_power_w",
        ),
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


@lightweight
class PhasePower:
    """Power of one accelerator in a phase of its work [W].

    ``wanted_w`` is what the work would take above idle if nothing limited it, ``limited_w`` what it
    takes from ``least_w``, idle, to ``most_w``; ``log_sigma`` is its spread [-].
    """

    use: PhaseUse
    wanted_w: Number
    limited_w: Number
    least_w: Number
    most_w: Number
    log_sigma: Number

    @property
    def power_w(self) -> Interval:
        """What it takes with its interval [W]."""
        spread_w = from_log_sigma(self.limited_w, self.log_sigma)
        return bounded(spread_w, self.least_w, self.most_w)


@lightweight
class DeploymentPower:
    """Mean IT power of a deployment, before the building's share.

    Per accelerator [W]: ``busy_power_w`` while requests are in flight, ``waiting_power_w`` while
    there are none and a model is held, ``idle_power_w`` with nothing on it,
    ``accelerator_mean_power_w`` over time, ``host_power_w`` its share of the machine, with what
    power supplies lose, of which processors that compute draw ``computing_power_w``, before losses,
    in ``computing_machines``; ``tiers_power_w`` traffic of memory beside both, as far as its energy
    is known. ``it_power_w`` is the whole deployment's, at the socket. ``phases`` have
    the power of computing prompts, if that is told apart, and of the rest. ``following_ratio`` is
    the share of the accelerator's mean power that goes with the speed of the work [-],
    ``machines`` how many the accelerators take up. ``design_power_w`` is the accelerator's thermal
    design power, ``most_power_w`` the limit that it is set to.
    """

    phases: tuple[PhasePower, ...]
    busy_power_w: Interval
    idle_power_w: Interval
    waiting_power_w: Interval
    accelerator_mean_power_w: Interval
    host_power_w: Interval
    computing_power_w: Interval
    tiers_power_w: Interval
    it_power_w: Interval
    design_power_w: Number
    most_power_w: Number
    following_ratio: Number
    accelerator_count: int
    machines: Number
    computing_machines: Number
    platform: Platform
    usage: Usage
    model: PowerModel

    @property
    def prefill(self) -> PhasePower | None:
        """Power while prompts are computed; None where that is not told apart."""
        return self.phases[0] if len(self.phases) > 1 else None

    @property
    def following_it_ratio(self) -> Number:
        """Share of the IT power that goes with the speed of the work [-]."""
        accelerators_w = self.accelerator_count * self.accelerator_mean_power_w.value
        return self.following_ratio * accelerators_w / self.it_power_w.value

    @property
    def main(self) -> PhasePower:
        """Power while tokens are decoded, or a model is trained."""
        return self.phases[-1]


@lightweight
class RequestEnergy:
    """IT energy of one request, idle share included: that of ``power`` between two requests."""

    power: DeploymentPower
    requests_per_hour: Interval

    @computed_once
    def accelerators_wh(self) -> Interval:
        """Accelerators' share [Wh]."""
        return self._of_each(self.power.accelerator_mean_power_w)

    @computed_once
    def host_wh(self) -> Interval:
        """Share of machines around them [Wh]."""
        return self._of_each(self.power.host_power_w)

    @computed_once
    def it_wh(self) -> Interval:
        """All of it [Wh]."""
        return quotient(self.power.it_power_w, self.requests_per_hour)

    def _of_each(self, power_w: Interval) -> Interval:
        return quotient(scale(power_w, self.power.accelerator_count), self.requests_per_hour)


def deployment_power(
    accelerator: Accelerator,
    accelerator_count: int,
    usage: Usage,
    model: PowerModel,
    infrastructure: Infrastructure,
    tiers_power_w: Interval = NO_POWER,
    copies: Number = 1.0,
) -> DeploymentPower:
    """Mean IT power of a deployment under load, never above the limits of power [W].

    In each phase work takes ``W = D·(r + a·kernels) + e_m·bytes/s + e_c·FLOP/s`` above idle, of
    the span ``D`` to the thermal design power: a model that is resident and kernels that run draw
    shares of it, and every byte that moves and every operation of matrix units takes an energy of
    its own. Clocks fall as power nears its limit, and not before: with the span ``S`` to the limit,
    ``P = P_idle + W / (1 + (W/S)⁴)^¼``. The constants are fitted on measured power. An accelerator
    that waits for its engine draws little more than one that holds a model and does nothing, and
    no less; without requests it draws the latter.

    Parameters
    ----------
    accelerator, accelerator_count
        Device in its platform, and how many.
    usage
        What it does, phase by phase, and share of time in use [-].
    model
        Fitted constants and their residual spread.
    infrastructure
        Default power at rest.
    tiers_power_w
        What traffic of memory beside the machine takes, for each accelerator [W].
    copies
        Deployments like this one that share hosts, and what their processors compute [-].

    Raises
    ------
    ValueError
        If the accelerator's thermal design power is unknown.
    """
    most_w, design_w = accelerator.most_power_w, accelerator.thermal_design_power_w
    if most_w is None or design_w is None:
        raise ValueError(f"{accelerator.id} has no thermal design power")
    idle_w, busy = infrastructure.idle_power_w(accelerator), usage.busy_ratio
    waiting_w = bounded(infrastructure.waiting_power_w(accelerator), 0.0, most_w)
    span_w = maximum(most_w - idle_w.value, 0.0)
    design_span_w = maximum(design_w - idle_w.value, 0.0)
    resident_w = design_span_w * model.resident_ratio
    phases = []
    busy_value: Number = 0.0
    following_w: Number = 0.0
    for use in usage.phases:
        moving_w = (
            design_span_w * model.active_ratio * use.kernel_ratio
            + model.memory_j_per_byte * use.bytes_per_s
            + model.matrix_j_per_flop * use.matrix_flops_per_s
        )
        wanted_w = resident_w + moving_w
        exceeded = wanted_w / maximum(span_w, _LEAST_SPAN_W)
        square = exceeded * exceeded
        # The sharpness is four: roots that are rounded alike for one and for arrays.
        damping = 1.0 + square * square
        root = sqrt(sqrt(damping))
        value = idle_w.value + minimum(model.own_ratio * wanted_w / root, span_w)
        # What works draws no less than what waits.
        value = maximum(value, waiting_w.value)
        busy_value = busy_value + use.time_ratio * value
        following_w = following_w + use.time_ratio * model.own_ratio * moving_w / (root * damping)
        phases.append(PhasePower(use, wanted_w, value, idle_w.low, most_w, model.log_sigma))
    busy_w = bounded(from_log_sigma(busy_value, model.log_sigma), idle_w.low, most_w)
    mean_w = independent_sum((scale(busy_w, busy), scale(waiting_w, 1.0 - busy)))
    platform = accelerator.platform
    machines = platform.machines(accelerator_count)
    computing_ratio, computing_w = usage.computing_ratio, NO_POWER
    computing: Number = 0.0
    occupied = machines
    if not is_nothing(computing_ratio):
        computing = platform.computing_machines(accelerator_count * copies) / copies
        share = computing * computing_ratio / accelerator_count
        computing_w = scale(platform.host_processors_w, share)
        occupied = maximum(machines, computing)
    own_w = scale(platform.host_power_w(busy), machines / accelerator_count)
    if computing_w is not NO_POWER:
        own_w = independent_sum((own_w, computing_w))
    host_w = _host_power_w(platform, own_w, mean_w, occupied / accelerator_count)
    parts = (mean_w, host_w, tiers_power_w)
    it_w = _it_power_w(parts, accelerator_count, occupied, platform, model)
    following_ratio = following_w * busy / mean_w.value
    return DeploymentPower(
        tuple(phases),
        busy_w,
        idle_w,
        waiting_w,
        mean_w,
        host_w,
        computing_w,
        tiers_power_w,
        it_w,
        design_w,
        most_w,
        following_ratio,
        accelerator_count,
        machines,
        computing,
        platform,
        usage,
        model,
    )


def _host_power_w(platform: Platform, own_w: Interval, mean_w: Interval, share: Number) -> Interval:
    """An accelerator's part of its machine's host, and of what power supplies lose [W]."""
    lost = 1.0 / platform.supply_efficiency_ratio
    of_accelerator_w = mean_w.value
    at_most_w = maximum(platform.rated_power_w * share - of_accelerator_w, 0.0)

    def beside_w(host_w: Number) -> Number:
        drawn_w = (host_w + of_accelerator_w) * lost
        return minimum(drawn_w - of_accelerator_w, at_most_w)

    return Interval(beside_w(own_w.value), beside_w(own_w.low), beside_w(own_w.high))


def _it_power_w(
    each_w: tuple[Interval, ...],
    count: int,
    machines: Number,
    platform: Platform,
    model: PowerModel,
) -> Interval:
    """All parts of all accelerators, at least as uncertain as measured machines show [W]."""
    parts = scale(independent_sum(each_w), count)
    whole = from_log_sigma(parts.value, model.machine_log_sigma)
    found = Interval(parts.value, minimum(parts.low, whole.low), maximum(parts.high, whole.high))
    return at_most(found, machines * platform.rated_power_w)


def request_energy(power: DeploymentPower, requests_per_s: Interval) -> RequestEnergy:
    """Energy of one request: mean power over the rate of requests [Wh].

    Both are off by themselves: errors of power and of rates of the same runs, estimated without
    their source, hardly go together (a correlation of 0.19 over 102 runs).

    Parameters
    ----------
    power
        Mean power of the deployment [W].
    requests_per_s
        Requests ended per second by the whole deployment [1/s].
    """
    return RequestEnergy(power, scale(requests_per_s, SECONDS_PER_HOUR))
