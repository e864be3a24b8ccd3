"""Ids of the packaged catalog, for shells that complete them."""

from __future__ import annotations

import re

from service.settings import INSTALLATION

_CATALOG = INSTALLATION / "hardware_catalog"
_MOST = 200
#: Ids and aliases, in files of one entry or of a list of them. Parsing YAML would take a second.
_ID = re.compile(r"^(?:- )?id: *['\"]?([^'\"\s#]+)", re.MULTILINE)
_ALIASES = re.compile(r"^ {0,2}aliases:(?: *\[(.*)\]|\n((?: *- .+\n)+))", re.MULTILINE)

_ALIAS = re.compile(r"\"([^\"]*)\"|([^,\"]+)")


def complete_model(incomplete: str) -> list[str]:
    """Ids and aliases of models that begin with a text."""
    return _beginning("models", incomplete)


def complete_accelerator(incomplete: str) -> list[str]:
    """Ids and aliases of accelerators that begin with a text."""
    return _beginning("accelerators", incomplete)


def complete_platform(incomplete: str) -> list[str]:
    """Ids and aliases of platforms that begin with a text."""
    return _beginning("platforms", incomplete)


def complete_engine(incomplete: str) -> list[str]:
    """Ids and aliases of engines and frameworks that begin with a text."""
    return _beginning("engines", incomplete)


def complete_region(incomplete: str) -> list[str]:
    """Ids and aliases of regions that begin with a text."""
    return _beginning("regions", incomplete)


def _beginning(folder: str, incomplete: str) -> list[str]:
    names = [
        name
        for path in sorted((_CATALOG / folder).glob("*.yaml"))
        for name in _names(path.read_text(encoding="utf-8"))
    ]
    return [name for name in names if name.startswith(incomplete)][:_MOST]


def _names(content: str) -> list[str]:
    aliases = [
        quoted or bare.strip()
        for inline, listed in _ALIASES.findall(content)
        for quoted, bare in _ALIAS.findall(inline or listed.replace("\n", ",").replace("- ", ""))
    ]
    # Shells would take a name with a space for two words.
    return [*_ID.findall(content), *(alias for alias in aliases if alias and " " not in alias)]
