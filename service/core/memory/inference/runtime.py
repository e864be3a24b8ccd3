"""What an engine takes beside weights, cache and activations, as measured distributions.

The driver's context, libraries' workspaces, collectives' buffers, captured graphs and the
allocator's slack follow from no formula; they are measured per engine and handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import inf
from operator import attrgetter

from service.core.deployment import Accelerator, Link, Parallelism
from service.core.elementwise import Number, everywhere, hypot, maximum, minimum, where
from service.core.engines import FALLBACK_ENGINE
from service.core.interval import Interval, exact, from_log_sigma, independent_sum, scale
from service.core.learning import Correction
from service.core.memory.weights import Loading, RankWeights

#: What ids of calibrations begin with that hold figures of an engine.
CALIBRATIONS = "memory-runtime/"

_NONE = exact(0.0)
#: From how much memory on some take more room unasked [B]. Source: Ollama, server/routes.go, 2026.
_MIDDLE_BYTES, _LARGE_BYTES = 23.0 * 2**30, 47.0 * 2**30
#: What a channel of a communicator carries [B/s], and the most channels there are for each on a
#: slow link. A connection of a channel has buffers of 9.6 MB (4 MiB, and those of two protocols of
#: small messages), and libraries open channels until these fill a link: two over PCIe, 24 over the
#: NVLink of an A100, at most 32. Source: NVIDIA, NCCL src/init.cc, src/include/device.h and
#: src/graph/search.cc, 2024. On two H100 they are 1.9 GB more than nothing, on two L40S 0.1 GB
#: (vllm-pull-10511, vllm-issue-15815).
_CHANNEL_BYTES_PER_S = 25e9
_MOST_CHANNELS = 16.0
#: How far what channels take is known, the more of them there are than were measured: an exponent.
_CHANNELS_SPREAD = 0.15


@dataclass(frozen=True, slots=True, eq=False)
class EngineRuntime:
    """Runtime memory of one engine, per accelerator; compared by identity, as models are.

    ``context_bytes`` is what the driver holds for a process, ``unified_context_bytes`` the same
    where the accelerator's memory is the host's, and ``native_context_bytes`` where no kernels of
    PyTorch are loaded beside the engine's, zero where they are [B]; ``counted_bytes`` what else
    libraries take outside the allocator, ``collectives_bytes`` what communication adds when a model
    spans accelerators that a slow link joins, such as PCIe, ``graphs_bytes`` captured graphs [B].
    ``slack_ratio`` is what the allocator reserves beyond temporary tensors at their peak,
    ``activation_ratio`` this over its formula, and ``workspace_bytes`` what libraries take from the
    allocator beside them [B]. ``bytes_per_logit`` is what sampling takes, ``widened_logit_bytes``
    what is added where the model's own code widens logits and the engine runs that,
    ``bytes_per_entry`` what kernels that choose tokens keep for each entry of the vocabulary,
    ``bytes_per_score`` what attention that is not fused takes for each score, beside which
    ``softmax_score_bytes`` are there at the peak [B], and of which ``copied_score_bytes`` are a
    copy that some backends make, and ``fused_score_bytes`` the same of fused attention, whose
    kernels take heads of a multiple of ``fused_features_multiple`` features, or of any number where
    that is zero [-]; where the engine ``keeps_copies``, pools of some keep those of each step,
    whatever room is left, and with ``widens_prompts`` they hold a matrix in 16 bit, too. The engine
    ``fuses_attention`` unless settings say otherwise, which not all of its users leave at that
    where its ``attention_varies``. Results of layers are ``result_ratio`` times as wide as
    activations: twice where they are in 32 bit. Speed goes by that, and by whether it
    ``fuses_elementwise`` operations, ``regrows_cache`` at each step, and ``repeats_heads`` of keys
    and values for those of queries.

    The sampler is prepared for ``profiled_sequences`` whatever the load, though for no more than
    the engine may run at once; zero where nothing is prepared. A step computes at most
    ``most_step_tokens`` even where settings allow more. An engine that ``prefills_whole`` prompts
    does not split them, and with ``whole_prompt_logits`` it computes logits for each of their
    tokens; one that ``reserves_cache`` measures a full step when it starts and fills the rest of
    its share with cache. One that ``profiles_images`` measures the largest images, too, and one
    that ``pages_images`` gives layers that look at images as many pages as the others; one that
    ``pages_windows`` does so for layers with a window where others have none, for ``windows_ratio``
    of all tokens [-], one that ``pages_shared`` for layers that read caches of others, and one that
    ``keeps_passed`` tokens for all layers with a window; one that ``groups_layers`` gives groups of
    as many layers pages of their own, for each of which it ``counts_groups`` where it prints how
    many tokens have room; one that ``checks_longest`` starts only with room for the longest
    sequence that it admits, and one with ``narrow_states`` keeps states in 16 bit that need no
    more. One that ``gathers_tokens`` has room at its experts for full steps of all copies that
    share them, and one that ``holds_experts`` keeps room for their results; one that
    ``allocates_context`` takes the caches of the longest sequence at once, of
    ``default_context_tokens`` at least where settings do not say how long these are; others, where
    they do not, take room for ``unset_context_tokens`` of all sequences together, some for more
    where there are 23 GiB of memory (``unset_context_middle_tokens``) or 47
    (``unset_context_large_tokens``) [token]. Whether people leave it at that is open:
    ``context_unset`` says that they do otherwise than is usual, who ask a default for less, or
    leave others at what they take. At its peak it holds ``cache_copies`` of its caches: two where a
    longer one is completed before the old goes. It ``fills_share`` where it takes all of its share
    when it starts; ``activations_in_share`` and ``graphs_in_share`` say whether these count against
    the share, or lie beside it, and ``context_in_share`` how much of the context does [-]. One that
    ``keeps_peak`` holds on to the temporary tensors that it measured when it started. Where the
    ``share_is_of_free`` memory, caches get that share of what all that counts against it leaves,
    and not the share of all less what counts. Where the ``share_is_of_caches``, these get that
    share of all memory. Where its share is its own choice, it keeps free besides
    ``kept_rank_bytes`` and ``kept_rank_ratio`` of all memory for each accelerator beyond the first,
    ``kept_wide_bytes`` for graphs of many, ``kept_copy_bytes`` for each copy that shares experts,
    ``kept_draft_bytes`` where tokens are drafted, ``kept_draft_model_bytes`` where another model
    does that [B], and all but ``images_share_ratio`` of the share where images are read [-].

    It ``holds_widened`` matrices where kernels want that, ``loads_repeated`` tables before it
    shares them, and ``joins_projections`` of queries, keys and values while it loads a model, with
    the single ones there until all layers are done; experts of a layer it then stacks, for which
    their inward matrices are there three times, joined, as room and as stack. It holds weights as
    ``expert_multiple``, ``expert_inner_multiple``, ``position_bytes`` and ``host_embedding`` say
    (see `Loading`).
    ``host_pool_bytes`` is set aside in the host's memory [B]. Sizes that follow from shapes are off
    by ``size_log_sigma``, the standard deviation of their logarithm, and weights, which files tell,
    by ``weights_log_sigma`` [-]; files of a mix differ beside that if ``mixes_vary``.
    """

    engine: str
    calibration: str
    collectives_bytes: Interval
    graphs_bytes: Interval
    slack_ratio: Interval
    bytes_per_logit: float
    profiled_sequences: float
    prefills_whole: bool
    reserves_cache: bool
    activations_in_share: bool
    graphs_in_share: bool
    context_bytes: Interval
    unified_context_bytes: Interval
    counted_bytes: Interval
    activation_ratio: Interval
    workspace_bytes: Interval
    size_log_sigma: float
    weights_log_sigma: float
    native_context_bytes: Interval = _NONE
    context_in_share: float = 0.0
    fills_share: bool = False
    share_is_of_free: bool = False
    share_is_of_caches: bool = False
    kept_rank_bytes: float = 0.0
    kept_rank_ratio: float = 0.0
    kept_wide_bytes: float = 0.0
    kept_copy_bytes: float = 0.0
    kept_draft_bytes: float = 0.0
    kept_draft_model_bytes: float = 0.0
    images_share_ratio: float = 1.0
    most_step_tokens: float = inf
    cache_copies: float = 1.0
    bytes_per_score: float = 0.0
    softmax_score_bytes: float = 0.0
    copied_score_bytes: float = 0.0
    fused_score_bytes: float = 0.0
    fused_features_multiple: float = 0.0
    keeps_copies: bool = False
    widens_prompts: bool = False
    widened_logit_bytes: float = 0.0
    bytes_per_entry: float = 0.0
    result_ratio: float = 1.0
    fuses_attention: bool = True
    attention_varies: bool = False
    whole_prompt_logits: bool = False
    fuses_elementwise: bool = True
    regrows_cache: bool = False
    repeats_heads: bool = False
    allocates_context: bool = False
    default_context_tokens: float = 0.0
    unset_context_tokens: float = 0.0
    unset_context_middle_tokens: float = 0.0
    unset_context_large_tokens: float = 0.0
    context_unset: bool = False
    profiles_images: bool = False
    pages_images: bool = False
    pages_windows: bool = False
    windows_ratio: float = 1.0
    pages_shared: bool = False
    keeps_passed: bool = False
    groups_layers: bool = False
    counts_groups: bool = False
    checks_longest: bool = False
    narrow_states: bool = False
    gathers_tokens: bool = False
    holds_experts: bool = False
    keeps_peak: bool = False
    holds_widened: bool = False
    loads_repeated: bool = False
    expert_multiple: float = 0.0
    expert_inner_multiple: float = 0.0
    position_bytes: float = 0.0
    joins_projections: bool = False
    host_embedding: bool = False
    host_pool_bytes: float = 0.0
    mixes_vary: bool = True

    @property
    def by_other_context(self) -> EngineRuntime | None:
        """The same where people set the length of sequences otherwise than is usual.

        None where nothing depends on it as long as settings do not say.
        """
        if self.allocates_context and (self.default_context_tokens or self.unset_context_tokens):
            return replace(self, context_unset=True)
        return None

    @property
    def loading(self) -> Loading:
        """How it holds what a checkpoint stores."""
        return Loading(
            self.expert_multiple,
            self.expert_inner_multiple,
            self.position_bytes,
            self.host_embedding,
        )

    def loaded_twice_bytes(self, weights: RankWeights) -> float:
        """What of the weights is there twice until a model is loaded [B]."""
        repeated = weights.repeated_bytes if self.loads_repeated else 0.0
        joined = weights.single_bytes + 2.0 * weights.inward_bytes
        return repeated + (joined if self.joins_projections else 0.0)

    def usable_bytes(self, capacity_bytes: Number, ratio: Number, counted: Number) -> Number:
        """What it may fill of the memory, by its share [-] and what counts against that [B]."""
        usable = capacity_bytes * ratio
        if self.share_is_of_caches:
            return usable + counted
        return usable + counted * (1.0 - ratio) if self.share_is_of_free else usable

    def held_tokens(self, tokens: Number, most_tokens: int | None) -> Number:
        """Tokens that a sequence's caches have room for, by the longest one allowed [token]."""
        if not self.allocates_context:
            return tokens
        if most_tokens is None and self.context_unset and self.default_context_tokens:
            # As many as are needed, or the default, which the oldest tokens leave.
            return minimum(tokens, self.default_context_tokens)
        most = self.default_context_tokens if most_tokens is None else float(most_tokens)
        return maximum(tokens, most) if most else tokens

    def unset_tokens(self, memory_bytes: Number) -> Number:
        """Tokens of all sequences that it makes room for unasked, by the memory [token]."""
        middle = maximum(self.unset_context_tokens, self.unset_context_middle_tokens)
        large = maximum(middle, self.unset_context_large_tokens)
        if middle == large == self.unset_context_tokens:
            return self.unset_context_tokens
        roomier = where(memory_bytes >= _LARGE_BYTES, large, middle)
        return where(memory_bytes >= _MIDDLE_BYTES, roomier, self.unset_context_tokens)

    def fixes_attended(self, most_tokens: int | None) -> bool:
        """Whether a step is prepared to attend to as many tokens as settings allow."""
        return self.allocates_context and most_tokens is not None and not self.prefills_whole

    def may_store_scores(self, fused: bool | None) -> bool:
        """Whether attention may not be fused although nothing says so."""
        return fused is None and self.attention_varies and self.fuses_attention

    def logit_bytes(self, *, widened: bool) -> Number:
        """What sampling takes for each logit, by whether the model's own code widens them [B].

        Logits of whole prompts are tensors of just this size, to which nothing is measured: what
        the peak of layers is over its formula does not hold for them.
        """
        each = self.bytes_per_logit + (self.widened_logit_bytes if widened else 0.0)
        return each / self.activation_ratio.value if self.whole_prompt_logits else each

    def score_bytes(self, fused: bool | None, copies: Number = 1.0) -> Number:
        """What attention takes for each score, by settings and the copies that are held [B]."""
        fused = self.fuses_attention if fused is None else fused
        if fused:
            return self.fused_score_bytes
        each = self.bytes_per_score + self.softmax_score_bytes
        return each + (copies - 1.0) * self.copied_score_bytes

    def figures(self) -> tuple[object, ...]:
        """All but its names: engines of which these are equal take as much memory."""
        found: tuple[object, ...] = _FIGURES(self)
        return found

    def corrected(self, correction: Correction) -> EngineRuntime:
        """The same with what is measured corrected."""
        return replace(
            self,
            context_bytes=correction.of(self.context_bytes),
            unified_context_bytes=correction.of(self.unified_context_bytes),
            native_context_bytes=correction.of(self.native_context_bytes),
            counted_bytes=correction.of(self.counted_bytes),
            collectives_bytes=correction.of(self.collectives_bytes),
            graphs_bytes=correction.of(self.graphs_bytes),
            slack_ratio=correction.of(self.slack_ratio),
            activation_ratio=correction.of(self.activation_ratio),
            workspace_bytes=correction.of(self.workspace_bytes),
        )

    def context(self, accelerator: Accelerator) -> Interval:
        """What the driver holds for the process [B]."""
        if accelerator.unified_memory:
            return self.unified_context_bytes
        native = self.native_context_bytes
        return native if everywhere(native.value > 0.0) else self.context_bytes

    def counted_context(self, context_bytes: Interval) -> Interval:
        """What of the context counts against the share [B]."""
        return scale(context_bytes, float(self.context_in_share))

    def libraries(self, parallelism: Parallelism, link: Link) -> Interval:
        """What libraries, and collectives over a link, hold outside the allocator [B]."""
        if not communicates(parallelism):
            return self.counted_bytes
        collectives = self.collectives_bytes
        if everywhere(collectives.value > 0.0):
            channels = channels_ratio(link)
            spread = channels**_CHANNELS_SPREAD
            collectives = Interval(
                collectives.value * channels,
                collectives.low * channels / spread,
                collectives.high * channels * spread,
            )
        if not gathers(parallelism):
            # What messages between stages take comes with the first of them, and is less.
            collectives = Interval(0.0, 0.0, collectives.high)
        return independent_sum((self.counted_bytes, collectives))

    def graphs(self, *, eager: bool) -> Interval:
        """What captured graphs hold, if any are captured [B]."""
        return _NONE if eager else self.graphs_bytes

    def activations(self, peak_bytes: Number, images_bytes: Number) -> Interval:
        """Activations at their peak, with what libraries take beside them [B].

        How the peak compares with its formula is measured of the language model: images are as
        their formula has them, with the same spread.
        """
        ratio = self.activation_ratio
        scaled = scale(ratio, peak_bytes)
        if not isinstance(images_bytes, float | int) or images_bytes > 0.0:
            scaled = Interval(
                maximum(scaled.value, images_bytes),
                maximum(scaled.low, images_bytes * ratio.low / ratio.value),
                maximum(scaled.high, images_bytes * ratio.high / ratio.value),
            )
        return independent_sum((scaled, self.workspace_bytes))

    def slack(self, peak_bytes: Number) -> Interval:
        """What the allocator reserves beyond temporary tensors [B]."""
        return scale(self.slack_ratio, peak_bytes)

    def loaded(self, weights_bytes: Number, mix_log_sigma: float = 0.0) -> Interval:
        """Weights, as far as files may differ, and what engines hold of these be off [B]."""
        mixed = mix_log_sigma if self.mixes_vary else 0.0
        return from_log_sigma(weights_bytes, hypot(self.weights_log_sigma, mixed))

    def sized(self, size_bytes: Number) -> Interval:
        """A size that follows from shapes, as far as what is held can be off it [B]."""
        return from_log_sigma(size_bytes, self.size_log_sigma)


def channels_ratio(link: Link) -> Number:
    """Channels that collectives open on a link, over those on a slow one [-]."""
    return minimum(maximum(link.bandwidth_bytes_per_s / _CHANNEL_BYTES_PER_S, 1.0), _MOST_CHANNELS)


def communicates(parallelism: Parallelism) -> bool:
    """Whether a model's accelerators exchange messages within a step."""
    return parallelism.replica_accelerators > 1 or parallelism.expert > 1


def gathers(parallelism: Parallelism) -> bool:
    """Whether all accelerators of a group add up or gather results, and not just pass them on.

    Buffers for rings and trees are made when such a group is; passing results from stage to stage
    opens connections when it first happens. Source: NVIDIA, NCCL src/init.cc and
    src/transport/p2p.cc, 2024 (channels connect on first use).
    """
    return max(parallelism.tensor, parallelism.context, parallelism.expert) > 1


_NAMES = frozenset({"engine", "calibration"})
_FIGURES = attrgetter(*(one.name for one in fields(EngineRuntime) if one.name not in _NAMES))


@dataclass(frozen=True, slots=True)
class RuntimeOverheads:
    """Runtime memory by engine."""

    engines: Mapping[str, EngineRuntime]

    def of(self, engine: str) -> EngineRuntime:
        """Figures of an engine, or the fallback's where it has none of its own."""
        return self.engines.get(engine) or self.engines[FALLBACK_ENGINE]

    def corrected(self, engine: str, correction: Correction) -> RuntimeOverheads:
        """The same with the figures of an engine corrected."""
        return RuntimeOverheads({**self.engines, engine: self.of(engine).corrected(correction)})
