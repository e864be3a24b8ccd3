"""The machine that accelerators stand in, their limit of power, and the PUE of the site."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from service.catalog.derived import derived
from service.catalog.entries.convert import accelerator_from_document
from service.catalog.entries.documents import DocumentInvalid
from service.catalog.entries.entry import Entry, FigureOrigin
from service.catalog.entries.platforms import (
    SITE_CLASS,
    platform_from_document,
    put_in,
)
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Parallelism, Region
from service.core.explanation import EstimateWarning
from service.core.interval import exact
from service.core.platform import Machine, limited
from service.estimation.answers import Answer, figure
from service.estimation.answers import Interval as Written
from service.estimation.calibrations import power_needs
from service.estimation.references import FacilityRequest, InlineAccelerator, InlinePlatform
from service.estimation.resolution import (
    Problems,
    document_of,
    is_placed,
    resolve_accelerator,
)

#: Modules that are mounted on a baseboard, with links of their own and power that no slot gives.
_BASEBOARD_FORMS = frozenset({"sxm", "oam", "superchip"})
#: Kinds of machines that take cards in slots, or nothing at all.
_KINDS_WITH_SLOTS = frozenset(
    {
        *("server-pcie", "server-cpu", "workstation", "desktop"),
        *("mini-pc", "laptop", "soc-board", "phone"),
    }
)
#: The most that boards of desktops take: four modules of 64 GB (JEDEC, JESD79-5, 2022-2024) [B].
_DESKTOP_HOST_BYTES = 256.0 * 2**30
#: Share of thermal design power below which firmware often accepts no limit: least limits of
#: cards that publish theirs are between 0.3 (H100 SXM: 200 of 700 W, DGX B200 User Guide) and
#: most of it (MI100: 290 W, ROCm issue 190).
_LOW_LIMIT_RATIO = 0.5


def resolve_machine(platform: str | InlinePlatform, snapshot: CatalogSnapshot) -> Entry[Machine]:
    """A platform of the catalog, or one given in the request."""
    if isinstance(platform, str):
        return snapshot.find("platforms", platform)
    documents = {id_: entry.document for id_, entry in snapshot.platforms.items()}
    return platform_from_document(
        document_of(platform), documents, snapshot.calibrations, snapshot.defaults
    )


def resolve_placed(
    accelerator: str | InlineAccelerator,
    platform: str | InlinePlatform | None,
    power_limit_w: float | None,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> tuple[Entry[Accelerator] | None, Entry[Machine] | None]:
    """An accelerator in its machine and under its limit of power, and the machine.

    Parameters
    ----------
    accelerator, platform, power_limit_w
        As asked for; without a platform, the one that the accelerator usually stands in.
    snapshot
        The catalog.
    problems
        Takes what is wrong; the accelerator is then None.
    """
    found = problems.attempt("/accelerator", lambda: resolve_accelerator(accelerator, snapshot))
    machine: Entry[Machine] | None = None
    if platform is not None:
        machine = problems.attempt("/platform", lambda: resolve_machine(platform, snapshot))
    if found is None:
        return None, machine
    if platform is None:
        machine = snapshot.platforms.get(found.value.platform.id)
    elif machine is not None:
        chosen = machine
        entry = found
        found = problems.attempt("/platform", lambda: in_machine(snapshot, entry, chosen))
    if found is not None and power_limit_w is not None:
        placed, limit_w = found, power_limit_w
        value = problems.attempt(
            "/power_limit_w", lambda: _limited(placed.value, limit_w, snapshot)
        )
        found = None if value is None else replace(placed, value=value)
    return found, machine


def roomier_machine(
    host_bytes: float, accelerator: Accelerator, snapshot: CatalogSnapshot
) -> str | None:
    """Id of a machine for what has no room beside an accelerator in a desktop; None if it has.

    Parameters
    ----------
    host_bytes
        What the host is to hold [B].
    accelerator
        In the machine that it usually stands in.
    snapshot
        The catalog, of which the workstation is taken that cards usually stand in.
    """
    if accelerator.platform.kind != "desktop" or host_bytes <= _DESKTOP_HOST_BYTES:
        return None
    usual = (
        (id_, one) for id_, one in snapshot.platforms.items() if one.document.get("default_for")
    )
    return next((id_ for id_, one in usual if one.value.platform.kind == "workstation"), None)


@derived(most=1024)
def in_machine(
    snapshot: CatalogSnapshot, accelerator: Entry[Accelerator], machine: Entry[Machine]
) -> Entry[Accelerator]:
    """An accelerator, so far in the machine it usually stands in, in one that was asked for.

    Raises
    ------
    DocumentInvalid
        If its power is that of a whole machine and another one would be charged on top, the
        machine is made around a chip of its own and has no host for others, or it is a module for
        a baseboard and the machine has slots, unless the request describes a machine of its own.
    """
    usual = snapshot.platforms.get(accelerator.value.platform.id)
    whole = usual is not None and usual.value.integrated
    if machine.value.integrated != whole:
        raise DocumentInvalid(
            "",
            f"the power of {accelerator.id} is that of a whole machine, to which {machine.id} "
            "would add another one"
            if whole
            else f"{machine.id} is made around its own chip and has no slot for {accelerator.id}",
        )
    form, kind = accelerator.document.get("form_factor"), machine.value.platform.kind
    if form in _BASEBOARD_FORMS and kind in _KINDS_WITH_SLOTS and machine.id in snapshot.platforms:
        places = ", ".join(dict.fromkeys(([usual.id] if usual else []) + ["server-8"]))
        raise DocumentInvalid(
            "",
            f"{accelerator.id} is a module ({form}) for a server's baseboard, and {machine.id} has "
            f"slots for cards: it stands in {places}; for one on an adapter describe the machine "
            f'({{"like": "{machine.id}"}})',
        )
    # From its document, as it is sold: without what its usual machine changes.
    sold = accelerator_from_document(accelerator.document, snapshot.defaults)
    return put_in(replace(sold, id=accelerator.id), machine)


def in_asked_machine(
    accelerators: Sequence[Entry[Accelerator]],
    platform: str | InlinePlatform | None,
    power_limit_w: float | None,
    named: bool,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> tuple[Entry[Accelerator] | None, ...]:
    """Accelerators of a search in the machine and under the limit that were asked for, if any were.

    Parameters
    ----------
    accelerators
        In the machines that they usually stand in.
    platform, power_limit_w
        What was asked for.
    named
        Whether the accelerators were, too: then one that has no place in the machine, or idles
        above the limit, is noted. Of all of the catalog, such ones are None, and noted where there
        are no others.
    snapshot, problems
        The catalog, and what takes notes.
    """
    found = _in_asked_machine(accelerators, platform, named, snapshot, problems)
    if found and not any(found):
        problems.add("/platform", "none of the accelerators that are searched stands in it")
    if power_limit_w is None:
        return found
    ignored = Problems()
    limited = tuple(
        entry
        if entry is None
        else (problems if named else ignored).attempt(
            "/power_limit_w",
            lambda entry=entry: _under_limit(entry, power_limit_w, snapshot),  # type: ignore[misc]
        )
        for entry in found
    )
    if any(found) and not any(limited):
        problems.add(
            "/power_limit_w", "every accelerator that is searched draws more with a model in memory"
        )
    return limited


def _under_limit(
    accelerator: Entry[Accelerator], limit_w: float, snapshot: CatalogSnapshot
) -> Entry[Accelerator]:
    """An accelerator under a limit; one that never draws as much as it is."""
    most_w = accelerator.value.thermal_design_power_w
    if most_w is not None and float(most_w) <= limit_w:
        return accelerator
    return replace(accelerator, value=_limited(accelerator.value, limit_w, snapshot))


def _in_asked_machine(
    accelerators: Sequence[Entry[Accelerator]],
    platform: str | InlinePlatform | None,
    named: bool,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> tuple[Entry[Accelerator] | None, ...]:
    if platform is None:
        return tuple(accelerators)
    machine = problems.attempt("/platform", lambda: resolve_machine(platform, snapshot))
    if machine is None:
        return tuple(accelerators)
    ignored = Problems()
    return tuple(
        (problems if named else ignored).attempt(
            "/platform",
            lambda entry=entry: in_machine(snapshot, entry, machine),  # type: ignore[misc]
        )
        for entry in accelerators
    )


def _limited(accelerator: Accelerator, limit_w: float, snapshot: CatalogSnapshot) -> Accelerator:
    try:
        return limited(accelerator, limit_w, power_needs(snapshot, accelerator))
    except ValueError as wrong:
        raise DocumentInvalid("", str(wrong)) from None


def platform_warnings(
    accelerator: Accelerator, machine: Entry[Machine] | None, parallelism: Parallelism
) -> Iterator[EstimateWarning]:
    """What to say of the machine: a low limit of power, that it is unknown, or has no peers."""
    limit_w, most_w = float(accelerator.power_limit_w), accelerator.thermal_design_power_w
    if most_w is not None and limit_w < _LOW_LIMIT_RATIO * float(most_w):
        yield EstimateWarning(
            "power_limit_low",
            f"{limit_w:g} W is less than half of the design power of {accelerator.id}: its "
            "firmware may refuse such a low limit (nvidia-smi -q -d POWER or rocm-smi shows the "
            "lowest), and its effect on speed was measured only for higher limits",
        )
    if machine is None:
        yield EstimateWarning(
            "platform_unknown",
            f"the machine that usually holds {accelerator.id} is not known: the power and "
            "manufacturing of a host are left out until you name one",
        )
    shares = parallelism.replica_accelerators > 1
    if shares and machine is not None and machine.value.peer_to_peer is False:
        bandwidth = float(accelerator.scale_up.bandwidth_bytes_per_s)
        yield EstimateWarning(
            "no_peer_to_peer",
            f"accelerators in this machine ({machine.id}) reach each other only through "
            f"the memory of the host, at {bandwidth / 1e9:.3g} GB/s; name your machine if yours "
            "are linked",
        )


def in_asked_facility(
    region: Entry[Region], asked: FacilityRequest, snapshot: CatalogSnapshot
) -> Entry[Region]:
    """A region of a search with the building that was asked for, if one was, whatever is in it."""
    if asked.pue_ratio is None and asked.site_class is None:
        return region
    placed = sited(region, None, asked, snapshot).region
    wue_stood_in = placed.value.wue_stood_in and asked.site_class is None
    value = replace(placed.value, pue_stood_in=False, wue_stood_in=wue_stood_in)
    return replace(placed, value=value)


class Facility(Answer):
    """The building that the hardware stands in, and whose PUE was taken for it."""

    platform: str | None
    """Machine by its id in /v1/platforms; null if none is known."""
    site_class: str | None
    """Class of sites that was asked for, or in which such machines usually stand."""
    pue_ratio: Written
    pue_basis: Literal["request", "site_class", "region"]
    """request: given there; region: stated for the place or by its operator; site_class: usual
    for the class of sites."""
    pue_reason: str
    """The same in a sentence."""


@dataclass(frozen=True, slots=True)
class Sited:
    """A region with PUE and WUE of what stands there, and where the PUE comes from."""

    region: Entry[Region]
    facility: Facility


def sited(
    region: Entry[Region],
    machine: Entry[Machine] | None,
    asked: FacilityRequest,
    snapshot: CatalogSnapshot,
) -> Sited:
    """The PUE and WUE that hold in a region: as asked for, as stated, or those of the usual site.

    Parameters
    ----------
    region, machine
        Place and platform; without a platform, nobody's usual site is known.
    asked
        What the request says about the building.
    snapshot
        The catalog, whose classes of sites have a PUE.
    """
    return _sited(snapshot, region, machine, asked)


@derived(most=1024)
def _sited(
    snapshot: CatalogSnapshot,
    region: Entry[Region],
    machine: Entry[Machine] | None,
    asked: FacilityRequest,
) -> Sited:
    platform = None if machine is None else machine.value.platform
    class_ = asked.site_class or (None if platform is None else platform.site_class)
    known = snapshot.calibrations.get(f"{SITE_CLASS}{class_}")
    origin = region.origins.get("pue_ratio")
    basis: Literal["request", "site_class", "region"]
    nobody = f"nobody states one for {region.id}" if is_placed(region) else "no place is named"
    if asked.pue_ratio is not None:
        pue, basis = exact(asked.pue_ratio), "request"
        reason = "as given in the request"
        origin = FigureOrigin("regions", region.id, None, None, "given")
    elif known is not None and (asked.site_class is not None or region.value.pue_stood_in):
        pue, basis = known.value["pue_ratio"], "site_class"
        reason = f"usual for the class {class_}, as asked for"
        if asked.site_class is None and platform is not None:
            reason = f"{nobody}; usual for the class {class_}, where such machines stand"
        origin = known.origins["pue_ratio"]
    else:
        pue, basis = region.value.pue_ratio, "region"
        reason = f"stated for {region.id} or by its operator"
        if region.value.pue_stood_in:
            reason = f"{nobody}; the average of a survey of operators"
    facility: Facility = {
        "platform": None if machine is None else machine.id,
        "site_class": class_,
        "pue_ratio": figure(pue),
        "pue_basis": basis,
        "pue_reason": reason,
    }
    if basis != "region":
        region = _with(
            "pue_ratio", region, origin, pue_ratio=pue, pue_stood_in=basis == "site_class"
        )
    own_water = asked.site_class is not None or region.value.wue_stood_in
    if known is not None and "wue_l_per_kwh" in known.value and own_water:
        wue = known.value["wue_l_per_kwh"]
        region = _with("wue_l_per_kwh", region, known.origins["wue_l_per_kwh"], wue_l_per_kwh=wue)
    return Sited(region, facility)


def _with(
    name: str, region: Entry[Region], origin: FigureOrigin | None, **changes: Any
) -> Entry[Region]:
    """A region with another figure of this name."""
    origins = {**region.origins} | ({} if origin is None else {name: origin})
    stale = tuple(one for one in region.stale if one != name)
    return replace(region, value=replace(region.value, **changes), origins=origins, stale=stale)
