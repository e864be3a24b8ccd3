"""Releases whose steps with prompts issue each kernel from Python, beside graphs of decoding."""

from __future__ import annotations

from service.core.interval import Interval

#: Releases that capture graphs of decoding alone, and have no compiled code between kernels of
#: prompts: SGLang until pieces of graphs became its default for prompts (pull request 16331, in
#: 0.5.10). vLLM's are compiled, so that what was fitted to it is no measure of these.
_EAGER_PROMPTS = frozenset({"sglang@before-0.4", "sglang@overlapped", "sglang@0.5.3"})
#: Time to issue the kernels of a dense layer of theirs, and by what factor it may be off either way
#: in nine cases of ten. DeepSeek-V3 on eight accelerators took 82.6 ms for a prompt of one token,
#: and 23.1 ms where a graph was replayed (pull request 12160, 2025). It has the kernels of 146
#: dense layers (``layer_kernels``), on a host that takes 1.19 times as long as a usual one.
_DENSE_LAYER_S, _DOUBT_RATIO = 4.7e-4, 1.5


def issues_prompts_eagerly(release: str) -> bool:
    """Whether kernels of a release's prompts are issued from Python, one by one."""
    return release in _EAGER_PROMPTS


def eager_prompt_layer_s() -> Interval:
    """Time to issue the kernels of a dense layer of a prompt from Python [s]."""
    return Interval(_DENSE_LAYER_S, _DENSE_LAYER_S / _DOUBT_RATIO, _DENSE_LAYER_S * _DOUBT_RATIO)
