"""Descriptions of fields: the texts that stand below them in the source of their class."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

#: Attribute of a class whose fields are those of another, which says what they mean.
REPEATS = "__repeats__"


def descriptions(class_: type) -> dict[str, str]:
    """The described fields of a class, those that it inherits or repeats included."""
    repeated = getattr(class_, REPEATS, None)
    described = {} if repeated is None else descriptions(repeated)
    # A typed dictionary keeps the bases that it was written with under this name alone.
    for base in getattr(class_, "__orig_bases__", class_.__bases__):
        if base.__module__.startswith("service."):
            described |= descriptions(base)
    return described | _of_module(class_.__module__).get(class_.__name__, {})


@cache
def _of_module(module: str) -> dict[str, dict[str, str]]:
    source = sys.modules[module].__file__ or ""
    tree = ast.parse(Path(source).read_bytes())
    return {node.name: dict(_below(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _below(class_: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(class_.body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                yield name, " ".join(said.split())
