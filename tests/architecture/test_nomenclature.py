"""Figures of the core say their unit, as the page of names and units lists them."""

import ast
import re
from pathlib import Path

PROJECT_FOLDER = Path(__file__).parents[2]
PAGE = PROJECT_FOLDER / "docs" / "nomenclature.md"
NUMBERS = {"Number", "float", "Interval", "FloatArray"}


def names_of(section):
    """Names in the first column of a table of the page."""
    text = PAGE.read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    cells = [row.split("|")[1] for row in text.splitlines() if row.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def figures(folder):
    """Names of the dataclass fields that are numbers, each with its class."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            fields = node.body if isinstance(node, ast.ClassDef) else ()
            for field in fields:
                if isinstance(field, ast.AnnAssign) and is_number(field.annotation):
                    yield field.target.id, node.name


def is_number(annotation):
    words = set(re.findall(r"\w+", ast.unparse(annotation)))
    return bool(words & NUMBERS) and not words & {"Callable", "ClassVar"}


def says_unit(name, endings, names):
    of = name.partition("_per_")[0]
    return of in names or f"_{name}".endswith(endings) or f"_{of}".endswith(endings)


def test_figures_of_the_core_say_their_unit():
    listed = names_of("Units") | names_of("Counts and degrees")
    endings = tuple(name for name in listed if name.startswith("_"))
    unnamed = [
        f"{holder}.{name}"
        for name, holder in figures(PROJECT_FOLDER / "service" / "core")
        if not says_unit(name, endings, listed.difference(endings))
    ]
    assert unnamed == []


def test_names_without_a_unit_are_seen():
    endings = tuple(names_of("Units"))
    assert says_unit("total_bytes", endings, set())
    assert says_unit("kv_cache_bytes_per_token", endings, set())
    assert not says_unit("libraries", endings, set())
