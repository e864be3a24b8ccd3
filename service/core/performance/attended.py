"""Work of attention and of what chooses the tokens that it attends to, on one rank."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from service.core.architecture.model import Attention, LatentAttention, Span
from service.core.deployment import Parallelism
from service.core.elementwise import Number, is_nothing, maximum, minimum, scaled
from service.core.number_formats import NumberFormat
from service.core.performance.steps import StepLoad

#: No sequence shares what it attends to with others.
ALL_READ = 1.0


@dataclass(frozen=True, slots=True)
class AttentionWork:
    """Attention of layers alike over the whole depth, on one rank.

    ``flops_per_pair`` per query token and attended token, ``cache_bytes_per_token`` read per
    sequence and attended token, both over all ``layers``. ``window_tokens`` bounds the attended
    tokens; ``chunked`` windows restart instead of sliding. Where attention is not ``causal``,
    tokens attend to those after them, too. With ``encoded`` they attend to ``encoded_tokens``
    features of an encoder instead of to each other. ``scores_per_pair`` are the heads of all
    layers, each of which gives such a pair a score. Of the tokens that may be attended only
    ``density_ratio`` is [-]. Each head of keys and values serves ``heads_per_kv_head`` queries.
    Where caches are ``rearranged``, each step also copies them in the order of its best beams. Of
    the tokens that sequences attend to in decoding ``read_ratio`` are read from memory [-]; beams
    share the others. Where latents are kept, of which prompts may have keys and values of each head
    made first, a pair takes ``expanded_flops_per_pair`` by these; zero where there are none. What
    is multiplied are ``operands`` of a format. Scores become shares by exponentials unless they are
    only ``compared``.
    """

    layers: float
    flops_per_pair: float
    cache_bytes_per_token: float
    window_tokens: int | None
    chunked: bool
    causal: bool = True
    encoded: bool = False
    encoded_tokens: Number = 0.0
    density_ratio: Number = 1.0
    scores_per_pair: float = 0.0
    heads_per_kv_head: float = 1.0
    rearranged: bool = False
    read_ratio: Number = ALL_READ
    expanded_flops_per_pair: float = 0.0
    operands: str = "bf16"
    compared: bool = False

    def of_prompts(self, expands: bool) -> float:
        """What a pair takes of a prompt, by whether latents are expanded there [FLOP]."""
        expanded = expands and self.expanded_flops_per_pair > 0.0
        return self.expanded_flops_per_pair if expanded else self.flops_per_pair

    @property
    def head_features(self) -> float:
        """Features of a head, the mean of those of keys and values; 0 where scores are none [-]."""
        scores = self.scores_per_pair
        return self.flops_per_pair / (4.0 * scores) if scores else 0.0

    def moved_bytes_per_token(self, regrown: bool, repeated: bool, reread_exponent: float) -> float:
        """What a sequence's step moves for each token that it attends to [B].

        Parameters
        ----------
        regrown
            Whether the step copies the cache into a longer one.
        repeated
            Whether keys and values are copied for every head of queries before kernels read them.
        reread_exponent
            Power of the heads in a group by which reads grow: 1 where kernels read once for each
            head of queries.
        """
        read = 1.0
        if repeated and self.heads_per_kv_head > 1.0:
            read += 2.0 * self.heads_per_kv_head
        elif reread_exponent:
            read = self.heads_per_kv_head**reread_exponent
        return self.cache_bytes_per_token * (read + 2.0 * regrown + 2.0 * self.rearranged)


def cache_bytes_per_element(kv_format: NumberFormat) -> float:
    """Bytes the attention kernel reads per cached element, scales included."""
    return kv_format.bytes_per_element


def attention_work(
    mixer: Attention | LatentAttention,
    layers: int,
    kv_format: NumberFormat,
    parallelism: Parallelism,
) -> AttentionWork:
    """Attention of so many layers alike; latents are attended to as they are kept."""
    heads = ceil(mixer.query_heads / parallelism.tensor)
    per_element = cache_bytes_per_element(kv_format)
    if isinstance(mixer, LatentAttention):
        latent = mixer.kv_lora_rank
        key = latent + mixer.qk_rope_head_dim
        value = latent if mixer.expands else key
        entries = layers / mixer.tokens_per_entry
        return AttentionWork(
            layers=layers,
            flops_per_pair=entries * 2.0 * heads * (key + value),
            cache_bytes_per_token=entries * key * per_element,
            window_tokens=mixer.attended_tokens,
            chunked=False,
            scores_per_pair=entries * heads,
            # What is chosen token by token is attended to as it is kept.
            expanded_flops_per_pair=0.0
            if not mixer.expands or mixer.attended_tokens is not None
            else layers * 2.0 * heads * (mixer.expanded_key_dim + mixer.v_head_dim),
        )
    local_kv_heads = ceil(mixer.kv_heads / parallelism.tensor)
    return AttentionWork(
        layers=layers,
        flops_per_pair=layers * 2.0 * heads * (mixer.head_dim + mixer.value_head_dim),
        cache_bytes_per_token=layers
        * local_kv_heads
        * (mixer.head_dim + mixer.value_head_dim)
        * per_element,
        window_tokens=mixer.window_tokens or mixer.chosen_tokens,
        chunked=mixer.span is Span.CHUNKED,
        scores_per_pair=layers * heads,
        heads_per_kv_head=heads / local_kv_heads,
    )


def indexing_work(mixer: LatentAttention, layers: int) -> AttentionWork:
    """Comparing queries with the index keys of all earlier entries, to choose some of them.

    Every rank does all of it, in 8 bits.

    References
    ----------
    DeepSeek-AI, DeepSeek-V3.2, 2025, section 2.1, https://arxiv.org/abs/2512.02556
    """
    entries = layers / mixer.tokens_per_entry
    width = mixer.indexer_head_dim or 0
    return AttentionWork(
        layers=layers,
        flops_per_pair=entries * 2.0 * mixer.indexer_heads * width,
        cache_bytes_per_token=entries * width,
        window_tokens=None,
        chunked=False,
        scores_per_pair=entries * mixer.indexer_heads,
        operands="fp8",
        compared=True,
    )


def mean_in_window(mean_tokens: Number, own_tokens: Number, window_tokens: float) -> Number:
    """Tokens that those of a prompt attend to on average in a window that slides with them [-].

    The first ones do not fill the window yet.

    Parameters
    ----------
    mean_tokens
        What they would attend to on average without one [-].
    own_tokens
        Tokens of the prompt, or of the part of it that is computed: each attends to one more than
        that before it [-].
    window_tokens
        How many the window holds [-].
    """
    grown = maximum(minimum(own_tokens, 2.0 * mean_tokens), 1.0)
    last, first = mean_tokens + grown / 2.0, mean_tokens - grown / 2.0
    beyond = maximum(last - window_tokens, 0.0) ** 2 - maximum(first - window_tokens, 0.0) ** 2
    return mean_tokens - beyond / (2.0 * grown)


def attended(
    layer: AttentionWork,
    load: StepLoad,
    context_ranks: int,
    skips_masked: bool = True,
    bucket_ratio: float = 1.0,
) -> tuple[Number, Number, Number]:
    """Pairs of tokens in attention of a step, those of decoding, and tokens that are read.

    Decoding attends to ``bucket_ratio`` times as many tokens as there are. Kernels that do not
    ``skips_masked`` compute what a mask takes away: all that a part of a prompt and its windows
    hold.
    """
    decode_span = scaled(load.decode_context_tokens, bucket_ratio)
    prefill_span = load.prefill_context_tokens
    own_tokens: Number = 0.0
    if not (layer.causal and skips_masked):
        # As many tokens after it as before it.
        own_tokens = load.prefill_tokens / maximum(load.prefill_sequences, 1.0)
        prefill_span = prefill_span + 0.5 * own_tokens
    if layer.encoded:
        decode_span = prefill_span = layer.encoded_tokens
    if layer.window_tokens is not None:
        window = float(layer.window_tokens)
        # A chunked window is half full on average; a sliding one is full once it is reached.
        decode_span = minimum(decode_span, window / 2.0 if layer.chunked else window)
        if not skips_masked:
            prefill_span = minimum(prefill_span, window + own_tokens)
        elif layer.chunked:
            prefill_span = minimum(prefill_span, window / 2.0)
        else:
            own_tokens = load.prefill_tokens / maximum(load.prefill_sequences, 1.0)
            prefill_span = mean_in_window(prefill_span, own_tokens, window)
    decode_span = scaled(decode_span, layer.density_ratio)
    prefill_span = scaled(prefill_span, layer.density_ratio)
    pairs = decoded = load.decode_sequences * decode_span
    read = scaled(decoded, layer.read_ratio)
    if not is_nothing(load.prefill_tokens):
        pairs = pairs + load.prefill_tokens * prefill_span
        # A prompt's own keys and values are read once per block of queries, from cache for the most
        # part: about twice the context a prompt ends with.
        read = read + load.prefill_sequences * 2.0 * prefill_span + load.prefill_tokens
    if context_ranks == 1:
        return pairs, decoded, read
    return pairs / context_ranks, decoded / context_ranks, read / context_ranks
