"""Finding a model by the names that registries, files and shops give it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from math import log

from service.catalog.entries.references import (
    MOST_SUGGESTIONS,
    ReferenceIndex,
    UnknownReference,
    loosened,
)
from service.catalog.entries.release_names import readings
from service.core.architecture.config.families.refused import reason_for

#: Numbers with what belongs to them ("70b", "v3.1", "3.2"), and runs of letters.
_WORD = re.compile(r"[0-9]+(?:\.[0-9]+)?[bm](?![a-z0-9])|[0-9]+(?:\.[0-9]+)?|[a-z]+")
#: A name as the Hugging Face Hub has them.
_ON_HUB = re.compile(r"[\w.-]{1,60}/[\w.-]{1,60}")
_SIZE = re.compile(r"[0-9]+(?:\.[0-9]+)?[bm]")
#: Words that tell how a model was trained or what of it is active, but not which it is.
_GENERIC = re.compile(
    r"instruct|chat|it|base|pt|hf|sft|preview|text|"
    r"a[0-9]+(?:\.[0-9]+)?b|[0-9]{4}|[0-9]{2}-[0-9]{4}|v[0-9]+(?:\.[0-9]+)?"
)
_GENERIC_WORDS = frozenset({"instruct", "chat", "it", "base", "pt", "hf", "latest", "gguf"})
#: Words that models of many kinds have.
_SAYS_LITTLE = _GENERIC_WORDS | {
    *("small", "medium", "large", "mini", "tiny", "micro", "nano", "pro", "plus", "max", "ultra"),
    *("flash", "lite", "super", "turbo", "fast", "code", "coder", "math", "moe", "vision", "audio"),
    *(
        "embed",
        "embedding",
        "embeddings",
        "reranker",
        "thinking",
        "reasoning",
        "guard",
        "multilingual",
    ),
    *(
        "dense",
        "long",
        "open",
        "model",
        "preview",
        "distill",
        "quantized",
        "dynamic",
        "mono",
        "multi",
    ),
}
#: Letters of the shortest name of a kind of models: yi, glm, bge.
_LEAST_KIN = 2
#: What ends the names of checkpoints in 16 bits whose publisher has others, too.
_WHOLE = "-bf16"
#: Models whose weights are not published, by how their names begin, with who offers them.
_CLOSED: Mapping[str, str] = {
    **dict.fromkeys(("gpt-3.5", "gpt-4", "gpt-5", "chatgpt", "o1", "o3", "o4-mini"), "OpenAI"),
    **dict.fromkeys(("text-embedding-3", "text-embedding-ada"), "OpenAI"),
    "claude": "Anthropic",
    "gemini": "Google",
    **dict.fromkeys(("nova-micro", "nova-lite", "nova-pro", "nova-premier"), "Amazon"),
    **dict.fromkeys(("qwen-max", "qwen-plus", "qwen-turbo", "qwen2.5-max"), "Alibaba Cloud"),
    **dict.fromkeys(("qwen3-max", "qwen3.5-plus", "qwen3.6-plus"), "Alibaba Cloud"),
}
#: Models of a kind that is not computed, by how their names begin, with their model type.
_NOT_COMPUTED: Mapping[str, str] = {
    "deepseek-v4.1": "deepseek_v41",
    "qwen3.8-flash-next": "qwen4_exp",
    "glm-5.3-flash": "glm5_next",
    "zamba2": "zamba2",
    "zamba": "zamba",
    "llada": "llada",
    "dream-v0": "dream",
    "dream-7b": "dream",
    "diffusiongemma": "diffusion_gemma",
    "inkling": "inkling_mm_model",
    "florence-2": "florence2",
    "openelm": "openelm",
    "mobilellm": "mobilellm",
    "snowflake-arctic-instruct": "arctic",
    "snowflake-arctic-base": "arctic",
    "xlstm": "xlstm",
    "minicpm-sala": "minicpm_sala",
    "plamo-2": "plamo2",
    "albert": "albert",
    "electra": "electra",
    "bark": "bark",
    "musicgen": "musicgen",
    "wav2vec2": "wav2vec2",
    "parakeet": "parakeet_ctc",
    "clip-vit": "clip",
    "siglip": "siglip",
    "timesfm": "timesfm",
    "chronos": "chronos",
}
#: Models that make pictures, by how their names begin.
_PICTURES = ("flux", "stable-diffusion", "sdxl", "sd3", "qwen-image", "hunyuanvideo", "wan2")
#: What else a suggestion loses that is another model in fewer bits, unless its format was typed.
_OF_ANOTHER = 0.06
#: Words as like as this are the same, misspelt; shorter ones are like too many.
_LEAST_ALIKE, _LEAST_LETTERS = 82.0, 4
#: Words that are so much less alike than the nearest are not what was meant.
_ALIKE_BEHIND = 4.0
#: Share of what was typed, by how telling its words are, that a suggestion must have.
_LEAST_SHARE = 0.35
#: What a word that no model has, such as that of a tune, counts of what the rarest counts.
_UNKNOWN = 0.5
#: What each word that was not typed takes from a suggestion.
_UNASKED = 0.02


class NotOffered(UnknownReference):
    """A model that is known and for which there can be no entry; ``why`` says what prevents it."""

    def __init__(self, reference: str, why: str, suggestions: tuple[str, ...] = ()) -> None:
        super().__init__("models", reference, suggestions)
        self.why = why

    @property
    def hint(self) -> str:
        """Why there is no entry, to be put after what is wrong."""
        return f"; {self.why}"


class ModelIndex(ReferenceIndex):
    """Ids and aliases of models, found by a size in any registry's spelling, too.

    Beyond what :class:`ReferenceIndex` finds, ``qwen3.5:35b`` finds Qwen3.5-35B-A3B: a name with a
    size that is the beginning of one model's name, of which only words are left that say how it
    was trained. Where nothing is found, the error says why if the model is known, and in which
    format to ask for a model whose name ends with one.
    """

    def __init__(self, entries: Mapping[str, Iterable[str]], releases: Collection[str]) -> None:
        """Index ``entries``, the aliases by id, of which ``releases`` are others in fewer bits."""
        entries = _with_bare_names(
            {entry_id: tuple(aliases) for entry_id, aliases in entries.items()}
        )
        super().__init__(entries)
        self._releases = frozenset(releases)
        self._names = {
            entry_id: tuple(dict.fromkeys(map(_unowned, (entry_id, *aliases))))
            for entry_id, aliases in entries.items()
        }

    def candidates(self, reference: str) -> tuple[str, ...]:
        """Ids of all models that the name could mean, in order; none where it means nothing."""
        return super().candidates(reference) or self._begun(reference)

    def _begun(self, reference: str) -> tuple[str, ...]:
        """Models whose name is what was typed, with a size, and generic words after it."""
        if "/" in reference or not _SIZE.search(reference.casefold()):
            return ()
        typed = loosened(reference)
        return tuple(
            sorted(
                entry_id
                for entry_id, names in self._names.items()
                if entry_id not in self._releases
                and any(_rest_is_generic(name, typed) for name in names)
            )
        )

    def unfound(self, collection: str, reference: str) -> UnknownReference:
        """The error that says why a model was not found."""
        if self.candidates(reference):
            return super().unfound(collection, reference)
        name = _unowned(reference)
        for begun, why in _known_reasons():
            if _begins(name.replace(" ", "-"), begun):
                return NotOffered(reference, f"{begun!r} {why}")
        slips = self.slips(reference)
        for reading in () if slips else readings(reference):
            found = None if reading.stored is None else self.find(reading.plain)
            if found is not None and reading.stored is not None:
                example = "" if reading.stored.is_told else ", for example"
                why = f"did you mean {found} with weights in {reading.stored.weights}{example}?"
                return NotOffered(reference, why, (found,))
        near = tuple(dict.fromkeys((*slips, *self.suggestions(reference))))[:MOST_SUGGESTIONS]
        if near:
            return UnknownReference(collection, reference, near)
        on_hub = reference if _ON_HUB.fullmatch(reference) else "organisation/name"
        unlisted = f"for a model that is not listed, send its config.json or hf:{on_hub}"
        return NotOffered(reference, unlisted)

    def suggestions(self, reference: str) -> tuple[str, ...]:
        """Ids of models that share the telling words of a name, the nearest first.

        One of them must be a word for models of one kind, if there is any: others of the same size
        or version are none that was meant.
        """
        typed = _words(_unowned(reference)) - _GENERIC_WORDS
        spelt = {word: self._spellings(word) for word in typed}
        whole = sum(self._weight(word) for word in typed)
        kinds = [word for word in typed if _names_kin(word)]
        kin = frozenset[str]().union(*(spelt[word] & self._holders.keys() for word in kinds))
        shares = {
            entry_id: max(self._score(spelt, words) for words in names) / whole
            - (_OF_ANOTHER if entry_id in self._releases else 0.0)
            for entry_id, names in self._words.items()
            if typed and (not kinds or any(kin & words for words in names))
        }
        near = [entry_id for entry_id, share in shares.items() if share >= _LEAST_SHARE]
        near.sort(key=lambda one: (-round(shares[one], 2), _in_order(one)))
        return tuple(near[:MOST_SUGGESTIONS])

    def _score(self, spelt: Mapping[str, frozenset[str]], words: frozenset[str]) -> float:
        had = {word for word, spellings in spelt.items() if spellings & words}
        unasked = len(words - _GENERIC_WORDS) - len(had)
        return sum(map(self._weight, had)) * (1.0 - _UNASKED * max(unasked, 0))

    @cached_property
    def _words(self) -> Mapping[str, tuple[frozenset[str], ...]]:
        return {entry_id: tuple(map(_words, names)) for entry_id, names in self._names.items()}

    @cached_property
    def _holders(self) -> Mapping[str, int]:
        """How many models have each word in some name."""
        holders: dict[str, int] = {}
        for names in self._words.values():
            for word in frozenset().union(*names):
                holders[word] = holders.get(word, 0) + 1
        return holders

    def _weight(self, word: str) -> float:
        """How telling a word is: the rarer the more, and less where no model has it."""
        if word not in self._holders:
            return _UNKNOWN * log(1.0 + len(self._words))
        return log(1.0 + len(self._words) / self._holders[word])

    def _spellings(self, word: str) -> frozenset[str]:
        """A word, or those that it may be a misspelling of."""
        if word in self._holders or not word.isalpha() or len(word) < _LEAST_LETTERS:
            return frozenset({word})
        from rapidfuzz import fuzz

        alike = {
            known: fuzz.ratio(word, known)
            for known in self._holders
            if known.isalpha() and len(known) >= _LEAST_LETTERS
        }
        least = max(_LEAST_ALIKE, max(alike.values(), default=0.0) - _ALIKE_BEHIND)
        return frozenset(known for known, ratio in alike.items() if ratio >= least)


def _names_kin(word: str) -> bool:
    """Whether a word is one for models of a kind: no number, and none that many kinds have."""
    return word.isalpha() and len(word) >= _LEAST_KIN and word not in _SAYS_LITTLE


def _with_bare_names(entries: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Aliases with the names of ids without owner, and without the 16 bits that some end with.

    Only such as no other entry could be meant by.
    """
    holders: dict[str, set[str]] = {}
    bare: dict[str, set[str]] = {}
    for entry_id, aliases in entries.items():
        name = _unowned(entry_id)
        bare[entry_id] = {name, name.removesuffix(_WHOLE)}
        for one in (entry_id, *aliases, *bare[entry_id]):
            holders.setdefault(loosened(one), set()).add(entry_id)
    return {
        entry_id: (
            *aliases,
            *(one for one in sorted(bare[entry_id]) if len(holders[loosened(one)]) == 1),
        )
        for entry_id, aliases in entries.items()
    }


def _unowned(name: str) -> str:
    """A name in small letters without the owner before it."""
    return name.casefold().rpartition("/")[2].strip()


def _words(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(name))


def _rest_is_generic(name: str, typed: str) -> bool:
    """Whether a name begins with what was typed, and only says more of how it was trained."""
    if not loosened(name).startswith(typed):
        return False
    end = 0
    for letters, letter in enumerate(name):
        end = letters + 1
        if len(loosened(name[:end])) == len(typed) and loosened(letter):
            break
    if name[end : end + 1] not in ("", "-", "_", " ", ":"):
        return False
    return all(_GENERIC.fullmatch(word) for word in re.split("[-_ :]", name[end:]) if word)


def _begins(name: str, begun: str) -> bool:
    """Whether a name begins with another, and not within one of its numbers."""
    after = name[len(begun) :][:1]
    return name.startswith(begun) and not (begun[-1].isdigit() and after.isdigit())


def _in_order(entry_id: str) -> tuple[object, ...]:
    """Names by their words, of which numbers stand in order of size."""
    words = _WORD.findall(_unowned(entry_id))
    return tuple(
        (word.isalpha(), 0.0 if word.isalpha() else float(word.rstrip("bm")), word)
        for word in words
    )


def _known_reasons() -> Iterator[tuple[str, str]]:
    """How names of models begin that can have no entry, each with the reason."""
    for begun, publisher in _CLOSED.items():
        yield begun, f"is offered by {publisher} as a service, and its sizes are not published"
    for begun, model_type in _NOT_COMPUTED.items():
        yield begun, reason_for(model_type)
    for begun in _PICTURES:
        yield begun, "makes images or video by diffusion, which is not computed"
