"""Deployments that several tests of the core share, made by hand from public figures."""

from __future__ import annotations

from functools import cache

from service.core.architecture.config import parse_config
from service.core.architecture.model import ModelArchitecture
from service.core.deployment import (
    Accelerator,
    Deployment,
    Link,
    Parallelism,
    Precision,
    Region,
)
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import Interval, exact
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.calibration import (
    EngineOverhead,
    HardwareEfficiency,
    PerformanceCalibration,
    PowerModel,
)
from service.core.platform import Platform

LLAMA_70B = {
    "model_type": "llama",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}
MIXTRAL_8X7B = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
}

SERVER = Platform(
    id="server",
    name="Server of eight",
    kind="server-8",
    site_class="colocation",
    accelerators=8.0,
    shared_ratio=1.0,
    host_idle_w=Interval(1200.0, 800.0, 1800.0),
    host_load_w=Interval(2000.0, 1200.0, 3200.0),
    supply_efficiency_ratio=0.95,
    site_pue_ratio=Interval(1.35, 1.1, 1.6),
    site_wue_l_per_kwh=Interval(0.36, 0.0, 1.8),
    rated_power_w=10_200.0,
    embodied_kgco2e=Interval(4160.0, 3040.0, 5696.0),
    embodied_adpe_kgsbeq=Interval(0.304, 0.248, 0.368),
    embodied_primary_energy_mj=Interval(51_800.0, 38_328.0, 70_000.0),
    mass_kg=Interval(116.8, 106.4, 121.6),
)

H100 = Accelerator(
    id="nvidia-h100-sxm-80gb",
    name="NVIDIA H100 SXM 80GB",
    vendor="NVIDIA",
    family="nvidia-hopper",
    memory_bytes=80e9,
    memory_bandwidth_bytes_per_s=3.35e12,
    peak_flops_per_s={"bf16": 989.4e12, "fp16": 989.4e12, "fp8": 1978.9e12, "fp32": 66.9e12},
    scale_up=Link(450e9, 8e-6),
    scale_up_domain_accelerators=8,
    scale_out=Link(50e9, 1e-5),
    host_link_bandwidth_bytes_per_s=64e9,
    thermal_design_power_w=700.0,
    idle_power_w=Interval(70.0, 60.0, 80.0),
    embodied_kgco2e=Interval(273.0, 164.0, 575.0),
    mass_kg=exact(1.69),
    embodied_adpe_kgsbeq=Interval(0.0072, 0.0058, 0.009),
    embodied_primary_energy_mj=Interval(5426.0, 3721.0, 7912.0),
    platform=SERVER,
)

STOCKHOLM = Region(
    id="test/stockholm",
    name="Stockholm",
    country="SE",
    grid_gco2e_per_kwh=Interval(36.0, 30.0, 42.0),
    market_gco2e_per_kwh=None,
    pue_ratio=Interval(1.12, 1.10, 1.15),
    wue_l_per_kwh=Interval(0.04, 0.02, 0.08),
    ewif_l_per_kwh=Interval(5.0, 3.0, 8.0),
    water_stress_ratio=Interval(0.05, 0.0, 0.1),
)

INFRASTRUCTURE = Infrastructure(
    hardware_life_years=Interval(5.0, 4.0, 6.0),
    idle_ratio=Interval(0.12, 0.07, 0.2),
    primary_energy_mj_per_kwh=Interval(6.84, 3.6, 12.0),
    e_waste_collected_ratio=exact(0.223),
    e_waste_boards_ratio=Interval(0.3, 0.2, 0.4),
    e_waste_batteries_ratio=Interval(0.1, 0.05, 0.15),
)

CALIBRATION = PerformanceCalibration(
    hardware=HardwareEfficiency(
        matrix_ratio={32: 0.7, 16: 0.7, 8: 0.6, 4: 0.6},
        memory_ratio=0.85,
        attention_matrix_ratio=0.5,
        attention_memory_ratio=0.6,
        overlap_ratio=0.9,
        tile_rows=16.0,
        expert_ratio=0.8,
        link_ratio=0.6,
        prefill_log_sigma=0.2,
        decode_log_sigma=0.15,
        throughput_log_sigma=0.15,
    ),
    engine=EngineOverhead(
        step_s=6e-4, layer_s=5e-5, sequence_s=2e-5, collective_s=2e-5, launch_bound=False
    ),
    power=PowerModel(
        resident_ratio=0.08,
        active_ratio=0.4,
        memory_j_per_byte=1e-10,
        matrix_j_per_flop=6e-13,
        log_sigma=0.18,
        machine_log_sigma=0.1,
    ),
    source="test",
    measured=True,
)


@cache
def architecture(name: str) -> ModelArchitecture:
    """One of the architectures above, parsed once."""
    return parse_config({"llama-70b": LLAMA_70B, "mixtral-8x7b": MIXTRAL_8X7B}[name])


def deployment(model: str = "llama-70b", tensor: int = 8, weights: str = "bf16") -> Deployment:
    """The model on H100s with tensor parallelism."""
    return Deployment(
        architecture(model),
        Precision(NUMBER_FORMATS[weights], NUMBER_FORMATS["bf16"], NUMBER_FORMATS["bf16"]),
        H100,
        Parallelism(tensor=tensor),
    )
