"""Finding an accelerator by what its driver calls it.

``nvidia-smi -L`` prints "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-…)", PyTorch "NVIDIA H100 80GB
HBM3", a forum "RTX4090". What tells accelerators apart in such names is the product, the memory
and the form; makers, brands, kinds of memory and the order of the words do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from service.catalog.entries.references import (
    MOST_SUGGESTIONS,
    ReferenceIndex,
    UnknownReference,
    loosened,
)

_ASIDE = re.compile(
    r"\((?![^()]*\d\s*gi?b\b)[^()]*\)|^\s*gpu\s+\d+\s*:|\b\d+[ -]?cores?\b|"
    r"@\s*[\d.]+\s*ghz|\b\d+\s*w\b|[®™©]|"
    r"\bmac[ -]?book(?:[ -](?:pro|air))?\b|\bmac[ -](?:studio|mini|pro)\b|\bimac\b"
)
#: A size of memory that leaves out its unit: "A100 80", "M3 Ultra 512".
_BARE_SIZE = re.compile(r"\s\d{1,3}\s*$")
_SIZE = re.compile(r"\b(\d+)\s*(?:gib|gb|g)\b")
_WORD = re.compile(r"[a-z0-9]+\+?")
#: Words that are written together or apart: "RTX4090", "RTXA6000", "4060Ti", "M3Max".
_PARTS = re.compile(
    r"(?P<series>rtx|gtx|rx)(?P<number>a?\d.*)"
    r"|(?P<product>\d{4})(?P<variant>ti|super|xtx|xt|gre|d)"
    r"|(?P<chip>m\d)(?P<kind>pro|max|ultra)"
)
_FORM = re.compile(r"(sxm)\d?|(pcie)|(nvl)")
_DASHES = re.compile(r"[_\u2010-\u2015]")
_NOISE = frozenset(
    {
        *("nvidia", "amd", "intel", "apple", "google", "aws", "tesla", "quadro", "geforce"),
        *("radeon", "instinct", "graphics", "gpu", "accelerator", "processor", "cpu", "oam"),
        *("generation", "edition", "corporation", "inc", "tm", "card"),
    }
)
#: Makers by what names say of them. Clouds rent out what others make, and tell nothing.
_MAKERS = {
    **dict.fromkeys(("nvidia", "tesla", "quadro", "geforce"), "nvidia"),
    **dict.fromkeys(("amd", "radeon", "instinct"), "amd"),
    **{maker: maker for maker in ("intel", "apple")},
}
#: A kind of memory, which tells boards of one product apart only where they differ in it.
_MEMORY = re.compile(r"(?:hbm\d?e?|gddr\d[a-z]?)")
#: Words for the same form of a product.
_MEANS = {"mobile": "laptop", "notebook": "laptop"}
#: Of "Quadro RTX 5000 with Max-Q Design", which was made for laptops alone.
_LAPTOP_DESIGN = frozenset({"with", "max", "q", "design"})
#: Series that people leave out: "4090", "7900 XTX".
_SERIES = frozenset({"rtx", "gtx", "rx", "arc"})
_LONGEST_NAME = 200
#: Words that make another product of one.
_VARIANTS = frozenset(
    {"ti", "super", "xt", "xtx", "gre", "d", "pro", "max", "ultra", "laptop", "ada", "sff", "plus"}
)
#: Words that many products of many makers have.
_SAYS_LITTLE = _VARIANTS | {
    "core",
    "mobile",
    "server",
    "workstation",
    "edition",
    "ai",
    "gen",
    "series",
    "model",
}
#: Letters that are typed for digits in a word with a number: "h1oo".
_TYPED_FOR_DIGITS = str.maketrans("ol", "01")
#: Letters of the name of a series, digits of a number that tells products apart, letters of a word
#: that can be misspelt, how alike it then is, and letters that it may have more at its end.
_LEAST_SERIES, _LEAST_NUMBER, _LEAST_MISSPELT, _LEAST_ALIKE, _MOST_MORE = 3, 3, 6, 82.0, 2
#: A version, or a number of them, which many products have.
_VERSION = re.compile(r"[vx]\d")
#: What a word of a product has with what was typed: itself, with a number; a word that is longer or
#: shorter by its end, or misspelt; the name of a series, such as Jetson; nothing.
_SAME_NUMBER, _MUCH_ALIKE, _OF_SERIES, _NO_KIN = range(4)
#: How much a word with a number says of a product; any other says one.
_TELLING = 3


@dataclass(frozen=True, slots=True)
class DeviceName:
    """What tells a device apart: words of the product, memory sizes [GB] and forms.

    Names that differ in the kinds of ``memory`` or in ``makers`` alone are equal.
    """

    product: frozenset[str]
    sizes: frozenset[str]
    forms: frozenset[str]
    memory: frozenset[str] = field(default=frozenset(), compare=False)
    makers: frozenset[str] = field(default=frozenset(), compare=False)

    def may_be(self, entry_id: str) -> bool:
        """Whether an entry, whose id begins with its maker, is of a maker that the name says."""
        maker = _MAKERS.get(entry_id.partition("-")[0])
        return not self.makers or maker is None or maker in self.makers


def device_name(name: str) -> DeviceName:
    """What a name says, without regard to case, order and brand."""
    plain = _ASIDE.sub(" ", _DASHES.sub("-", name[:_LONGEST_NAME].casefold()))
    sizes = frozenset(_SIZE.findall(plain))
    product: set[str] = set()
    forms: set[str] = set()
    memory: set[str] = set()
    makers: set[str] = set()
    for written in _WORD.findall(_SIZE.sub(" ", plain)):
        if written in _MAKERS:
            makers.add(_MAKERS[written])
        form = _FORM.fullmatch(written)
        if form is not None:
            forms.add(form[form.lastindex or 0])
            continue
        if _MEMORY.fullmatch(written):
            memory.add(written)
            continue
        product.update(_MEANS.get(word, word) for word in _parted(written) if word not in _NOISE)
    if "ryzen" in product:
        product.discard("pro")  # the same silicon, with what administrators ask for
    if product >= _LAPTOP_DESIGN:
        product = (product - _LAPTOP_DESIGN) | {"laptop"}
    return DeviceName(
        frozenset(product), sizes, frozenset(forms), frozenset(memory), frozenset(makers)
    )


def _parted(word: str) -> tuple[str, ...]:
    """The words that one is made of: "rtx4060ti" is rtx, 4060 and ti; "max+" is max."""
    if word.endswith("+"):
        word = word[:-1] if word[:-1].isalpha() else f"{word[:-1]}plus"
    parts = _PARTS.fullmatch(word)
    if parts is None:
        return (word,)
    first, *rest = (part for part in parts.groups() if part)
    return (first, *(each for part in rest for each in _parted(part)))


class UnlistedDevice(UnknownReference):
    """An accelerator that no entry is like."""

    @property
    def hint(self) -> str:
        """What to send in place of a name, to be put after what is wrong."""
        return "; for an accelerator that is not listed, send an object with its figures"


class DeviceIndex(ReferenceIndex):
    """Ids, aliases and names of accelerators.

    What is not found as in every collection is looked up as a device's name: first among names
    that say the same, then among those of the same product whose entry has the memory and the form
    that are asked for, and last without the series that it is of ("4090"). What several entries
    could be is none of them. A kind of memory ("H100 80GB HBM2e") rules out entries of another
    one, unless that leaves none. A last number may be the memory ("A100 80").
    """

    def __init__(
        self,
        entries: Mapping[str, Iterable[str]],
        names: Mapping[str, str] | None = None,
        memory: Mapping[str, str] | None = None,
    ) -> None:
        """Index ``entries``, the aliases by id, and their ``names`` and kinds of ``memory``."""
        self._memory = {entry_id: kind.casefold() for entry_id, kind in (memory or {}).items()}
        kept = {entry_id: tuple(aliases) for entry_id, aliases in entries.items()}
        super().__init__(kept)
        told = names or {}
        self._same: dict[DeviceName, set[str]] = {}
        self._of_product: dict[frozenset[str], set[str]] = {}
        self._without_series: dict[frozenset[str], set[str]] = {}
        self._sizes: dict[str, set[str]] = {}
        self._forms: dict[str, set[str]] = {}
        for entry_id, aliases in kept.items():
            self._sizes[entry_id], self._forms[entry_id] = set(), set()
            for text in (entry_id, *aliases, *filter(None, [told.get(entry_id)])):
                device = device_name(text)
                self._same.setdefault(device, set()).add(entry_id)
                self._of_product.setdefault(device.product, set()).add(entry_id)
                if device.product & _SERIES:
                    left = device.product - _SERIES
                    self._without_series.setdefault(left, set()).add(entry_id)
                self._sizes[entry_id] |= device.sizes
                self._forms[entry_id] |= device.forms

    def candidates(self, reference: str) -> tuple[str, ...]:
        """Ids of all entries that the name could mean, in order; none where it means nothing."""
        found = super().candidates(reference) or self._by_device(device_name(reference))
        if found or not _BARE_SIZE.search(reference):
            return found
        return self.candidates(f"{reference.rstrip()}gb")

    def unfound(self, collection: str, reference: str) -> UnknownReference:
        """The error that says why an accelerator was not found."""
        found = super().unfound(collection, reference)
        return found if found.suggestions else UnlistedDevice(collection, reference, ())

    def suggestions(self, reference: str) -> tuple[str, ...]:
        """Ids of entries that share a word with a number, else one much like it, else a series.

        None where nothing is shared that tells products apart: a phone is no graphics card because
        both are called Pro.
        """
        from rapidfuzz import fuzz

        product = device_name(reference).product
        numbers = {one for one in product if not one.isalpha()}
        typed = product | {one.translate(_TYPED_FOR_DIGITS) for one in numbers}
        alike: dict[str, tuple[int, int]] = {}
        for words, ids in self._of_product.items():
            kinds = [_kinship(one, typed) for one in words]
            kind = min(kinds, default=_NO_KIN)
            if kinds.count(_OF_SERIES) > 1:
                kind = min(kind, _MUCH_ALIKE)  # "Quadro RTX" is more than either.
            if kind < _NO_KIN:
                for entry_id in ids:
                    shared = (kind, -_likeness(words & typed))
                    alike[entry_id] = min(shared, alike.get(entry_id, shared))
        # One alone may be what shares a number by chance: the series that was named comes after it.
        near = sum(kind <= _MUCH_ALIKE for kind, _ in alike.values())
        nearest = _MUCH_ALIKE if near > 1 else _OF_SERIES
        folded = reference[:_LONGEST_NAME].casefold()
        likely = sorted(
            (entry_id for entry_id, (kind, _) in alike.items() if kind <= nearest),
            key=lambda entry_id: (alike[entry_id], -fuzz.ratio(folded, entry_id), entry_id),
        )
        return tuple(likely[:MOST_SUGGESTIONS]) or self._written_together(reference)

    def _written_together(self, reference: str) -> tuple[str, ...]:
        """Ids of entries with a name that is much like what was typed without spaces: h100sxm80."""
        from rapidfuzz import fuzz

        typed = loosened(reference[:_LONGEST_NAME])
        alike = {
            entry_id: max(fuzz.ratio(typed, one) for one in names)
            for entry_id, names in self._loosened.items()
        }
        near = [entry_id for entry_id, ratio in alike.items() if ratio >= _LEAST_ALIKE]
        near.sort(key=lambda entry_id: (-alike[entry_id], entry_id))
        return tuple(near[:MOST_SUGGESTIONS]) if len(typed) >= _LEAST_MISSPELT else ()

    @cached_property
    def _loosened(self) -> Mapping[str, frozenset[str]]:
        """Names of each entry without spaces and hyphens."""
        found: dict[str, set[str]] = {}
        for name, entry_id in self._exact.items():
            found.setdefault(entry_id, set()).add(loosened(name))
        return {entry_id: frozenset(names) for entry_id, names in found.items()}

    def _by_device(self, device: DeviceName) -> tuple[str, ...]:
        if not device.product:
            return ()
        same = self._with_memory(self._same.get(device, ()), device)
        of_product = self._of_product.get(device.product) or self._without_series.get(
            device.product
        )
        alike = {
            entry_id
            for entry_id in of_product or self._with_more_words(device.product)
            if device.sizes <= self._sizes[entry_id] and device.forms <= self._forms[entry_id]
        }
        found = same or self._with_memory(alike, device) or self._same.get(device) or alike
        return tuple(sorted(filter(device.may_be, found)))

    def _with_memory(self, ids: Iterable[str], device: DeviceName) -> set[str]:
        """Those of some entries that have a kind of memory that the name says, if it says one."""
        return {
            entry_id
            for entry_id in ids
            if not device.memory or self._memory.get(entry_id) in device.memory
        }

    def _with_more_words(self, product: frozenset[str]) -> set[str]:
        """Ids of products that say all that is asked for and more: editions of one, mostly.

        A single one is not meant where what it says more makes it another product: a "2080 Laptop"
        is no "2080 Super Laptop".
        """
        if _likeness(product) < _TELLING:
            return set()
        found = {
            entry_id: words
            for words, ids in self._of_product.items()
            if product < words
            for entry_id in ids
        }
        if len(found) == 1 and any((words - product) & _VARIANTS for words in found.values()):
            return set()
        return set(found)


def _kinship(word: str, typed: frozenset[str]) -> int:
    """How a product's word is found among those that were typed: of the kinds above."""
    if word not in typed:
        return _MUCH_ALIKE if any(_much_alike(word, one) for one in typed) else _NO_KIN
    if not any(map(str.isdigit, word)):
        tells = len(word) >= _LEAST_SERIES and word not in _SAYS_LITTLE
        return _OF_SERIES if tells else _NO_KIN
    tells = len(word) >= _LEAST_NUMBER if word.isdigit() else not _VERSION.fullmatch(word)
    return _SAME_NUMBER if tells else _NO_KIN


def _much_alike(word: str, typed: str) -> bool:
    """Whether a word is another with up to two letters more at its end, or a long one misspelt."""
    from rapidfuzz import fuzz

    short, long = sorted((word, typed), key=len)
    if len(short) < _LEAST_NUMBER or short in _SAYS_LITTLE or long in _SAYS_LITTLE:
        return False
    more = long.removeprefix(short)
    if not short.isdigit() and long.startswith(short) and len(more) <= _MOST_MORE:
        return not (short[-1].isdigit() and more[:1].isdigit())
    return len(short) >= _LEAST_MISSPELT and fuzz.ratio(short, long) >= _LEAST_ALIKE


def _likeness(shared: frozenset[str]) -> int:
    """Words with a number say more than those of a series."""
    return sum(_TELLING if any(map(str.isdigit, word)) else 1 for word in shared)
