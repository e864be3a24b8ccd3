"""What training frameworks can train with, and what they do where nobody says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from service.core.format_lists import ANY_FORMAT, WIDTHS, FormatList

#: Settings of training that frameworks differ in where nobody says, beside the format of gradients.
UNTOLD = (
    *("activation_checkpointing", "fused_kernels", "cross_entropy"),
    *("lora_targets", "adapter_dropout", "dropout", "master_weights", "optimizer_state_dtype"),
    *("expandable_segments", "adapter_dtype", "gradient_sum_dtype", "sequence_parallel"),
)
#: What people make otherwise beside these.
ALSO_OPEN = ("attention", "gradient_dtype", "framework_generation")
#: The same of settings that depend on how a model is divided; of messages to experts, those beyond
#: fast links beside a pipeline that recomputes no whole layers.
UNTOLD_OF_LAYOUTS = (
    *("zero_stage", "data_parallel_shard_degree", "pipeline_schedule"),
    "expert_overlap_ratio",
)
#: The same of number formats: what weights are held in where all of them are trained.
UNTOLD_OF_PRECISION = ("weights",)
#: The same of where inputs of layers that are recomputed whole are kept, and of how attention is
#: computed whose scores are capped.
UNTOLD_OF_PLACES = ("recomputed_inputs", "capped_attention")

#: The same of micro-batches: sequences, or tokens that decide how many sequences there are, in all
#: or for each GB of an accelerator's memory.
UNTOLD_OF_BATCHES = ("micro_batch_size", "micro_batch_tokens", "micro_batch_tokens_per_gb")

#: The recipe that takes matrix units made for it.
BLOCKS_OF_32 = "mxfp8"

#: Ways to recompute less than all there is: ``layers`` are some layers of each stage, whole.
Recomputation: TypeAlias = Literal["selective-modules", "selective-operators", "layers"]
#: What frameworks do with experts that have a capacity: fill them up to it, or drop what is beyond.
ExpertCapacity: TypeAlias = Literal["padded", "dropped"]
#: Operators of adapters of low rank: for each matrix its own, for matrices that read the same input
#: and are one to the framework together ("joint"), or products that add to results where they are.
AdapterKernels: TypeAlias = Literal["each", "joint", "within-products"]
#: How many micro-batches make a round of an interleaved schedule.
InterleavedRounds: TypeAlias = Literal["whole", "equal"]


@dataclass(frozen=True, slots=True)
class Usual:
    """``settings`` of training, by name, that are usual with a framework under conditions.

    That is where people train by one of ``methods`` with one of ``zero_stages`` (any if empty),
    with releases in use ``since`` a day in ISO 8601 (None: all), and, of ``encoders``, models that
    embed rather than generate, of ``routed``, those that route tokens to experts.
    """

    settings: Mapping[str, Any]
    methods: frozenset[str] = frozenset()
    zero_stages: frozenset[int] = frozenset()
    since: str | None = None
    encoders: bool = False
    routed: bool = False

    def goes_with(self, superseded: str | None) -> bool:
        """Whether it holds for a release that others followed on a day; None: the newest."""
        return superseded is None or self.since is None or superseded > self.since


@dataclass(frozen=True, slots=True)
class Recipes:
    """What a framework can train with, and what people set with it where a request says nothing.

    An empty set of what it can do means that it can do anything of the kind.
    """

    #: Methods that it trains by.
    methods: frozenset[str] = frozenset()
    #: Kinds of parallelism that it divides a model by besides data.
    degrees: frozenset[str] = frozenset()
    #: The highest ZeRO stage that it divides states by beside a pipeline.
    most_zero_stage_in_pipeline: int | None = None
    #: ZeRO stages that it has switches for.
    zero_stages: tuple[int, ...] = ()
    #: How it scales operands of 8 bits; the first that hardware can do is usual.
    fp8_recipes: tuple[str, ...] = ()
    adapters: frozenset[str] = frozenset()
    optimizers: frozenset[str] = frozenset()
    #: Formats of frozen weights with fewer bits.
    bases: FormatList = ANY_FORMAT
    #: Formats of 8 or fewer bits that it multiplies in; None: any.
    products: frozenset[str] | None = None
    #: Where it keeps what the accelerator does not; None: anywhere.
    offload_places: frozenset[str] | None = None
    #: Whether it recomputes the last product of a block, whose result no gradient needs.
    recomputes_last_product: bool = True
    #: Whether it trains attention in 8 bits.
    fp8_attention: bool = False
    #: Whether layers of multi-token prediction are trained unless told otherwise; None: if asked.
    predicts: bool | None = None
    #: Format of gradients unless told otherwise. Their sums have a format of their own with weights
    #: in bf16 only: those in fp16 are scaled and summed as they are.
    gradient_dtype: str = "bf16"
    #: Kinds of parallelism by which people train adapters, which searches try; else ``degrees``.
    adapter_degrees: frozenset[str] = frozenset()
    #: Another framework, built on it, by which models are divided by tensors or layers.
    divided_by: str | None = None
    #: Settings that it, or who uses it, sets otherwise than most do, by name: of ``UNTOLD``,
    #: ``UNTOLD_OF_LAYOUTS``, ``UNTOLD_OF_PRECISION``, ``UNTOLD_OF_PLACES`` and
    #: ``UNTOLD_OF_BATCHES``.
    unless_told: Mapping[str, Any] = field(default_factory=dict)
    #: Those of ``UNTOLD``, ``UNTOLD_OF_LAYOUTS`` and ``UNTOLD_OF_BATCHES`` that hold under
    #: conditions.
    unless_told_where: tuple[Usual, ...] = ()
    #: What people also commonly set, of ``UNTOLD`` and ``ALSO_OPEN``; those that name the same
    #: settings exclude each other.
    also_usual: tuple[Usual, ...] = ()
    #: Formats of 8 or fewer bits in which people commonly run products, too; the first that
    #: hardware multiplies counts.
    also_products: tuple[str, ...] = ()
    #: Whether its interleaved schedule takes rounds of as many micro-batches as there are stages
    #: ("whole"), or any equal ones; None: any.
    interleaved_rounds: InterleavedRounds | None = None
    #: How people have it recompute in part where a run does not fit, from the least, before they
    #: have it recompute whole layers.
    recomputes_in_part: tuple[Recomputation, ...] = ()
    #: The usual one of ``bases``; None: that of bitsandbytes.
    usual_base: str | None = None
    #: Whether groups of ranks may divide states; otherwise all ranks do.
    shard_groups: bool = True
    #: Whether people divide what does not fit by tensors and layers, as with all of Megatron's
    #: class.
    divides_models: bool = False
    #: Whether it sets ZeRO to overlap; otherwise its messages hide behind nothing.
    overlaps_zero: bool = True
    #: Whose operators adapters have.
    adapter_kernels: AdapterKernels = "each"
    #: What it does with experts that have a capacity; None: it sets no limit.
    expert_capacity: ExpertCapacity | None = None
    #: Whether groups of ranks may hold second copies of divided weights.
    secondary_shards: bool = False
    #: Formats of fewer bits in which weights travel.
    gathers_in: frozenset[str] = frozenset()
    #: Formats of fewer bits in which gradients travel.
    scatters_in: frozenset[str] = frozenset()

    def untold(
        self,
        method: str,
        zero_stage: int,
        superseded: str | None = None,
        *,
        routes: bool = False,
    ) -> Mapping[str, Any]:
        """What it sets where nobody says, training by a method with a ZeRO stage.

        ``superseded`` is the day on which its release was followed by another; None: the newest.
        ``routes`` says whether the model routes tokens to experts.
        """
        found = dict(self.unless_told)
        for one in self.unless_told_where:
            fits = (not one.methods or method in one.methods) and (routes or not one.routed)
            if fits and (not one.zero_stages or zero_stage in one.zero_stages):
                found |= one.settings if one.goes_with(superseded) else {}
        return found

    def usual_fp8_recipe(self, *, scales_blocks: bool) -> str | None:
        """How it scales operands of 8 bits where nobody says; None if that is not known.

        Blocks of 32 only on hardware whose matrix units ``scales_blocks`` by themselves.
        """
        known = (one for one in self.fp8_recipes if scales_blocks or one != BLOCKS_OF_32)
        return next(known, None)

    def scales(self, fp8_recipe: str) -> bool:
        """Whether it scales operands of 8 bits in a way."""
        return not self.fp8_recipes or fp8_recipe in self.fp8_recipes

    def trains(self, method: str) -> bool:
        """Whether it trains by a method."""
        return not self.methods or method in self.methods

    def divides(self, degree: str) -> bool:
        """Whether it divides a model by a kind of parallelism."""
        return not self.degrees or degree in self.degrees

    def tried_degrees(self, method: str) -> frozenset[str]:
        """Kinds of parallelism that searches try with a method; all where none are listed."""
        return self.degrees if method == "full" else self.adapter_degrees or self.degrees

    def adapts(self, adapter: str) -> bool:
        """Whether it has a kind of adapter."""
        return not self.adapters or adapter in self.adapters

    def updates(self, optimizer: str) -> bool:
        """Whether it has an optimizer."""
        return not self.optimizers or optimizer in self.optimizers

    def freezes(self, format_id: str) -> bool:
        """Whether frozen weights may have a format of few bits; a width alone may be any."""
        return format_id in WIDTHS or self.bases.has(format_id)

    def multiplies(self, format_id: str) -> bool:
        """Whether it has products in a format of 8 or fewer bits."""
        return self.products is None or format_id in self.products

    def offloads(self, place: str, *, is_storage: bool = False) -> bool:
        """Whether it keeps things in a place; a memory tier is host memory to it, or a drive."""
        if self.offload_places is None or place == "none":
            return True
        if place == "tier":
            place = "nvme" if is_storage else "cpu"
        return place in self.offload_places
