"""Every figure that entries of the catalog may state, declared once.

The JSON Schemas of the files, the checks of what files and requests state, the conversion to values
of the core and the reference page follow from these declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Bounds:
    """Physical limits of a figure, wide enough for anything that can be built."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class FigureSpec:
    """One figure: its unit, what it means and its limits.

    A field of the same name of the collection's core value takes it, if there is one.
    """

    name: str
    unit: str
    meaning: str
    bounds: Bounds
    required: bool = False

    @property
    def description(self) -> str:
        """Meaning and unit, as one sentence."""
        return f"{self.meaning} [{self.unit}]."


#: Collections whose figures may be lists of dated ones, the newest of which counts.
DATED = frozenset({"regions"})

_RATE = Bounds(1000.0, 1e18)
_PEAK = Bounds(1e6, 1e20)
_BUS = Bounds(1.0, 1e6)
_LATENCY = Bounds(1e-10, 10.0)
_SPEEDUP = Bounds(1.0, 1e6)
_INTENSITY = Bounds(0.0, 5000.0)
_PER_KWH = Bounds(0.0, 1000.0)
_SHARE = Bounds(0.0, 1.0)
_CAPACITY = Bounds(1000.0, 1e16)
_HOST_POWER = Bounds(0.0, 1e6)

_DECLARED: Mapping[str, tuple[FigureSpec, ...]] = {
    "accelerators": (
        FigureSpec("memory_bytes", "B", "Device memory as sold", _CAPACITY, required=True),
        FigureSpec(
            "memory_usable_bytes",
            "B",
            "Device memory that software sees before it allocates anything",
            _CAPACITY,
        ),
        FigureSpec(
            "memory_bandwidth_bytes_per_s",
            "B/s",
            "Peak bandwidth of the device memory",
            _RATE,
            required=True,
        ),
        FigureSpec("memory_bus_bits", "bit", "Width of the bus to the device memory", _BUS),
        FigureSpec(
            "memory_data_rate_bits_per_s",
            "bit/s",
            "Rate of the device memory on each line of its bus",
            _RATE,
        ),
        FigureSpec("peak_fp32_flops_per_s", "FLOP/s", "Dense peak, FP32 vector", _PEAK),
        FigureSpec("peak_tf32_flops_per_s", "FLOP/s", "Dense peak, TF32 matrix", _PEAK),
        FigureSpec(
            "peak_bf16_flops_per_s", "FLOP/s", "Dense peak, BF16 matrix, FP32 accumulation", _PEAK
        ),
        FigureSpec(
            "peak_fp16_flops_per_s", "FLOP/s", "Dense peak, FP16 matrix, FP32 accumulation", _PEAK
        ),
        FigureSpec(
            "peak_fp16_accumulate_flops_per_s",
            "FLOP/s",
            "Dense peak, FP16 matrix, FP16 accumulation, where that is faster",
            _PEAK,
        ),
        FigureSpec("peak_fp8_flops_per_s", "FLOP/s", "Dense peak, FP8 matrix", _PEAK),
        FigureSpec("peak_int8_flops_per_s", "FLOP/s", "Dense peak, INT8 matrix", _PEAK),
        FigureSpec("peak_fp4_flops_per_s", "FLOP/s", "Dense peak, FP4 matrix", _PEAK),
        FigureSpec(
            "vector_lane_count",
            "1",
            "Lanes of a vector unit, to whose multiples features of products are filled up",
            Bounds(1.0, 65536.0),
        ),
        FigureSpec(
            "matrix_unit_width",
            "1",
            "Rows and columns of a systolic matrix unit, to whose multiples features are filled up",
            Bounds(1.0, 65536.0),
        ),
        FigureSpec(
            "core_count",
            "1",
            "Cores that software takes for devices of their own, which share memory and links",
            Bounds(1.0, 64.0),
        ),
        FigureSpec(
            "scale_up_bandwidth_bytes_per_s",
            "B/s",
            "All scale-up links of one accelerator together, one direction",
            _RATE,
        ),
        FigureSpec(
            "scale_up_pair_bandwidth_bytes_per_s",
            "B/s",
            "Links to any one other accelerator where each pair has its own, one direction",
            _RATE,
        ),
        FigureSpec(
            "scale_up_latency_s",
            "s",
            "Least time of one scale-up message through the communication library",
            _LATENCY,
        ),
        FigureSpec(
            "scale_out_bandwidth_bytes_per_s",
            "B/s",
            "Network share of one accelerator in its reference system, one direction",
            _RATE,
        ),
        FigureSpec("scale_out_latency_s", "s", "Least time of one message between nodes", _LATENCY),
        FigureSpec(
            "host_link_bandwidth_bytes_per_s",
            "B/s",
            "Link between host and accelerator, one direction",
            _RATE,
        ),
        FigureSpec(
            "thermal_design_power_w", "W", "Power limit of the part as shipped", Bounds(1e-3, 1e6)
        ),
        FigureSpec(
            "idle_power_w",
            "W",
            "Power drawn with the driver loaded and no work running",
            Bounds(1e-6, 1e6),
        ),
        FigureSpec(
            "waiting_power_w",
            "W",
            "Power drawn while a program holds a model and nothing runs",
            Bounds(1e-6, 1e6),
        ),
        FigureSpec(
            "embodied_kgco2e",
            "kgCO2e",
            "Greenhouse gases of making one part, cradle to gate",
            Bounds(1e-6, 1e8),
        ),
        FigureSpec(
            "embodied_adpe_kgsbeq",
            "kg Sb-eq",
            "Abiotic depletion of elements by making one part",
            Bounds(1e-12, 10000.0),
        ),
        FigureSpec(
            "embodied_primary_energy_mj",
            "MJ",
            "Primary energy of making one part",
            Bounds(1e-6, 1e10),
        ),
        FigureSpec("mass_kg", "kg", "Mass of one part", Bounds(1e-6, 1e6)),
        FigureSpec(
            "sram_bytes",
            "B",
            "Last-level on-chip memory: L2, system-level cache or scratchpad",
            Bounds(1.0, 1e14),
        ),
        FigureSpec(
            "price_usd",
            "USD",
            "Price of one, of its date: at launch, by the list, or in shops",
            Bounds(1e-6, 1e9),
        ),
    ),
    "regions": (
        FigureSpec(
            "grid_gco2e_per_kwh",
            "gCO2e/kWh",
            "Location-based annual average intensity of the grid",
            _INTENSITY,
        ),
        FigureSpec(
            "market_gco2e_per_kwh",
            "gCO2e/kWh",
            "Intensity of the electricity that the operator contracts",
            _INTENSITY,
        ),
        FigureSpec(
            "residual_gco2e_per_kwh",
            "gCO2e/kWh",
            "What is left of the grid once contracted electricity is taken out",
            _INTENSITY,
        ),
        FigureSpec(
            "marginal_gco2e_per_kwh",
            "gCO2e/kWh",
            "What one more kWh makes the grid emit; for decisions, not for inventories",
            _INTENSITY,
        ),
        FigureSpec(
            "pue_ratio",
            "-",
            "Power usage effectiveness: energy of the site over that of its IT",
            Bounds(1.0, 10.0),
        ),
        FigureSpec(
            "wue_l_per_kwh", "l/kWh", "Water used on site for each kWh of IT energy", _PER_KWH
        ),
        FigureSpec(
            "ewif_l_per_kwh",
            "l/kWh",
            "Water that generation off site consumes for each kWh from the grid",
            _PER_KWH,
        ),
        FigureSpec(
            "water_stress_ratio",
            "-",
            "Withdrawal over supply of water where the site is",
            Bounds(0.0, 10000.0),
        ),
        FigureSpec(
            "wet_bulb_celsius",
            "°C",
            "Mean wet-bulb temperature of the place, for cooling towers",
            Bounds(-40.0, 40.0),
        ),
        FigureSpec(
            "electricity_usd_per_kwh",
            "USD/kWh",
            "Price of electricity for large customers, without taxes that they get back",
            Bounds(0.0, 100.0),
        ),
        FigureSpec(
            "carbon_free_energy_ratio",
            "-",
            "Share of carbon-free energy that the operator states",
            _SHARE,
        ),
        FigureSpec(
            "primary_energy_mj_per_kwh",
            "MJ/kWh",
            "Primary energy behind a kWh from the grid",
            _PER_KWH,
        ),
        FigureSpec(
            "adpe_kgsbeq_per_kwh",
            "kg Sb-eq/kWh",
            "Abiotic depletion of elements behind a kWh from the grid",
            Bounds(0.0, 1.0),
        ),
    ),
    "memory-tiers": (
        FigureSpec("bandwidth_bytes_per_s", "B/s", "Peak bandwidth of a unit, reading", _RATE),
        FigureSpec("capacity_bytes", "B", "Most that a unit holds", Bounds(1e3, 1e18)),
        FigureSpec(
            "usual_capacity_bytes", "B", "What a unit is usually built with", Bounds(1e3, 1e18)
        ),
        FigureSpec(
            "latency_s", "s", "Time from asking for a byte to having it, unloaded", _LATENCY
        ),
        FigureSpec("energy_pj_per_bit", "pJ/bit", "Energy of moving a bit", Bounds(1e-6, 1e6)),
        FigureSpec("thermal_design_power_w", "W", "Power limit of a unit", Bounds(1e-6, 1e6)),
        FigureSpec(
            "embodied_kgco2e_per_gb",
            "kgCO2e/GB",
            "Greenhouse gases of making it",
            Bounds(1e-9, 10000.0),
        ),
        FigureSpec("price_usd_per_gb", "USD/GB", "Price", Bounds(1e-9, 1e6)),
        FigureSpec(
            "price_over_ddr5_ratio",
            "-",
            "Price of a byte over that of server DDR5 in the figure's year",
            Bounds(1e-3, 10000.0),
        ),
        FigureSpec(
            "density_bits_per_mm2", "bit/mm²", "Bits on a square millimetre", Bounds(1.0, 1e15)
        ),
        FigureSpec(
            "scan_s",
            "s",
            "Time of one search over the whole capacity, inside the memory",
            Bounds(1e-12, 1000.0),
        ),
        FigureSpec("scan_j", "J", "Energy of that search", Bounds(1e-18, 1000.0)),
        FigureSpec(
            "kernel_speedup_ratio",
            "-",
            "How many times faster memory-bound products become when computed in it",
            _SPEEDUP,
        ),
        FigureSpec(
            "end_to_end_speedup_ratio",
            "-",
            "How many times faster whole answers became, as reported",
            _SPEEDUP,
        ),
        FigureSpec(
            "memory_bound_time_ratio",
            "-",
            "Share of generation time that goes to memory-bound products, as reported",
            Bounds(1e-6, 1.0),
        ),
    ),
    "interconnects": (
        FigureSpec(
            "bandwidth_bytes_per_s",
            "B/s",
            "All links of one endpoint together, one direction",
            _RATE,
            required=True,
        ),
        FigureSpec("link_bandwidth_bytes_per_s", "B/s", "One link or lane, one direction", _RATE),
        FigureSpec("latency_s", "s", "Time of the smallest message through the hardware", _LATENCY),
        FigureSpec(
            "energy_pj_per_bit", "pJ/bit", "Energy of moving a bit, both ends", Bounds(1e-6, 1e6)
        ),
    ),
    "platforms": (
        FigureSpec(
            "host_idle_w",
            "W",
            "Power of a machine without its accelerators while nothing runs, before its power"
            " supplies",
            _HOST_POWER,
        ),
        FigureSpec(
            "host_load_w",
            "W",
            "The same while requests are in flight or a model is trained",
            _HOST_POWER,
        ),
        FigureSpec(
            "host_processors_w",
            "W",
            "What a machine's host draws beyond that while all of its processors compute, for"
            " engines that leave layers or experts to them and for optimizers that run there",
            _HOST_POWER,
        ),
        FigureSpec(
            "supply_efficiency_ratio",
            "-",
            "Share of the power from the socket that power supplies pass on",
            Bounds(0.3, 1.0),
        ),
        FigureSpec(
            "rated_power_w", "W", "Most that a machine draws, by its maker", Bounds(0.1, 1e7)
        ),
        FigureSpec(
            "core_time_ratio",
            "-",
            "Time that one of its host's cores takes over that of an accelerator server's; 1 where"
            " nothing is known",
            Bounds(0.1, 20.0),
        ),
        FigureSpec(
            "host_matrix_flops_per_s",
            "FLOP/s",
            "Dense peak of all processors of a machine's host with 16-bit operands; some engines"
            " leave routed experts to them",
            Bounds(1e9, 1e16),
        ),
        FigureSpec(
            "host_memory_bandwidth_bytes_per_s",
            "B/s",
            "Peak bandwidth of all memory channels of a machine's host",
            Bounds(1e8, 1e14),
        ),
        FigureSpec(
            "accelerator_power_w",
            "W",
            "Power limit that the machine sets each accelerator, where it is not the part's own",
            Bounds(1e-3, 1e6),
        ),
        FigureSpec(
            "idle_wall_w",
            "W",
            "Measured power of the whole machine at the socket while nothing runs",
            _HOST_POWER,
        ),
        FigureSpec(
            "load_wall_w",
            "W",
            "Measured power of the whole machine at the socket under load",
            _HOST_POWER,
        ),
        FigureSpec(
            "scale_up_bandwidth_bytes_per_s",
            "B/s",
            "Links between accelerators of the machine, all of one accelerator, one direction",
            _RATE,
        ),
        FigureSpec(
            "scale_up_latency_s",
            "s",
            "Least time of one message between its accelerators",
            _LATENCY,
        ),
        FigureSpec(
            "scale_out_bandwidth_bytes_per_s",
            "B/s",
            "Network between machines, its share for one accelerator, one direction",
            _RATE,
        ),
        FigureSpec(
            "scale_out_latency_s",
            "s",
            "Least time of one message between machines",
            _LATENCY,
        ),
        FigureSpec(
            "host_link_bandwidth_bytes_per_s",
            "B/s",
            "Link between host and accelerator, one direction",
            _RATE,
        ),
        FigureSpec("host_memory_bytes", "B", "Memory of the host", Bounds(1e6, 1e16)),
        FigureSpec(
            "embodied_kgco2e",
            "kgCO2e",
            "Greenhouse gases of making one machine, without its accelerators unless they are a"
            " part of it",
            Bounds(1e-3, 1e8),
        ),
        FigureSpec(
            "embodied_adpe_kgsbeq",
            "kg Sb-eq",
            "Abiotic depletion of elements by making it",
            Bounds(1e-12, 10000.0),
        ),
        FigureSpec(
            "embodied_primary_energy_mj", "MJ", "Primary energy of making it", Bounds(1e-6, 1e10)
        ),
        FigureSpec("mass_kg", "kg", "Mass of one machine, counted likewise", Bounds(1e-3, 1e6)),
        FigureSpec(
            "noise_dba", "dB(A)", "Sound pressure at a metre, or as noted", Bounds(0.0, 200.0)
        ),
        FigureSpec("price_usd", "USD", "Price of one machine", Bounds(1e-6, 1e9)),
    ),
    "instances": (
        FigureSpec("vcpus", "-", "Virtual processors", _SPEEDUP),
        FigureSpec("host_memory_bytes", "B", "Host memory", Bounds(1e6, 1e16)),
        FigureSpec("network_bytes_per_s", "B/s", "Network, one direction", _RATE),
    ),
}

#: By collection and name.
FIGURES: Mapping[str, Mapping[str, FigureSpec]] = {
    collection: {spec.name: spec for spec in specs} for collection, specs in _DECLARED.items()
}


def with_figures(collection: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a collection's files with the figures that are declared."""
    specs = FIGURES[collection].values()
    figures: dict[str, Any] = {"type": "object", "additionalProperties": False}
    if required := [spec.name for spec in specs if spec.required]:
        figures["required"] = required
    figures["properties"] = {spec.name: _property(spec, collection in DATED) for spec in specs}
    if schema["type"] == "object":
        return {**schema, "properties": {**schema["properties"], "figures": figures}}
    entry = schema["$defs"]["entry"]
    entry = {**entry, "properties": {**entry["properties"], "figures": figures}}
    return {**schema, "$defs": {**schema["$defs"], "entry": entry}}


def _property(spec: FigureSpec, dated: bool) -> dict[str, Any]:
    value = {"minimum": spec.bounds.least, "maximum": spec.bounds.most}
    figure = {"$ref": "#/$defs/figure", "properties": {"value": value}}
    if not dated:
        return {"description": spec.description, **figure}
    several = {"type": "array", "minItems": 1, "items": figure}
    return {"description": spec.description, "anyOf": [figure, several]}
