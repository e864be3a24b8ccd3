"""Which of the catalog's measured constants hold for an engine on an accelerator.

A constant stands at the level that causes it. The entry that holds for all is named after a part,
such as ``speed/hardware``; those of narrower levels add their key, such as
``speed/hardware/nvidia-hopper``, and say only what is otherwise there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import hypot, sqrt

from service.catalog.derived import derived
from service.catalog.entries.engines import kin_of
from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.backends import interface_of, is_of_maker, shares_source
from service.core.deployment import Accelerator, memory_kind
from service.core.engines import (
    Engine,
    EngineWorkload,
    engine_of_release,
    generation_of_release,
    release_key,
)
from service.core.figures import Figures, from_figures
from service.core.interval import Interval, exact
from service.core.performance.spread import (
    MECHANISMS,
    OF_KERNELS,
    UNDRIVEN_SPREAD_RATIO,
    WIDENINGS,
    Widening,
)

#: Kinds of levels by part, from the widest to the narrowest. ``kernels`` are those that a class of
#: engines has for a hardware family, ``host`` a kind of machine with a vendor's driver. An
#: ``interface`` is one other than that of the hardware's maker, ``backend`` a variant of one, and
#: ``built`` either on a hardware family.
SPEED: Mapping[str, tuple[str, ...]] = {
    "speed/hardware": ("vendor", "family"),
    "speed/kernels": ("class", "kernels"),
    "speed/attention": ("class", "kernels"),
    "speed/engines": ("class", "engine", "generation"),
    "speed/hosts": ("vendor", "host"),
    "speed/backends": ("interface", "backend", "built"),
    "speed/links": ("link",),
}
#: Power goes by the kind of memory, which tells accelerators of servers from graphics cards and
#: from systems on a chip, and by a hardware family with such memory.
POWER: Mapping[str, tuple[str, ...]] = {"power": ("memory", "hardware")}
#: Memory beside what follows from shapes: what drivers hold, and what engines do.
MEMORY: Mapping[str, tuple[str, ...]] = {
    "memory/driver": (),
    "memory/engines": ("class", "engine", "generation"),
}
MEMORY_SPREAD = "memory/spread"
#: The same of training, where the driver's is that of inference.
TRAINING_MEMORY: Mapping[str, tuple[str, ...]] = {
    "training-memory/frameworks": ("class", "engine", "generation"),
}
TRAINING_MEMORY_SPREAD = "training-memory/spread"
#: Speed of training.
TRAINING: Mapping[str, tuple[str, ...]] = {
    "training-speed/hardware": ("vendor", "family"),
    "training-speed/attention": ("family", "kernels"),
    "training-speed/kernels": ("class", "engine", "generation"),
    "training-speed/frameworks": ("class", "engine", "generation"),
    "training-speed/links": ("link",),
}
TRAINING_SPREAD = "training-speed/spread"
#: By what times are less well known than kernels, all three of the following alike.
SPEED_WIDENING = "speed/spread"
#: Kinds of levels of spreads; revisions of earlier releases have some by engine class.
SPREADS: Mapping[str, tuple[str, ...]] = {
    "speed/spread/decode": ("class",),
    "speed/spread/prefill": ("class",),
    "speed/spread/throughput": ("class",),
}
#: Parts that are levels of hardware itself, and pairs of engine and family in earlier revisions.
_OF_HARDWARE = ("speed/hardware/", "training-speed/hardware/", "performance/", "training/")
#: What engines add to steps, by kinds of levels that are an engine's own, and its kernels.
_ENGINES, _OF_ENGINES, _KERNELS = "speed/engines", ("engine", "generation"), "speed/kernels/"
#: Source of constants that nothing was fitted to.
ASSUMPTION = "headroom-assumption"
POWER_SPREAD = "power/spread"
#: The spread of the power of whole machines, by class of machine where enough sources measured it.
MACHINES = "power/machines"
#: Kinds of levels of spreads of power.
POWER_SPREADS: Mapping[str, tuple[str, ...]] = {POWER_SPREAD: (), MACHINES: ("platform",)}
#: The spread that an estimate of a quantity has.
SPREAD_OF: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("tpot_s", "tpot_p50_s", "itl_p50_s", "decode_tokens_per_s"),
            *("request_tokens_per_s", "e2e_s", "e2e_p50_s"),
        ),
        "speed/spread/decode",
    ),
    **dict.fromkeys(("ttft_s", "ttft_p50_s", "prefill_tokens_per_s"), "speed/spread/prefill"),
    **dict.fromkeys(
        ("output_tokens_per_s", "total_tokens_per_s", "requests_per_s"), "speed/spread/throughput"
    ),
    "accelerator_power_w": POWER_SPREAD,
}
#: Parts of a spread that an estimate for a source that nobody has seen has, whatever it is about.
VARIANCES = ("source_log_sigma", "model_log_sigma", "row_log_sigma")
#: What a spread has besides where nobody says which framework trains.
UNSTATED_FRAMEWORK = "unstated_framework_log_sigma"
#: Bandwidth of one direction from which links are those of a domain of their own rather than the
#: slots of a host [B/s]: PCIe 5.0 x16 has 63e9, the third NVLink 150e9.
_OWN_DOMAIN_BYTES_PER_S = 1e11
#: What ids of hardware families begin with whose chips are joined without a switch, in rings that
#: go on in one of a link's two directions, which the cores of a chip share: AWS, Trn1 and Inf2
#: architecture, 2025.
_PLAIN_RINGS = ("aws-",)

#: Those whose chips are joined in tori, which use all of their links at once: Google, TPU system
#: architecture, 2025.
_TORI = ("google-tpu",)

#: Those whose chips are joined by Ethernet, 24 ports each (Intel, Gaudi 3 white paper, 2024).
_ETHERNET = ("intel-gaudi",)

Keys = Mapping[str, str]


@derived()
def measured_families(snapshot: CatalogSnapshot) -> frozenset[str]:
    """Hardware families whose speed was measured: in serving, in training or of products alone."""
    return frozenset(
        id_.rpartition("/")[2]
        for id_, entry in snapshot.calibrations.items()
        if id_.startswith(_OF_HARDWARE)
        and any(origin.source != ASSUMPTION for origin in entry.origins.values())
    )


@dataclass(frozen=True, slots=True)
class Held:
    """Figures that hold for a part, with the entries that they stand in, the widest first.

    ``missing`` are the kinds of levels that nothing was measured at.
    """

    part: str
    figures: Figures
    entries: tuple[str, ...]
    missing: tuple[str, ...]

    def used(self, snapshot: CatalogSnapshot, names: Container[str]) -> Iterator[Entry[Figures]]:
        """Its entries with the figures of some names that narrower ones do not say otherwise."""
        told: set[str] = set()
        found: list[Entry[Figures]] = []
        for id_ in reversed(self.entries):
            entry = snapshot.calibrations[id_]
            origins = {
                name: origin
                for name, origin in entry.origins.items()
                if name in names and name not in told
            }
            told |= origins.keys()
            if origins:
                found.append(replace(entry, origins=origins))
        return reversed(found)

    @property
    def narrowest(self) -> str:
        """What the narrowest level that has an entry is about."""
        return self.entries[-1].removeprefix(self.part).removeprefix("/") or "all that was measured"


def hardware_keys(family: str) -> dict[str, str]:
    """Keys of a hardware family and of those who make it, by which its id begins."""
    return {"vendor": family.partition("-")[0], "family": family}


def power_keys(family: str, memory_technology: str) -> dict[str, str]:
    """Keys of power: the kind of memory, such as ``gddr`` of GDDR6X, and a family with it."""
    kind = memory_kind(memory_technology)
    return {"memory": kind, "hardware": f"{kind}/{family}"}


@derived()
def usual_memory(snapshot: CatalogSnapshot) -> Mapping[str, str]:
    """The technology of memory that most accelerators of a hardware family have, by family."""
    counts: dict[str, Counter[str]] = {}
    for entry in snapshot.accelerators.values():
        if entry.value.memory_technology:
            of_family = counts.setdefault(entry.value.family, Counter())
            of_family[entry.value.memory_technology] += 1
    return {family: found.most_common(1)[0][0] for family, found in counts.items()}


def link_of(accelerator: Accelerator) -> str:
    """Key of the kind of links that join accelerators: a domain of their own, or a host's slots."""
    fast = accelerator.scale_up.bandwidth_bytes_per_s >= _OWN_DOMAIN_BYTES_PER_S
    return "scale-up" if fast else "pcie"


def inference_link_of(accelerator: Accelerator) -> str:
    """As `link_of`, but rings, tori and Ethernet apart.

    Small messages wait for each hop of a ring or torus, and for the network's protocol on Ethernet.
    """
    family, link = accelerator.family, link_of(accelerator)
    if family.startswith(_TORI):
        return "torus"
    if link != "scale-up":
        return link
    if family.startswith(_ETHERNET):
        return "ethernet"
    ring = family.startswith(_PLAIN_RINGS) and accelerator.scale_up_domain_accelerators > 2
    return "ring" if ring else link


def training_link_of(accelerator: Accelerator) -> str:
    """As `link_of`, but plain rings and tori apart.

    Messages of tensor parallelism fill rings. Links of tori are driven by engines of their own, so
    that what travels takes nothing from what is computed meanwhile.

    References
    ----------
    Austin et al., How to Scale Your Model, 2025, part 2 (links between chips and memory are written
    and read while the matrix units work), https://jax-ml.github.io/scaling-book/tpus
    """
    if accelerator.family.startswith(_TORI):
        return "torus"
    ring = accelerator.family.startswith(_PLAIN_RINGS) and link_of(accelerator) == "scale-up"
    return "ring" if ring else link_of(accelerator)


def engine_keys(
    release: str, engines: Mapping[str, Entry[Engine]], workload: EngineWorkload = "inference"
) -> dict[str, str]:
    """Keys of an engine's release by kind of level: its class, itself, and its generation.

    Parameters
    ----------
    release, engines
        Key of the release of an engine, or the engine's id; all engines.
    workload
        What the engine runs, which decides its class.
    """
    engine = engine_of_release(release)
    known = engines[engine].value
    keys = {"class": known.classes[workload], "engine": engine}
    if release == engine:
        return keys
    return keys | {"generation": known.constants_key(generation_of_release(release))}


def speed_keys(
    release: str,
    family: str,
    link: str,
    engines: Mapping[str, Entry[Engine]],
    workload: EngineWorkload = "inference",
) -> dict[str, str]:
    """Keys of an engine's release on a hardware family, by kind of level.

    Parameters
    ----------
    release, engines
        Key of the release of an engine, or the engine's id; all engines.
    family, link
        Hardware family, and kind of link.
    workload
        What the engine runs, which decides its class.
    """
    keys = engine_keys(release, engines, workload)
    kernels = f"{keys['class']}/{family}"
    return hardware_keys(family) | keys | {"kernels": kernels, "link": link}


def host_keys(family: str, platform: str) -> dict[str, str]:
    """Key of a kind of machine with the driver of a hardware family's vendor."""
    return {"host": f"{hardware_keys(family)['vendor']}/{platform}"}


def backend_keys(backend: str | None, family: str) -> dict[str, str]:
    """Keys of a backend on a hardware family, by kind of level.

    None where constants of the family are those of the backend: its maker's own interface, or an
    engine without a choice.
    """
    if backend is None:
        return {}
    interface = interface_of(backend)
    # What an interface reaches is the driver's, which is the vendor's.
    vendor = hardware_keys(family)["vendor"]
    keys = {} if is_of_maker(backend, family) else {"interface": f"{interface}/{vendor}"}
    if backend != interface:
        keys["backend"] = backend
    return keys | {"built": f"{backend}/{family}"} if keys else {}


def held(snapshot: CatalogSnapshot, part: str, kinds: tuple[str, ...], keys: Keys) -> Held:
    """The figures of a part that hold for something with these keys.

    An engine that was not measured takes the figures of those that it is like, if these were, at
    the newest generation of the day of its own, except for those that its own source tells.
    """
    known = snapshot.calibrations
    asked, keys = keys, of_newest(part, keys, snapshot)
    figures: dict[str, Interval] = {}
    entries: list[str] = []
    missing: list[str] = []
    usual: list[str] = []
    if part in known:
        figures.update(known[part].value)
        entries.append(part)
    for kind in kinds:
        if kind not in keys:
            continue
        own = f"{part}/{asked.get(kind, keys[kind])}"
        id_ = _id(part, kind, keys[kind], snapshot)
        if (
            id_ is None
            or id_ != own
            or _is_assumed(known[id_])
            or _is_ported(part, kind, keys, snapshot)
        ):
            missing.append(kind)
        if id_ is not None:
            figures.update(known[id_].value)
            entries.append(id_)
        if id_ != own and own in known:
            usual.append(own)
    for own in usual:
        figures.update(known[own].value)
    entries += usual
    return Held(part, figures, tuple(entries), tuple(missing))


def _is_ported(part: str, kind: str, keys: Keys, snapshot: CatalogSnapshot) -> bool:
    """Whether what an engine adds to steps was measured on hardware of other vendors alone.

    What issues steps on a vendor's hardware is code of its own, with a driver of its own: backends
    of vLLM for TPU, Gaudi, Ascend and Neuron are projects beside it (vLLM documentation, Hardware
    plugins, 2025). Where an engine chooses among backends, what one of them adds on a vendor's
    hardware has levels of its own, or is that of the source that it is built from.
    """
    if part != _ENGINES or kind not in _OF_ENGINES or "vendor" not in keys:
        return False
    if snapshot.engines[keys["engine"]].value.backends and (
        "built" in keys or shares_source(keys["family"])
    ):
        return False
    return (keys["class"], keys["vendor"]) not in _measured_vendors(snapshot)


@derived()
def _measured_vendors(snapshot: CatalogSnapshot) -> frozenset[tuple[str, str]]:
    """Classes of engines, each with a vendor on whose hardware engines of it were measured."""
    named = (id_.split("/")[2:] for id_ in snapshot.calibrations if id_.startswith(_KERNELS))
    return frozenset((one[0], hardware_keys(one[1])["vendor"]) for one in named if len(one) == 2)


def _is_assumed(entry: Entry[Figures]) -> bool:
    """Whether an entry says what is usual, and nothing was measured."""
    return all(origin.kind == "assumed" for origin in entry.origins.values())


def of_newest(part: str, keys: Keys, snapshot: CatalogSnapshot) -> Keys:
    """The keys, with the newest generation in its day of what an engine without figures is like."""
    like = _newest_like(part, keys, snapshot)
    if like is None:
        return keys
    engine, generation = like
    return {**keys, "generation": snapshot.engines[engine].value.constants_key(generation)}


def kernels_release(part: str, release: str, keys: Keys, snapshot: CatalogSnapshot) -> str:
    """Key of the release whose kernels a release has: its own, or that of what its engine is like.

    Parameters
    ----------
    part
        The part whose figures tell whether the engine has some of its own.
    release, keys
        Key of the release, and the keys of its levels.
    snapshot
        The catalog.
    """
    like = _newest_like(part, keys, snapshot)
    return release if like is None else release_key(*like)


def _newest_like(part: str, keys: Keys, snapshot: CatalogSnapshot) -> tuple[str, str] | None:
    """What an engine without figures is like, and its newest generation in its day.

    None where it has figures, and where generations tell nothing.
    """
    if "engine" not in keys:
        return None
    found = _id(part, "engine", keys["engine"], snapshot)
    if found is None:
        return None
    name = found.removeprefix(f"{part}/")
    generations = snapshot.engines[name].value.generations
    if name == keys["engine"] or not generations:
        return None
    of_release = generation_of_release(keys.get("generation", ""))
    until = snapshot.engines[keys["engine"]].value.superseded(of_release)
    begun = [one for one in generations if until is None or one.since < until]
    return name, (begun or generations[:1])[-1].id


def log_sigma(spread: Figures, missing: Iterable[tuple[str, str]]) -> float:
    """Standard deviation of an estimate's logarithm for a source that no constant was fitted to.

    Parameters
    ----------
    spread
        The three variances, and what each level that was not measured adds.
    missing
        Parts and kinds of levels that were not measured.
    """
    names = spread_names(missing)
    return sqrt(sum(float(spread[name].value) ** 2 for name in names if name in spread))


def spread_names(missing: Iterable[tuple[str, str]]) -> list[str]:
    """Names of the figures that a spread is made of, where some levels of parts are missing."""
    return [*VARIANCES, *(unmeasured(part, kind) for part, kind in missing)]


def unmeasured(part: str, kind: str) -> str:
    """Name of the figure that says what a level of a part adds where it was not measured."""
    return f"unmeasured_{part.rpartition('/')[2]}_{kind}_log_sigma"


def widening(
    spread: Figures, missing: Iterable[tuple[str, str]], undriven: bool = False
) -> Widening:
    """How much less well parts of a time are known where some levels were not measured.

    Parameters
    ----------
    spread
        Ratios of spreads, and what each level that was not measured adds to those of mechanisms;
        revisions of earlier releases have none.
    missing
        Parts and kinds of levels that were not measured.
    undriven
        Whether nobody measured hardware that is driven by the same interface.
    """
    levels = list(missing)
    ratios = {name: one for name, one in spread.items() if name in WIDENINGS}
    for mechanism in MECHANISMS:
        names = (unmeasured_ratio(part, kind, mechanism) for part, kind in levels)
        added = [float(spread[name].value) for name in names if name in spread]
        if undriven and mechanism in OF_KERNELS:
            added.append(UNDRIVEN_SPREAD_RATIO)
        ratios[f"{mechanism}_spread_ratio"] = exact(hypot(*added))
    return from_figures(Widening, ratios)


def widening_names(missing: Iterable[tuple[str, str]]) -> list[str]:
    """Names of the figures that a widening is made of, where some levels of parts are missing."""
    return [
        *WIDENINGS,
        *(
            unmeasured_ratio(part, kind, mechanism)
            for part, kind in missing
            for mechanism in MECHANISMS
        ),
    ]


def unmeasured_ratio(part: str, kind: str, mechanism: str) -> str:
    """Name of the figure that says what a level adds to a mechanism where it was not measured."""
    return f"unmeasured_{part.rpartition('/')[2]}_{kind}_{mechanism}_spread_ratio"


def _id(part: str, kind: str, key: str, snapshot: CatalogSnapshot) -> str | None:
    """Id of the entry that holds at a level: of an engine that nobody measured, what it is like."""
    known = snapshot.calibrations
    names = [key]
    if kind == "engine":
        names = [name for name, _ in kin_of(key, snapshot.engines)]
    found = [id_ for id_ in (f"{part}/{name}" for name in names) if id_ in known]
    measured = (id_ for id_ in found if not _is_assumed(known[id_]))
    return next(measured, found[0] if found else None)
