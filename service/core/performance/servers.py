"""What it takes servers to receive requests and to stream each token to its user."""

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


#: What passes before a request's prompt is begun and after its first token is chosen, whatever its
#: steps take [s]: HTTP, JSON and templates in Python, tokens looked up, a message to the engine's
#: process and one back. A server of SGLang whose accelerator was a clock of 2.6 ms told the first
#: token after 9.5 ms, of prompts of 128 tokens (tt-inference-server, issue 3560, 2026); looking up
#: so many took 1.3 to 2.8 ms there (issue 2173). vLLM's server is built alike. Others are not
#: known. Half of it to twice of it is as likely.
_RECEIVED_S = {"vllm": 5e-3, "sglang": 5e-3}


def received_s(engine: str) -> float:
    """Time of a server before a prompt is begun and after its first token is chosen [s]."""
    return _RECEIVED_S.get(engine, 0.0)


#: What is left of telling a token where a script waits for whole answers, over what it takes to
#: send it to a user: its text is made of ids, 18 us of some 60 (vLLM, issue 5206, 2024); nothing
#: is written, formatted or handed to users' connections [-].
SCRIPT_TOLD_RATIO = 0.3
