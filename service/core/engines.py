"""Inference engines and training frameworks: their classes, their generations, their releases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Literal, TypeAlias

from service.core.backends import BackendOption
from service.core.engine_defaults import DefaultsRule
from service.core.errors import InvalidInput
from service.core.format_lists import ANY_FORMAT, WIDTHS, FormatList
from service.core.hardware import NO_HARDWARE, Hardware, HardwareList
from service.core.recipes import Recipes
from service.core.versions import DATE, KnownRelease, is_day, is_newer, last_day, version_of

#: What an engine runs.
EngineWorkload: TypeAlias = Literal["inference", "training"]
#: What becomes of what lies outside the accelerator: processors of the host compute it in small
#: steps, each layer is copied when it is due, or all weights lie there and are fetched ahead.
Offloaded: TypeAlias = Literal["host", "in-turn", "whole"]
#: Whether beams hold the cache of their prompt once, or each for itself.
BeamCaches: TypeAlias = Literal["shared", "copied"]

#: Id under which figures stand that hold for engines without any of their own.
FALLBACK_ENGINE = "default"
#: Id of the engine that serves where nothing says what is usual on the hardware.
USUAL_ENGINE = "vllm"
#: Id of the engine whose files these are, which serves what comes in them wherever it runs.
USUAL_ENGINE_OF_GGUF = "llama.cpp"
#: Id of the engine that does whatever models can, if slowly.
REFERENCE_ENGINE = "transformers"
#: Stands between an engine's id and that of a generation in the key of a release.
_OF_RELEASE = "@"
#: What is written for the newest generation, as null is.
_NEWEST = frozenset({"", "newest", "latest", "main", "master", "nightly"})


@dataclass(frozen=True, slots=True)
class EngineClass:
    """What engines of one kind have in common when they run a step.

    ``reference`` is the engine whose figures stand in for those of members without any.
    ``launch_bound`` engines issue kernels one by one; those with ``half_accumulation`` add up
    products of 16-bit floats in 16 bit; what ``replays_graphs`` has the host issue a step at once,
    so that what a layer takes is the accelerator's time and not the host's. With
    ``whole_expert_tiles`` tiles are chosen by the tokens of a step, and rows of an expert do not
    fill them. What is ``native`` is compiled code that chooses tokens on the host.
    """

    id: str
    workload: EngineWorkload
    meaning: str
    reference: str
    launch_bound: bool = False
    half_accumulation: bool = False
    replays_graphs: bool = False
    whole_expert_tiles: bool = False
    native: bool = False


#: The closed set of classes, by id.
CLASSES: Mapping[str, EngineClass] = MappingProxyType(
    {
        one.id: one
        for one in (
            EngineClass(
                "compiled",
                "inference",
                "runs steps as captured graphs, with caches in pages and many sequences in a step, "
                "which come and go",
                "vllm",
                replays_graphs=True,
            ),
            EngineClass(
                "fixed-shapes",
                "inference",
                "runs programs compiled ahead of time for fixed numbers of sequences and tokens, "
                "whose caches are as long as the longest sequence may get",
                "optimum-habana",
                replays_graphs=True,
            ),
            EngineClass(
                "eager",
                "inference",
                "a framework for training research issues operation after operation from Python",
                "transformers",
                launch_bound=True,
            ),
            EngineClass(
                "llama.cpp-like",
                "inference",
                "native code with own kernels for quantised weights, made for one or a few "
                "sequences at a time",
                "llama.cpp",
                half_accumulation=True,
                whole_expert_tiles=True,
                native=True,
            ),
            EngineClass(
                "megatron-like",
                "training",
                "tensor, pipeline and expert parallelism by hand-written layers and fused kernels, "
                "made for clusters",
                "megatron-lm",
            ),
            EngineClass(
                "fsdp-like",
                "training",
                "a plain loop in PyTorch or JAX whose states are sharded over data-parallel ranks, "
                "often compiled",
                "torchtitan",
            ),
            EngineClass(
                "ahead-of-time",
                "training",
                "the whole step as one program, compiled ahead of time or written in native code, "
                "whose kernels are fused and wait for no interpreter",
                "maxtext",
            ),
            EngineClass(
                "trainer-like",
                "training",
                "a general trainer around eager models, whose operations are issued one after "
                "another from Python",
                "transformers",
            ),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Lack:
    """What an engine cannot run: weights in ``formats`` on ``hardware``, or types of ``models``."""

    formats: FormatList = ANY_FORMAT
    hardware: HardwareList = NO_HARDWARE
    models: frozenset[str] = frozenset()
    #: An engine that can.
    instead: str | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """The releases of an engine between two changes that its speed or memory show.

    ``since`` is the day, month or year of the first of them in ISO 8601, ``version`` what that one
    is called (None: the versions before the next generation's). ``aliases`` are other names of the
    generation beside the engine's, ``names`` those that say engine and generation at once.
    ``preempting`` is None where it is as the engine's other generations are, ``launch_bound`` where
    it is as the engine's class is, and ``defaults`` say what it starts with otherwise than they.
    It has kernels for ``formats``, or those of the engine. In training it ``fuses_attention``
    unless told otherwise. Where only what it starts with, or what counts against its share of
    memory, is otherwise than before, what was fitted to the generation named ``constants_of`` holds
    for it.
    """

    id: str
    since: str
    differs: str
    version: str | None = None
    aliases: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    preempting: bool | None = None
    launch_bound: bool | None = None
    defaults: tuple[DefaultsRule, ...] = ()
    formats: FormatList = ANY_FORMAT
    fuses_attention: bool = True
    constants_of: str | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """An inference engine, a training framework, or both.

    ``classes`` gives the class by what it runs, ``generations`` stand from the oldest to the
    newest. Where it has no figures of its own, those of the engine that it is ``like`` stand in,
    then those of its class. It runs on ``hardware`` (any if empty) and is what most people serve
    with on what is ``usual`` for it, and train with on what is ``usual_to_train``. It has kernels
    for weights in ``formats`` except what it ``lacks``, holds its cache in ``caches``, in
    ``usual_caches`` for some formats of weights where nobody says, and trains by ``recipes``.
    Checkpoints in some formats are taken in ``usual_weights`` where nobody says, and weights of
    which a width alone is said.
    Those that ``divides_layers`` give each accelerator some layers where nobody says otherwise;
    others divide each layer. Processors of the host compute ``experts_on_host``, or in small
    steps all that is ``offloaded`` to it where there is no room, or layers are copied in turn, or
    all weights lie outside; ``spills_from`` is the generation from which on it does so untold, and
    ``spills_layers`` whether with whole layers rather than experts first. Copies of those that
    ``shares_experts`` may hold each expert once among them. Those that are ``preallocating`` take
    their share of the memory when they start, whatever they come to need of it; those that
    ``pads_heads`` hold as many attention heads as tensor parallelism divides. Those that are
    ``preempting`` take pages as answers grow, and pause a request where pages run out; others set
    room aside for a whole answer when they begin with it. Those with ``beam_caches`` decode by
    beam search; beams share the cache of their prompt, or each has a copy. It starts with
    ``defaults``. Those with ``backends`` drive hardware by one of several interfaces, as they were
    built. ``newest`` is the newest release of which anything is known. ``ended`` is the month of
    its last release in ISO 8601, where none will follow. ``unestimated`` says what no formula here
    knows of it.
    """

    id: str
    name: str
    classes: Mapping[EngineWorkload, str]
    generations: tuple[Generation, ...] = ()
    like: str | None = None
    hardware: HardwareList = NO_HARDWARE
    usual: HardwareList = NO_HARDWARE
    usual_to_train: HardwareList = NO_HARDWARE
    formats: FormatList = ANY_FORMAT
    lacks: tuple[Lack, ...] = ()
    caches: FormatList = ANY_FORMAT
    usual_caches: Mapping[str, str] = field(default_factory=dict)
    usual_weights: Mapping[str, str] = field(default_factory=dict)
    recipes: Recipes = field(default_factory=Recipes)
    divides_layers: bool = False
    experts_on_host: bool = False
    offloaded: Offloaded | None = None
    spills_from: str | None = None
    spills_layers: bool = False
    shares_experts: bool = False
    preallocating: bool = False
    pads_heads: bool = False
    preempting: bool = False
    beam_caches: BeamCaches | None = None
    defaults: tuple[DefaultsRule, ...] = ()
    backends: tuple[BackendOption, ...] = ()
    newest: KnownRelease | None = None
    ended: str | None = None
    unestimated: str | None = None

    def preempts(self, generation: str | None) -> bool:
        """Whether a generation, or the engine without any, takes pages as answers grow."""
        for one in self.generations:
            if one.id == generation and one.preempting is not None:
                return one.preempting
        return self.preempting

    def launches(self, generation: str | None) -> tuple[bool, bool]:
        """Whether steps of inference issue kernels one by one, and whether they replay graphs."""
        kind = CLASSES[self.classes["inference"]]
        for one in self.generations:
            if one.id == generation and one.launch_bound is not None:
                return one.launch_bound, kind.replays_graphs and not one.launch_bound
        return kind.launch_bound, kind.replays_graphs

    def fuses_attention(self, generation: str | None, *, capped: bool) -> bool:
        """Whether a generation fuses attention in training unless told otherwise.

        With ``capped`` scores, for which not all frameworks have kernels.
        """
        if capped and self.recipes.unless_told.get("capped_attention") == "eager":
            return False
        own = (one.fuses_attention for one in self.generations if one.id == generation)
        return next(own, True)

    def defaults_of(self, generation: str | None) -> tuple[DefaultsRule, ...]:
        """What a generation starts with, as far as it is otherwise than the engine says."""
        return next((one.defaults for one in self.generations if one.id == generation), ())

    def constants_key(self, generation: str | None) -> str:
        """Key of the release whose fitted constants hold for a generation."""
        own = (one.constants_of for one in self.generations if one.id == generation)
        return release_key(self.id, next(own, None) or generation)

    def spills(self, generation: str | None) -> bool:
        """Whether a generation, or the newest, leaves to the host untold what has no room."""
        ids = [one.id for one in self.generations]
        if self.spills_from not in ids or generation not in ids:
            return self.spills_from is not None
        return ids.index(generation) >= ids.index(self.spills_from)

    def named(self, reference: str) -> Generation | None:
        """The generation that a name of the engine says, too; None if it says none."""
        return next((one for one in self.generations if _folded(reference) in _names(one)), None)

    def superseded(self, generation: str | None) -> str | None:
        """When the generation after one began, or the last release came; None where more follow."""
        for one, after in pairwise(self.generations):
            if one.id == generation:
                return after.since
        return self.ended

    @property
    def workloads(self) -> frozenset[EngineWorkload]:
        """What it runs."""
        return frozenset(self.classes)

    def runs_on(self, hardware: Hardware) -> bool:
        """Whether it runs on an accelerator; where nothing says otherwise it does."""
        return not self.hardware.names or self.hardware.has(hardware) or hardware.unknown

    def reads(self, format_id: str, generation: str | None = None) -> bool:
        """Whether it has kernels for weights in a format, or some of a width that is asked for."""
        return format_id in WIDTHS or self.formats_of(generation).has(format_id)

    def formats_of(self, generation: str | None) -> FormatList:
        """What a generation has kernels for, or the engine without any."""
        own = (one.formats for one in self.generations if one.id == generation)
        return next((one for one in own if one.names), self.formats)

    def newest_reading(self, format_ids: Sequence[str]) -> str | None:
        """The newest generation that reads some formats; the newest if none does, or None."""
        newest_first = [one.id for one in reversed(self.generations)]
        reading = (one for one in newest_first if all(self.reads(id_, one) for id_ in format_ids))
        return next(reading, next(iter(newest_first), None))

    def lacks_format(self, format_id: str, hardware: Hardware) -> bool:
        """Whether what it reads elsewhere has no kernels on an accelerator."""
        return any(
            one.formats.states(format_id) and one.hardware.has(hardware) for one in self.lacks
        )

    def lack_of(self, model_type: str) -> Lack | None:
        """What says that it serves no models of a type, if anything does."""
        return next((one for one in self.lacks if model_type in one.models), None)


@dataclass(frozen=True, slots=True)
class EngineRelease:
    """An engine at one of its generations; ``generation`` is None where it has none.

    ``before_first`` is whether a version older than all that are known was asked for, ``unknown``
    the version as it was asked for where it is newer than all of them.
    """

    engine: str
    generation: str | None = None
    before_first: bool = False
    unknown: str | None = None

    @property
    def key(self) -> str:
        """What figures of this release are found by: ``engine@generation``, or the engine's id."""
        return release_key(self.engine, self.generation)


class UnknownVersion(InvalidInput):
    """A text that is neither a version, nor a date, nor a name of a generation of an engine."""


def release_key(engine: str, generation: str | None) -> str:
    """What figures of a release are found by: ``engine@generation``, or the engine's id."""
    return engine if generation is None else f"{engine}{_OF_RELEASE}{generation}"


def engine_of_release(key: str) -> str:
    """The engine's id in the key of a release."""
    return key.partition(_OF_RELEASE)[0]


def generation_of_release(key: str) -> str | None:
    """The generation's id in the key of a release, if it says any."""
    return key.partition(_OF_RELEASE)[2] or None


def release_of(
    engine: Engine, version: str | None, named: str = "", weights_formats: Sequence[str] = ()
) -> EngineRelease:
    """The release of an engine that a text means.

    Parameters
    ----------
    engine
        The engine.
    version
        A version ("0.5.3", "v0.11.0", "b4000", "25.11"), a date ("2024-08"), the id or another
        name of a generation, or None for the newest.
    named
        What the engine was called, as some names say the generation, too.
    weights_formats
        Ids of formats that the newest has to read.

    Raises
    ------
    UnknownVersion
        If the text means no release, or another generation than the engine's name.
    """
    by_name = engine.named(named)
    text = (version or "").strip()
    if _folded(text) in _NEWEST:
        newest = engine.newest_reading(weights_formats)
        return EngineRelease(engine.id, newest if by_name is None else by_name.id)
    if by_name is not None and not _has_versions(engine) and version_of(text) is not None:
        return EngineRelease(engine.id, by_name.id)
    found = _generation_of(engine, text)
    if by_name is not None and found.generation != by_name.id:
        raise UnknownVersion(f"{named!r:.60} is {by_name.id}, not {found.generation}")
    return found


def class_of_unknown(name: str, weights_format: str | None, workload: EngineWorkload) -> str:
    """Id of the class of an engine that the catalog does not have, by its name and what it runs.

    Parameters
    ----------
    name
        What the engine is called.
    weights_format
        Id of the number format of the weights, or None.
    workload
        What it runs.
    """
    called = _folded(name)
    if workload == "training":
        if _HAS_MEGATRON.search(called):
            return "megatron-like"
        if _HAS_PROGRAM.search(called):
            return "ahead-of-time"
        return "trainer-like" if _HAS_TRAINER.search(called) else "fsdp-like"
    if _HAS_LLAMA_CPP.search(called) or (weights_format or "").startswith("gguf"):
        return "llama.cpp-like"
    return "eager" if _HAS_EAGER.search(called) else "compiled"


_HAS_MEGATRON = re.compile(r"megatron|nemo|mindspeed|colossal")
_HAS_PROGRAM = re.compile(
    r"maxtext|levanter|jax|xla|paxml|praxis|t5x|tunix|easydel|llm\.(c|q)\b|llm(c|q)$"
)
_HAS_TRAINER = re.compile(r"trainer|transformers|peft|trl|lora|tuning|tune|accelerate|deepspeed")
_HAS_LLAMA_CPP = re.compile(r"llama|gg(ml|uf)|exl|bitnet|whisper\.cpp|rwkv|mlx|metal|kobold")
_HAS_EAGER = re.compile(r"transformers|huggingface|^hf|eager|accelerate|bitsandbytes|pipeline")


def _generation_of(engine: Engine, text: str) -> EngineRelease:
    """The last generation that begins at or before a version or date, or is called so."""
    generations = engine.generations
    for one in generations:
        if _folded(text) in {_folded(one.id), *map(_folded, one.aliases), *_names(one)}:
            return EngineRelease(engine.id, one.id)
    date = DATE.match(text)
    version = None if date is not None else version_of(text)
    if date is None and version is None:
        raise UnknownVersion(_what_is_known(engine, text))
    if date is not None and not is_day(date):
        raise UnknownVersion(f"{text!r:.60} is no date: write it as 2024, 2024-08 or 2024-08-31")
    unknown = text if is_newer(version, engine.newest) else None
    if not generations:
        return EngineRelease(engine.id, unknown=unknown)
    if date is not None:
        known = [(one, one.since <= last_day(date)) for one in generations]
    else:
        known = [(one, _begins_by(one, version)) for one in generations]
        if not _has_versions(engine):
            raise UnknownVersion(_what_is_known(engine, text))
    begun = [one for one, begins in known if begins]
    chosen = begun[-1] if begun else generations[0]
    return EngineRelease(engine.id, chosen.id, before_first=not begun, unknown=unknown)


def _has_versions(engine: Engine) -> bool:
    """Whether versions tell its generations apart, and not dates or names alone."""
    return any(one.version is not None for one in engine.generations)


def _begins_by(generation: Generation, version: tuple[int, ...] | None) -> bool:
    """Whether a generation begins at a version or before; without a version of its own it does."""
    begins = None if generation.version is None else version_of(generation.version)
    return begins is None or (version is not None and begins <= version)


def _what_is_known(engine: Engine, text: str) -> str:
    if not engine.generations:
        return f"{text!r:.60} is neither a version of {engine.id} nor a date"
    known = ", ".join(
        f"{one.id} ({'' if one.version is None else f'from {one.version}, '}{one.since})"
        for one in engine.generations
    )
    return f"{text!r:.60} is not a release of {engine.id}; name a date or one of {known}"


def _names(generation: Generation) -> frozenset[str]:
    return frozenset(map(_folded, generation.names))


def _folded(name: str) -> str:
    return re.sub(r"[-_ ]", "", name.casefold())
