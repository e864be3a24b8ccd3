"""Finding an accelerator by what its driver calls it.

``nvidia-smi -L`` prints "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-…)", PyTorch "NVIDIA H100 80GB
HBM3", a forum "RTX4090". What tells accelerators apart in such names is the product, the memory
and the form; makers, brands, kinds of memory and the order of the words do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from service.catalog.entries.references import MOST_SUGGESTIONS, ReferenceIndex

_ASIDE = re.compile(r"\([^()]*\)|^\s*gpu\s+\d+\s*:|\b\d+-core\b|@\s*[\d.]+\s*ghz")
_SIZE = re.compile(r"\b(\d+)\s*(?:gib|gb|g)\b")
_WORD = re.compile(r"[a-z0-9]+\+?")
#: Words that are written with and without a space before the number that follows them.
_SERIES = re.compile(r"(rtx|gtx|rx)(\d.*)")
_SUFFIX = re.compile(r"(\d{4})(ti|super|xtx|xt)")
_FORM = re.compile(r"(sxm)\d?|(pcie)|(nvl)")
_NOISE = frozenset(
    {
        *("nvidia", "amd", "intel", "apple", "google", "aws", "tesla", "quadro", "geforce"),
        *("radeon", "instinct", "graphics", "gpu", "accelerator", "processor", "cpu", "oam"),
        *("generation", "edition", "corporation"),
        *("hbm2", "hbm2e", "hbm3", "hbm3e", "gddr6", "gddr6x", "gddr7"),
    }
)
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class DeviceName:
    """What tells a device apart: words of the product, memory sizes [GB] and forms."""

    product: frozenset[str]
    sizes: frozenset[str]
    forms: frozenset[str]


def device_name(name: str) -> DeviceName:
    """What a name says, without regard to case, order, maker and brand."""
    plain = _ASIDE.sub(" ", name[:_LONGEST_NAME].casefold().replace("_", "-"))
    sizes = frozenset(_SIZE.findall(plain))
    product: set[str] = set()
    forms: set[str] = set()
    for word in _WORD.findall(_SIZE.sub(" ", plain)):
        form = _FORM.fullmatch(word)
        if form is not None:
            forms.add(form[form.lastindex or 0])
            continue
        parted = _SERIES.fullmatch(word) or _SUFFIX.fullmatch(word)
        product |= {word} - _NOISE if parted is None else set(parted.groups())
    return DeviceName(frozenset(product), sizes, frozenset(forms))


class DeviceIndex(ReferenceIndex):
    """Ids, aliases and names of accelerators.

    What is not found as in every collection is looked up as a device's name: first among names
    that say the same, then among those of the same product whose entry has the memory and the form
    that are asked for. What several entries could be is none of them.
    """

    def __init__(
        self, entries: Mapping[str, Iterable[str]], names: Mapping[str, str] | None = None
    ) -> None:
        """Index ``entries``, the aliases by id, and their ``names`` by id."""
        kept = {entry_id: tuple(aliases) for entry_id, aliases in entries.items()}
        super().__init__(kept)
        told = names or {}
        self._same: dict[DeviceName, set[str]] = {}
        self._of_product: dict[frozenset[str], set[str]] = {}
        self._sizes: dict[str, set[str]] = {}
        self._forms: dict[str, set[str]] = {}
        for entry_id, aliases in kept.items():
            self._sizes[entry_id], self._forms[entry_id] = set(), set()
            for text in (entry_id, *aliases, *filter(None, [told.get(entry_id)])):
                device = device_name(text)
                self._same.setdefault(device, set()).add(entry_id)
                self._of_product.setdefault(device.product, set()).add(entry_id)
                self._sizes[entry_id] |= device.sizes
                self._forms[entry_id] |= device.forms

    def find(self, reference: str) -> str | None:
        """The id of the entry meant, or None."""
        found = super().find(reference)
        return found if found is not None else self._by_device(device_name(reference))

    def suggestions(self, reference: str) -> tuple[str, ...]:
        """Ids of entries whose names share words of the product, then those with similar names."""
        product = device_name(reference).product
        shared: dict[str, int] = {}
        for words, ids in self._of_product.items():
            for entry_id in ids:
                shared[entry_id] = max(shared.get(entry_id, 0), _likeness(words & product))
        likely = sorted(
            (entry_id for entry_id, likeness in shared.items() if likeness),
            key=lambda entry_id: (-shared[entry_id], entry_id),
        )
        similar = super().suggestions(reference)
        return tuple(dict.fromkeys((*likely[:MOST_SUGGESTIONS], *similar)))[:MOST_SUGGESTIONS]

    def _by_device(self, device: DeviceName) -> str | None:
        if not device.product:
            return None
        same = self._same.get(device, set())
        if same:
            return min(same) if len(same) == 1 else None
        fitting = [
            entry_id
            for entry_id in self._of_product.get(device.product, ())
            if device.sizes <= self._sizes[entry_id] and device.forms <= self._forms[entry_id]
        ]
        return fitting[0] if len(fitting) == 1 else None


def _likeness(shared: frozenset[str]) -> int:
    """Words with a number say more than those of a series."""
    return sum(3 if any(map(str.isdigit, word)) else 1 for word in shared)
