"""Forward steps on the roofline: where their time goes, and which limit they meet."""

from __future__ import annotations

from service.core.elementwise import Number, Truth
from service.core.lightweight import lightweight
from service.core.performance.steps import StepTime


@lightweight
class Phase:
    """A forward step seen on the roofline: where its time goes and which limit it meets.

    ``bottleneck`` is "compute", "memory_bandwidth", "interconnect", "overhead" or "capacity".
    """

    bottleneck: str
    step_s: Number
    compute_bound_s: Number
    memory_bound_s: Number
    interconnect_s: Number
    overhead_s: Number
    flops: Number
    memory_bytes: Number
    peak_flops_per_s: Number
    arithmetic_intensity_flop_per_byte: Number
    ridge_point_flop_per_byte: Number


def phase(
    step: StepTime, peak_flops: Number, bandwidth_bytes_per_s: Number, starved: Truth
) -> Phase:
    """A step seen on the roofline; ``starved`` ones wait for memory to hold more sequences."""
    memory_bound_s = step.work_s - step.compute_bound_s
    parts = {
        "compute": step.compute_bound_s,
        "memory_bandwidth": memory_bound_s,
        "interconnect": step.interconnect_s,
        "overhead": step.overhead_s,
    }
    # With arrays of configurations there is no one bottleneck to name; the parts tell.
    single = not hasattr(step.total_s, "shape")
    bottleneck = max(parts, key=lambda part: parts[part]) if single else "varies"
    if single and starved:
        bottleneck = "capacity"
    return Phase(
        bottleneck=bottleneck,
        step_s=step.total_s,
        compute_bound_s=step.compute_bound_s,
        memory_bound_s=memory_bound_s,
        interconnect_s=step.interconnect_s,
        overhead_s=step.overhead_s,
        flops=step.flops,
        memory_bytes=step.memory_bytes,
        peak_flops_per_s=peak_flops,
        arithmetic_intensity_flop_per_byte=step.flops / step.memory_bytes,
        ridge_point_flop_per_byte=peak_flops / bandwidth_bytes_per_s,
    )
