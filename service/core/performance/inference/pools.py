"""The pools of a disaggregated deployment, from its model, hardware and load."""

from __future__ import annotations

from math import ceil

from service.core.deployment import Deployment, InferenceWorkload, ServingSettings
from service.core.memory.kv_cache import cache_layout, layout_sequence_bytes
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.inference.disaggregation import Pools, balanced_prefill_replicas
from service.core.performance.step import StepLoad, StepTime, step_time
from service.core.performance.work import RankWork


def disaggregated_pools(
    deployment: Deployment,
    workload: InferenceWorkload,
    serving: ServingSettings,
    calibration: PerformanceCalibration,
    work: RankWork,
    new_input_tokens: float,
    slots: float,
) -> Pools:
    """Both pools and what a request takes in each, for a single configuration.

    Parameters
    ----------
    deployment, workload, serving
        What runs, with at least two replicas, and the settings that ask for pools.
    calibration
        Efficiencies.
    work
        Work of a step on one rank.
    new_input_tokens
        Prompt tokens that are not found in a prefix cache [token].
    slots
        Sequences that a decode replica runs at most [-].
    """
    disaggregation = serving.disaggregation
    assert disaggregation is not None  # noqa: S101 - the caller asks only then
    accelerator, parallelism = deployment.accelerator, deployment.parallelism
    chunk = min(new_input_tokens, float(serving.chunked_prefill_tokens))
    chunks = float(ceil(new_input_tokens / serving.chunked_prefill_tokens))
    prefill_context = workload.input_tokens - new_input_tokens / 2.0
    decode_context = workload.input_tokens + workload.output_tokens / 2.0

    def step(load: StepLoad) -> StepTime:
        return step_time(work, load, accelerator, parallelism, calibration)

    def decode(batch: float) -> StepTime:
        sequences_per_stage = max(batch / parallelism.pipeline, 1.0)
        load = StepLoad(0.0, 0.0, 0.0, sequences_per_stage, decode_context)
        return step(load).slowed(calibration.corrections.decode.ratio)

    prefill = step(StepLoad(chunk, 1.0, prefill_context, 0.0, 0.0))
    prefill = prefill.slowed(calibration.corrections.prefill.ratio)
    # Chunks follow each other through the stages; only the last has to come out.
    at_work = calibration.engine.stages_at_work(parallelism.pipeline)
    prompt_s = float(prefill.total_s) * (1.0 + (chunks - 1.0) / float(at_work))
    later_tokens = float(workload.output_tokens) - 1.0
    prefill_replicas = disaggregation.prefill_replicas
    if prefill_replicas is None:
        decode_share_s = later_tokens * float(decode(slots).total_s) / slots
        prefill_replicas = balanced_prefill_replicas(parallelism.data, prompt_s, decode_share_s)
    layout = cache_layout(
        deployment.architecture,
        deployment.precision.kv_cache,
        parallelism,
        serving.kv_block_tokens,
        0,
    )
    # Every rank sends its own part of the cache over its own link.
    cache = float(layout_sequence_bytes(layout, float(workload.input_tokens)))
    link = disaggregation.link
    return Pools(
        prefill_replicas=prefill_replicas,
        decode_replicas=parallelism.data - prefill_replicas,
        slots=slots,
        later_tokens=later_tokens,
        prompt_s=prompt_s,
        transfer_s=float(link.latency_s + cache / link.bandwidth_bytes_per_s),
        prefill=prefill,
        chunks=chunks,
        decode=decode,
    )
