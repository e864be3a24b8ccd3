"""The pools of a disaggregated deployment, from its model, hardware and load."""

from __future__ import annotations

from service.core.deployment import Deployment, ServingSettings
from service.core.memory.kv_cache import cache_layout, layout_sequence_bytes
from service.core.performance.inference.disaggregation import Pools, balanced_prefill_replicas
from service.core.performance.inference.replica import Replica, decode_load
from service.core.performance.steps import StepTime


def disaggregated_pools(
    deployment: Deployment, serving: ServingSettings, replica: Replica, slots: float
) -> Pools:
    """Both pools and what a request takes in each, for a single configuration.

    Parameters
    ----------
    deployment, serving
        What runs, with at least two replicas, and the settings that ask for pools.
    replica
        One of them, with its requests.
    slots
        Sequences that a decode replica runs at most [-].
    """
    disaggregation = serving.disaggregation
    assert disaggregation is not None  # noqa: S101 - the caller asks only then
    parallelism, requests = deployment.parallelism, replica.requests

    def decode(batch: float) -> StepTime:
        return replica.step(decode_load(requests, batch / parallelism.pipeline)).slowed(
            replica.calibration.corrections.decode.ratio
        )

    prefill = replica.prefill()
    # Chunks follow each other through the stages; only the last has to come out.
    chunks = float(replica.prefill_chunks)
    prompt_s = float(prefill.total_s * replica.passes(chunks))
    later_tokens = float(requests.later_tokens)
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
    cache = float(layout_sequence_bytes(layout, float(requests.context_tokens)))
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
        input_square_ratio=float(requests.input_spread.square_ratio),
        output_square_ratio=float(requests.output_spread.square_ratio),
    )
