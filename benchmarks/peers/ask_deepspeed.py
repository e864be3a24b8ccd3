"""Asks DeepSpeed's estimators of what model states need; runs in its environment.

They know weights, gradients and states of Adam in 16 and 32 bit, divided by ZeRO 2 or 3, and
neither activations nor the driver. Without offload, as what is asked about ran.
"""

import contextlib
import io
from pathlib import Path

with contextlib.redirect_stdout(io.StringIO()):
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

_SHARDED = 3
_DIVIDED = 2


def answer(question: dict, _folder: Path) -> float | None:
    """The measured memory as DeepSpeed estimates model states, in bytes; None if it does not."""
    if question["kind"] != "training" or not question["quantity"].endswith("_bytes"):
        return None
    if question["method"] != "full" or question["optimizer"] != "adamw":
        return None
    if not question["master_weights"] or question["tensor"] * question["pipeline"] > 1:
        return None
    ranks, parameters = question["data"], question["parameters"]
    if question["zero_stage"] == _SHARDED:
        _, held, _ = estimate_zero3_model_states_mem_needs(
            parameters,
            question["largest_layer_parameters"],
            num_gpus_per_node=ranks,
            cpu_offload=False,
        )
    elif question["zero_stage"] == _DIVIDED or ranks == 1:
        _, held = estimate_zero2_model_states_mem_needs(
            parameters, num_gpus_per_node=ranks, cpu_offload=False
        )
    else:
        return None
    return held * (ranks if question["quantity"].endswith("_total_bytes") else 1)
