"""Asks ``accelerate estimate-memory`` what training takes; runs in its environment.

It knows weights, gradients and states of Adam on one accelerator, and no activations. Its largest
figure is what it prints as the peak.
"""

from pathlib import Path

from accelerate.commands.estimate import estimate_training_usage

_FULL_BYTES = 4


def answer(question: dict, _folder: Path) -> float | None:
    """The measured memory as Accelerate estimates it, in bytes; None if it does not."""
    if question["kind"] != "training" or not question["quantity"].endswith("_bytes"):
        return None
    if question["method"] != "full" or question["optimizer"] != "adamw":
        return None
    ranks = question["data"] * question["tensor"] * question["pipeline"]
    if not question["master_weights"] or ranks > 1:
        return None
    found = estimate_training_usage(_FULL_BYTES * question["parameters"], "bfloat16")
    return float(max(found.values()))
