"""Use case: bytes over links and out of memories: time, energy, price and manufacturing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import EstimateWarning, Step, explain
from service.core.interval import Interval, product
from service.core.memory.tiers import Interconnect, MemoryTier
from service.core.memory.transfers import (
    MOST_UTILISATION_RATIO,
    TRANSFER,
    Load,
    Transfer,
    of_size,
    transfer,
    transfer_energy_j,
)
from service.estimation.answers import Answer, Repeatable, figure, frame, grounds, known_figure
from service.estimation.answers import Interval as IntervalAnswer
from service.estimation.detail import FieldPaths, Grounded
from service.estimation.projections.over_time import positive
from service.estimation.references import CatalogRequest, Figure, Reference, separated
from service.estimation.resolution import Problems

_SERVER_MEMORY = "ddr5-8ch"


_MANY = Field(max_length=100)
_References = Annotated[
    tuple[Reference, ...],
    _MANY,
    BeforeValidator(separated, json_schema_input_type=Annotated[list[Reference], _MANY]),
]


class TransferRequest(CatalogRequest):
    """Bytes, and the links and memories that they could go over."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"bytes": 14e9, "interconnects": ["pcie-4-x16", "pcie-5-x16", "nvlink-3"]},
                {
                    "bytes": 1e9,
                    "tiers": ["ddr5-8ch", "cxl-2.0-ddr5-direct", "nvme-gen5"],
                    "utilisation_ratio": 0.5,
                },
            ]
        }
    )

    bytes: float = Field(ge=0.0, le=1e18)
    """Bytes that are moved, and for price and manufacturing, held."""
    interconnects: _References = ()
    """Catalog ids of links, as a list or separated by commas."""
    tiers: _References = ()
    """Catalog ids of memories, likewise; if both lists are empty, all that the catalog has."""
    link_bytes_per_s: float | None = Field(None, ge=1e3, le=1e15)
    """Bandwidth between a reader and the memories, one direction; a memory whose own bandwidth
    nobody states, such as a pool, has this one."""
    efficiency_ratio: float = Field(1.0, ge=1e-4, le=1.0)
    """Share of peak bandwidth that is reached."""
    utilisation_ratio: Annotated[float, Field(ge=0.0, lt=MOST_UTILISATION_RATIO)] = 0.0
    """Share of time in which others use the same way: they take its bandwidth and make it wait."""
    users: int = Field(1, ge=1, le=100_000)
    """Readers of a memory at the same time, such as the hosts of a pool."""
    access_bytes: float | None = Field(None, ge=1.0, le=1e12)
    """Bytes of one access, where data is not streamed; latency then limits the rate."""
    outstanding: int = Field(1, ge=1, le=1_000_000)
    """Accesses in flight; without access_bytes it has no effect."""
    ddr5_usd_per_gb: Figure | None = None
    """Price of server DDR5, from which prices follow that are stated as multiples of it; if null,
    the catalog's, where it is of the same year."""
    explain: bool = False
    """Add a step-by-step explanation."""
    include: Grounded = ()
    fields: FieldPaths = ()


class TransferRow(Answer):
    """The bytes over one link, or out of one memory."""

    id: str
    name: str
    kind: str
    """interconnect, or the kind of memory."""
    bandwidth_bytes_per_s: IntervalAnswer | None
    """What is left for these bytes; null if nobody states it."""
    latency_s: IntervalAnswer | None
    """With the traffic of others."""
    transfer_s: IntervalAnswer | None
    """Time for the bytes; null if the bandwidth is not known."""
    transfer_energy_j: IntervalAnswer | None
    """In the memory and its channel, or at both ends of the link."""
    energy_pj_per_bit: IntervalAnswer | None
    """Energy of one bit; null if nobody states it."""
    price_usd: IntervalAnswer | None
    """Of holding so many bytes."""
    price_usd_per_gb: IntervalAnswer | None
    """Price of 10⁹ bytes; null if not known."""
    embodied_kgco2e: IntervalAnswer | None
    """Of making so many bytes."""
    units: int | None
    """Units that hold the bytes; null if their size is not typical."""


class TransferAnswer(Repeatable):
    """Bytes over links and out of memories, the fastest first."""

    bytes: float
    """Bytes that are moved."""
    rows: list[TransferRow]


def transfer_answer(request: TransferRequest, snapshot: CatalogSnapshot) -> TransferAnswer:
    """Time, energy, price and manufacturing of bytes over each link and in each memory.

    Raises
    ------
    Rejected
        If a link or a memory is unknown.
    """
    problems = Problems()
    everything = not (request.interconnects or request.tiers)
    links = _found("interconnects", request.interconnects, everything, snapshot, problems)
    tiers = _found("memory-tiers", request.tiers, everything, snapshot, problems)
    stated = request.ddr5_usd_per_gb
    server = None if stated is None else positive(stated, "/ddr5_usd_per_gb", problems)
    problems.stop_if_any()
    load = Load(
        request.efficiency_ratio,
        request.utilisation_ratio,
        float(request.users),
        request.access_bytes,
        float(request.outstanding),
    )
    steps: list[Step] = []
    rows = [_link_row(entry, request, load, steps) for entry in links]
    rows += [
        _tier_row(entry, request, load, _price(entry, server, snapshot), steps) for entry in tiers
    ]
    rows.sort(key=lambda row: (row["transfer_s"] is None, _seconds(row), row["id"]))
    entries: list[tuple[str, Entry[Any]]] = [("interconnects", entry) for entry in links]
    entries += [("memory-tiers", entry) for entry in tiers]
    return {
        **frame(snapshot.revision),
        "bytes": request.bytes,
        "rows": rows,
        **grounds(
            snapshot,
            tuple(_warnings(rows, bool(request.tiers))),
            entries,
            (lambda: steps) if request.explain else None,
        ),
    }


def _seconds(row: TransferRow) -> float:
    return 0.0 if row["transfer_s"] is None else row["transfer_s"]["value"]


def _found(
    collection: Any,
    asked: tuple[str, ...],
    everything: bool,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> list[Entry[Any]]:
    names: Mapping[str, Any] = (
        snapshot.interconnects if collection == "interconnects" else snapshot.memory_tiers
    )
    pointer = "/interconnects" if collection == "interconnects" else "/tiers"
    found = (
        problems.attempt(
            f"{pointer}/{at}",
            lambda name=name: snapshot.find(collection, name),  # type: ignore[misc]
        )
        for at, name in enumerate(names if everything else asked)
    )
    return list(dict.fromkeys(entry for entry in found if entry is not None))


def _link_row(
    entry: Entry[Interconnect], request: TransferRequest, load: Load, steps: list[Step]
) -> TransferRow:
    link = entry.value
    moved = transfer(request.bytes, link.bandwidth_bytes_per_s, link.latency_s, load)
    steps += _steps(moved, link.latency_s, load)
    return _row(entry.id, link.name, "interconnect", request.bytes, moved, link.energy_pj_per_bit)


def _tier_row(
    entry: Entry[MemoryTier],
    request: TransferRequest,
    load: Load,
    price: Interval | None,
    steps: list[Step],
) -> TransferRow:
    tier = entry.value
    peak = tier.bandwidth_bytes_per_s or request.link_bytes_per_s
    moved = None
    if peak is not None:
        moved = transfer(request.bytes, peak, tier.latency_s, load, request.link_bytes_per_s)
        steps += _steps(moved, tier.latency_s, load)
    row = _row(entry.id, tier.name, tier.kind, request.bytes, moved, tier.energy_pj_per_bit)
    making, capacity = tier.embodied_kgco2e_per_gb, tier.capacity_bytes
    row["price_usd_per_gb"] = known_figure(price)
    if price is not None:
        row["price_usd"] = figure(of_size(price, request.bytes))
    if making is not None:
        row["embodied_kgco2e"] = figure(of_size(making, request.bytes))
    if capacity is not None:
        row["units"] = int(-(-request.bytes // float(capacity)))
    return row


def _price(
    entry: Entry[MemoryTier], stated: Interval | None, snapshot: CatalogSnapshot
) -> Interval | None:
    """Price of a byte: its own, else its multiple of that of server DDR5 in the same year."""
    tier = entry.value
    if tier.price_usd_per_gb is not None:
        return tier.price_usd_per_gb
    multiple = tier.price_over_ddr5_ratio
    if multiple is None:
        return None
    if stated is not None:
        return product(multiple, stated)
    server = snapshot.memory_tiers.get(_SERVER_MEMORY)
    if server is None or server.value.price_usd_per_gb is None:
        return None
    own, usual = entry.origins["price_over_ddr5_ratio"], server.origins["price_usd_per_gb"]
    return product(multiple, server.value.price_usd_per_gb) if own.year == usual.year else None


def _row(
    id_: str,
    name: str,
    kind: str,
    size_bytes: float,
    moved: Transfer | None,
    energy: Interval | None,
) -> TransferRow:
    return {
        "id": id_,
        "name": name,
        "kind": kind,
        "bandwidth_bytes_per_s": None if moved is None else figure(moved.bandwidth_bytes_per_s),
        "latency_s": None if moved is None else known_figure(moved.latency_s),
        "transfer_s": None if moved is None else figure(moved.transfer_s),
        "transfer_energy_j": None
        if energy is None
        else figure(transfer_energy_j(size_bytes, energy)),
        "energy_pj_per_bit": known_figure(energy),
        "price_usd": None,
        "price_usd_per_gb": None,
        "embodied_kgco2e": None,
        "units": None,
    }


def _steps(moved: Transfer, idle_latency_s: Interval | None, load: Load) -> Iterator[Step]:
    figures = {
        "idle_latency_s": idle_latency_s,
        "utilisation_ratio": load.utilisation_ratio,
        "latency_s": moved.latency_s,
        "bytes": moved.bytes,
        "bandwidth_bytes_per_s": moved.bandwidth_bytes_per_s,
        "transfer_s": moved.transfer_s,
    }
    if moved.latency_s is not None:
        yield from explain(figures, TRANSFER)


def _warnings(rows: list[TransferRow], asked: bool) -> Iterator[EstimateWarning]:
    """What is not known; of prices and energies only where memories are ``asked`` for by name."""
    slow = [row["id"] for row in rows if row["transfer_s"] is None]
    if slow:
        yield EstimateWarning(
            "bandwidth_unknown", f"the bandwidth of {', '.join(slow)} is unpublished"
        )
    late = [row["id"] for row in rows if row["transfer_s"] is not None and row["latency_s"] is None]
    if late:
        yield EstimateWarning(
            "latency_unknown",
            f"the latency of {', '.join(late)} is unpublished: their times are those of the "
            "bandwidth alone",
        )
    for name, code in (("price_usd", "price"), ("transfer_energy_j", "energy")):
        without = [row["id"] for row in rows if row["kind"] != "interconnect" and row[name] is None]  # type: ignore[literal-required]
        if without and asked:
            yield EstimateWarning(
                f"{code}_unknown",
                f"the {code} of {', '.join(without)} is unpublished",
                about=name,
            )
