"""Platforms from catalog documents, and which one an accelerator usually stands in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from service.catalog.entries.documents import Document, DocumentInvalid
from service.catalog.entries.entry import CatalogDefaults, Entry
from service.catalog.entries.figures import read_figures
from service.catalog.entries.reading import Chosen, fields_of, flag, text, whole_number
from service.catalog.entries.specs import FIGURES
from service.core.deployment import Accelerator
from service.core.interval import Interval, exact
from service.core.platform import Machine, MachineLink, Platform, placed

#: Where the PUE of a class of sites stands among the calibrations.
SITE_CLASS = "site/class/"
#: What a link between accelerators is called that is the slot they sit in.
_SLOT = "pcie"
_LONGEST_CHAIN = 8
#: What a pattern leaves open.
_LEFT_OPEN = re.compile(r"\*|\[[^\]]*\]")
#: Form factor of what does not say.
_UNKNOWN_FORM = "unknown"
#: What machines that are like another have of it where they state nothing themselves.
_INHERITED = (
    *("kind", "site_class", "accelerators", "host_accelerators", "shared", "integrated"),
    *("board_accelerators", "peer_to_peer"),
    *("contains_accelerators", "scale_up_link", "scale_up_domain_accelerators"),
)
_KEYS = frozenset(
    {
        *("id", "name", "vendor", "release_year", "like", "described_by", "processors"),
        *("power_supplies", "host_link", "default_for", "default_form_factors", "aliases"),
        *("figures", "notes"),
        *_INHERITED,
    }
)


def platform_from_document(
    document: Any,
    platforms: Mapping[str, Document],
    calibrations: Mapping[str, Entry[Mapping[str, Interval]]],
    defaults: CatalogDefaults,
) -> Entry[Machine]:
    """A machine from a catalog document or an object of the same fields.

    Parameters
    ----------
    document
        What it lacks is as in the platform that it is ``like``.
    platforms
        Documents of all platforms.
    calibrations
        Those of the classes of sites.
    defaults
        The PUE of a site of no known class, and spreads of figures without an interval.

    Raises
    ------
    DocumentInvalid
        With a pointer to whatever is missing, unknown or of the wrong type.
    """
    fields = fields_of(document, _KEYS)
    entry_id = text(fields, "id", "inline")
    chosen = Chosen("platforms", entry_id, {}, defaults)
    stated: dict[str, Any] = {}
    link: Mapping[str, Any] | None = fields
    holder, passed = entry_id, [entry_id]
    while link is not None:
        pointer = "/figures" if link is fields else "/like"
        found = read_figures(link.get("figures") or {}, pointer, FIGURES["platforms"])
        chosen.add_missing(holder, found)
        for name in _INHERITED:
            if link.get(name) is not None:
                stated.setdefault(name, link[name])
        nearest = link.get("like")
        if nearest is None:
            break
        link = platforms.get(nearest) if isinstance(nearest, str) else None
        if link is None:
            raise DocumentInvalid("/like", f"no platform {nearest!r:.80}")
        if nearest in passed or len(passed) > _LONGEST_CHAIN:
            raise DocumentInvalid("/like", "leads back to itself, or the chain is too long")
        holder = nearest
        passed.append(nearest)
    value = _machine(fields, entry_id, stated, chosen, calibrations, defaults)
    return Entry(entry_id, fields, value, chosen.origins)


def _machine(
    fields: Mapping[str, Any],
    entry_id: str,
    stated: Mapping[str, Any],
    chosen: Chosen,
    calibrations: Mapping[str, Entry[Mapping[str, Interval]]],
    defaults: CatalogDefaults,
) -> Machine:
    count = whole_number(stated, "accelerators", 1)
    integrated = flag(stated, "integrated")
    site_class = text(stated, "site_class", "unknown")
    host_idle_w, host_load_w = (
        chosen.known_interval(name) if integrated else chosen.interval(name)
        for name in ("host_idle_w", "host_load_w")
    )
    host_idle_w = host_idle_w or exact(0.0)
    site_pue = _of_site("pue_ratio", site_class, calibrations, defaults)
    if site_pue is None:
        raise DocumentInvalid("/site_class", f"no class of sites {site_class!r:.80}")
    efficiency = chosen.known_interval("supply_efficiency_ratio")
    rated = chosen.known_interval("rated_power_w")
    core_time = chosen.known_interval("core_time_ratio")
    platform = chosen.value(
        Platform,
        id=entry_id,
        name=text(fields, "name", entry_id),
        kind=text(stated, "kind", "unknown"),
        site_class=site_class,
        accelerators=float(count),
        host_accelerators=float(whole_number(stated, "host_accelerators", count)),
        board_accelerators=float(whole_number(stated, "board_accelerators", 1)),
        shared_ratio=float(flag(stated, "shared")),
        whole_ratio=float(flag(stated, _whole(stated))),
        host_idle_w=host_idle_w,
        host_load_w=host_load_w or host_idle_w,
        host_processors_w=chosen.known_interval("host_processors_w") or exact(0.0),
        supply_efficiency_ratio=1.0 if efficiency is None else float(efficiency.value),
        rated_power_w=float("inf") if rated is None else float(rated.value),
        core_time_ratio=1.0 if core_time is None else float(core_time.value),
        site_pue_ratio=site_pue,
        site_wue_l_per_kwh=_of_site("wue_l_per_kwh", site_class, calibrations, defaults),
    )
    host_link = chosen.known_interval("host_link_bandwidth_bytes_per_s")
    power_w = chosen.known_interval("accelerator_power_w")
    network = chosen.known_interval("scale_out_bandwidth_bytes_per_s")
    delay = chosen.known_interval("scale_out_latency_s")
    peers = stated.get("peer_to_peer")
    return Machine(
        platform=platform,
        link=_link(stated, chosen),
        host_link_bandwidth_bytes_per_s=None if host_link is None else float(host_link.value),
        accelerator_power_w=None if power_w is None else float(power_w.value),
        integrated=integrated,
        peer_to_peer=None if peers is None else flag(stated, "peer_to_peer"),
        idle_wall_w=chosen.known_interval("idle_wall_w"),
        scale_out_bandwidth_bytes_per_s=None if network is None else float(network.value),
        scale_out_latency_s=None if delay is None else float(delay.value),
    )


def _whole(stated: Mapping[str, Any]) -> str:
    """What says whether making and mass of a machine are those of its accelerators, too."""
    return "contains_accelerators" if "contains_accelerators" in stated else "integrated"


def _link(stated: Mapping[str, Any], chosen: Chosen) -> MachineLink | None:
    bandwidth = chosen.known_interval("scale_up_bandwidth_bytes_per_s")
    if bandwidth is None:
        return None
    latency = chosen.known_interval("scale_up_latency_s")
    joined = stated.get("scale_up_domain_accelerators")
    return MachineLink(
        bandwidth_bytes_per_s=float(bandwidth.value),
        latency_s=None if latency is None else float(latency.value),
        bridged=not text(stated, "scale_up_link", _SLOT).startswith(_SLOT),
        accelerators=None
        if joined is None
        else whole_number(stated, "scale_up_domain_accelerators", 1),
    )


def _of_site(
    name: str,
    site_class: str,
    calibrations: Mapping[str, Entry[Mapping[str, Interval]]],
    defaults: CatalogDefaults,
) -> Interval | None:
    """A figure of a class of sites, or what stands in for that of any site."""
    known = calibrations.get(SITE_CLASS + site_class)
    if known is not None and name in known.value:
        return known.value[name]
    stand_in = defaults.stand_ins.get(name)
    return None if stand_in is None else stand_in.figure.interval()


def on_slots(document: Document) -> bool:
    """Whether nothing joins accelerators but the slots of their machine, by their document."""
    return str(document.get("scale_up_link") or _SLOT).startswith((_SLOT, "none"))


def put_in(accelerator: Entry[Accelerator], machine: Entry[Machine]) -> Entry[Accelerator]:
    """An accelerator in a machine; figures that it has of the machine have their origins there."""
    return Entry(
        accelerator.id,
        accelerator.document,
        placed(accelerator.value, machine.value, on_slots=on_slots(accelerator.document)),
        accelerator.origins,
        accelerator.stale,
    )


class UsualPlatforms:
    """Which of the platforms an accelerator usually stands in: by its id, else by its form.

    Of several, the one that names the id most exactly, with the fewest letters left open.
    """

    def __init__(self, platforms: Mapping[str, Entry[Machine]]) -> None:
        self._by_id: dict[str, Entry[Machine]] = {}
        self._by_form: dict[str, Entry[Machine]] = {}
        listed: list[tuple[int, str, str, Entry[Machine]]] = []
        for entry in platforms.values():
            for pattern in _patterns(entry.document.get("default_for")):
                open_ = _LEFT_OPEN.search(pattern)
                self._by_id.setdefault(pattern, entry)
                if open_ is not None:
                    exact = len(_LEFT_OPEN.sub("", pattern))
                    listed.append((exact, pattern[: open_.start()], pattern, entry))
            for form in _patterns(entry.document.get("default_form_factors")):
                self._by_form.setdefault(form, entry)
        self._listed = sorted(listed, key=lambda one: -one[0])

    def of(self, accelerator: Entry[Accelerator]) -> Entry[Machine] | None:
        """The platform of an accelerator; None where nothing names it."""
        named = self._by_id.get(accelerator.id)
        if named is not None:
            return named
        for _, begins, pattern, entry in self._listed:
            if accelerator.id.startswith(begins) and fnmatchcase(accelerator.id, pattern):
                return entry
        return self._by_form.get(accelerator.document.get("form_factor") or _UNKNOWN_FORM)


def _patterns(given: Any) -> Iterable[str]:
    return [str(each) for each in given] if isinstance(given, list) else ()
