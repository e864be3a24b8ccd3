"""The same measurements, asked about with less."""

from __future__ import annotations

from service.estimation.measurements.documents import MeasurementDocument
from service.validation.reading import Line
from service.validation.report.unsaid import saying_less


def test_less_is_said_of_how_it_ran_and_all_of_what_ran_on_what():
    document = MeasurementDocument.model_validate(
        {
            "kind": "inference",
            "request": {
                "model": "llama-3.1-8b",
                "accelerator": "nvidia-rtx-4090-24gb",
                "precision": {"weights": "gguf-q4_k_m"},
                "serving": {
                    "engine": "llama.cpp",
                    "engine_version": "2024-05",
                    "backend": "vulkan",
                    "max_running_sequences": 4,
                },
                "workload": {"input_tokens": 512, "output_tokens": 128, "concurrency": 1},
            },
            "measured": {"tpot_s": 0.01},
        }
    )
    refused = Line(2, None, "no measurement", ())
    less, left = saying_less([Line(1, document, None, ()), refused])
    assert left == refused
    assert less.document is not None
    asked = less.document.model_dump(mode="json", exclude_unset=True)
    told = document.model_dump(mode="json", exclude_unset=True)
    assert asked["request"]["serving"] == {"engine": "llama.cpp", "max_running_sequences": 4}
    del told["request"]["serving"], asked["request"]["serving"]
    assert asked == told


def _trained(measured):
    return MeasurementDocument.model_validate(
        {
            "kind": "training",
            "request": {
                "model": "llama-3.1-8b",
                "accelerator": "nvidia-h100-sxm-80gb",
                "training": {"framework": "torchtitan", "micro_batch_size": 2},
            },
            "measured": measured,
        }
    )


def test_a_micro_batch_is_left_unsaid_where_figures_mean_something_without_it():
    """A rate is that of any micro-batch; a size or a step's time is that of one of them."""
    for measured, kept in (
        ({"tokens_per_s": 5e4}, False),
        ({"tokens_per_s": 5e4, "mfu_ratio": 0.4}, False),
        ({"tokens_per_s": 5e4, "process_bytes": 6e10}, True),
        ({"step_s": 2.0}, True),
        ({"out_of_memory": True}, True),
    ):
        [less] = saying_less([Line(1, _trained(measured), None, ())])
        asked = less.document.model_dump(mode="json", exclude_unset=True)["request"]["training"]
        assert ("micro_batch_size" in asked) is kept, measured
