"""Pages of the site that are made from the project itself when it is built.

The operations of the API, the sources of the catalog, and a page of reference for every package of
the computation core: none of them can go stale, because none of them is kept.
"""

from __future__ import annotations

import ast
import json
import pkgutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import service.core
from service.api.app import create_app
from service.catalog.entries.documents import Document
from service.catalog.entries.specs import FIGURES
from service.catalog.files import packaged_documents
from service.core.errors import HeadroomError
from service.settings import Settings

_CORE = "service.core"
_SERVICE = Path(service.core.__path__[0]).parent


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages; called by mkdocs once it has found those that are kept."""
    contract = create_app(Settings(embedded_database=False, log_level="error")).openapi()
    documents = packaged_documents(Settings().catalog_directory)
    pages = {
        "openapi.json": json.dumps(contract, indent=1),
        "reference/api.md": _api_page(contract),
        "data-sources.md": _sources_page(documents["sources"].values()),
        "reference/exceptions.md": _exceptions_page(),
        "reference/figures.md": _figures_page(),
        **dict(_core_pages()),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def _api_page(contract: Document) -> str:
    by_tag: dict[str, list[str]] = defaultdict(list)
    for path, operations in contract["paths"].items():
        for method, operation in operations.items():
            cells = (f"`{method.upper()} {path}`", operation["summary"], operation["operationId"])
            by_tag[operation["tags"][0]].append(f"| {' | '.join(cells)} |")
    described = {tag["name"]: tag.get("description", "") for tag in contract.get("tags", ())}
    parts = [
        "# API\n\nEvery operation, by subject. A running service shows each with its fields, "
        "bounds and examples at `/docs`; the [OpenAPI document](../openapi.json) is what clients "
        "are generated from.\n"
    ]
    for tag, rows in by_tag.items():
        head = "| operation | what it answers | operation id |\n| --- | --- | --- |"
        body = "\n".join([head, *rows])
        parts.append(f"## {tag.capitalize()}\n\n{described.get(tag, '')}\n\n{body}\n")
    return "\n".join(parts)


def _sources_page(sources: Iterable[Document]) -> str:
    by_licence: dict[str, list[Document]] = defaultdict(list)
    for source in sources:
        by_licence[source["licence"]].append(source)
    count = sum(len(group) for group in by_licence.values())
    parts = [
        f"# Data sources\n\nThe {count} sources that figures of the packaged catalog name, by "
        "licence. Data under an open licence is used with the attribution given here; of documents "
        "that reserve all rights single facts are quoted. `GET /v1/sources` serves the same list, "
        "and every answer names those that went into it.\n"
    ]
    for licence, group in sorted(by_licence.items(), key=lambda item: (-len(item[1]), item[0])):
        rows = [_row(source) for source in sorted(group, key=lambda one: one["title"].casefold())]
        head = "| source | by | year | kind | read on | id |\n| --- | --- | --- | --- | --- | --- |"
        parts.append("\n".join([f"## {licence}\n", head, *rows, ""]))
    return "\n".join(parts)


def _figures_page() -> str:
    """Every figure that the catalog can state, by collection."""
    parts = [
        "# Figures of the catalog\n\nWhat entries of each collection can state, in files, over the "
        "API and in requests, with the limits that are checked. A figure has a year, a source and "
        "a kind, and may have a 90 % interval; figures of regions may be lists of dated ones.\n"
    ]
    for collection, specs in FIGURES.items():
        rows = [
            f"| `{spec.name}` | {spec.unit} | {_cell(spec.meaning)} | {spec.bounds.least:g} | "
            f"{spec.bounds.most:g} | {'yes' if spec.required else ''} |"
            for spec in specs.values()
        ]
        head = "| figure | unit | meaning | least | most | required |" + "\n|" + " --- |" * 6
        parts.append("\n".join([f"## {collection}\n", head, *rows, ""]))
    return "\n".join(parts)


def _row(source: Document) -> str:
    title = f"[{_cell(source['title'])}]({_link(source['url'])})"
    cells = (title, _cell(source["publisher"]), source["year"], source["kind"], source["retrieved"])
    return f"| {' | '.join(map(str, cells))} | `{source['id']}` |"


def _cell(text: str) -> str:
    """Text that does not end a table's cell or a link."""
    return text.replace("|", "\\|").replace("[", "\\[").replace("]", "\\]")


def _link(url: str) -> str:
    """An address as seen from the pages: some sources are pages among them."""
    return url.removeprefix("docs/")


def _exceptions_page() -> str:
    """Every exception of the project, below the branch that it belongs to."""
    found: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for path in sorted(_SERVICE.rglob("*.py")):
        module = ".".join(path.relative_to(_SERVICE.parent).with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.bases and not node.name.startswith("_"):
                told = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")
                found[ast.unparse(node.bases[0])].append((node.name, module, _cell(told)))
    parts = [
        "# Exceptions\n\nEverything that the project raises itself derives from "
        "`service.core.errors.HeadroomError`.\n"
    ]
    for branch, module, meaning in [*found[HeadroomError.__name__], *found["Exception"]]:
        rows = [f"| `{name}` | `{place}` | {told} |" for name, place, told in found[branch]]
        head = "| exception | module | meaning |\n| --- | --- | --- |"
        if rows and branch != HeadroomError.__name__:
            parts.append("\n".join([f"## {branch}\n\n{meaning}\n", head, *rows, ""]))
        elif branch != HeadroomError.__name__:
            parts.append(f"## {branch}\n\n{meaning} In `{module}`.\n")
    return "\n".join(parts)


def _core_pages() -> Iterator[tuple[str, str]]:
    """A page for each package of the core, with the modules that lie right in it."""
    by_package: dict[str, list[str]] = defaultdict(list)
    for module in pkgutil.walk_packages(service.core.__path__, f"{_CORE}."):
        package = module.name if module.ispkg else module.name.rpartition(".")[0]
        by_package[package].append(module.name)
    listed = []
    for package, modules in sorted(by_package.items()):
        name = package.removeprefix(_CORE).lstrip(".") or "core"
        file = f"{name.replace('.', '-')}.md"
        body = "\n\n".join(f"::: {module}" for module in sorted(modules))
        yield f"reference/core/{file}", f"# {package}\n\n{body}\n"
        listed.append(f"- [{package}]({file})")
    yield (
        "reference/core/index.md",
        "# Computation core\n\nEvery formula with its units and its source. The functions take "
        "plain floats or numpy arrays and give what they get.\n\n" + "\n".join(listed) + "\n",
    )
