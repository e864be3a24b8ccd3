"""What it takes engines to stream each token to its user, beside what they do for all answers."""

from __future__ import annotations

#: Time per sequence and step in which an engine makes a response of its new token before the next
#: step [s]. TensorRT-LLM says that this slows large batches down (``stream_interval``: "the
#: iteration interval to create responses under the streaming mode"). Beside answers that are told
#: whole (Offline), machines that streamed them (Server) took 20 us more for each sequence, 9 to 47
#: in four fifths of 32 machines, and 15 to 19 where layouts are certain (8 with H200): MLPerf
#: Inference 4.1, Llama 2 70B, 2024. GPT-J, which nobody streamed there, shows nothing of it. Of
#: other engines what was measured came over streams.
_STREAMED_S = {"tensorrt-llm": 2e-5}


def streamed_s(engine: str) -> float:
    """Time per sequence and step that an engine takes to stream a token [s]."""
    return _STREAMED_S.get(engine, 0.0)
