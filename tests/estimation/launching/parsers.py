"""Flags that engines' own parsers take, read out of their published packages without running them.

``python -m tests.estimation.launching.parsers FOLDER`` renews the list beside this module from the
packages in a folder (``pip download --no-deps``, or the source archive where wheels need a driver).
What a flag takes is ``integer``, ``number``, ``text``, nothing (``switch``) or one of a list.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

LISTED = Path(__file__).with_name("parsers.json")
_FLAG = re.compile(r"--[A-Za-z][\w-]*")
#: Where each engine declares its flags, by the name of its package.
_DECLARED = {
    "vllm": (
        "vllm",
        r"(^|/)vllm/(engine/arg_utils|entrypoints/common/cli_args|config/cache"
        r"|model_executor/layers/quantization/__init__)\.py$",
    ),
    "sglang": ("sglang", r"^sglang/srt/(server_args|arg_groups/fields/\w+)\.py$"),
    "lmdeploy": ("lmdeploy", r"^lmdeploy/cli/\w+\.py$"),
    "transformers": ("accelerate", r"^accelerate/commands/launch\.py$"),
    "deepspeed": ("deepspeed", r"/deepspeed/(launcher/runner|__init__)\.py$"),
    "torchtitan": ("torchtitan", r"^torchtitan/config/job_config\.py$"),
}


def listed() -> dict[str, dict[str, object]]:
    """Packages with their versions and flags, by the engine that they start."""
    found: dict[str, dict[str, object]] = json.loads(LISTED.read_text())
    return found


def read(folder: Path) -> dict[str, dict[str, object]]:
    """What is listed, with what the packages in a folder say in place of that."""
    found = listed()
    for engine, (package, declared) in _DECLARED.items():
        file = next((one for one in folder.iterdir() if re.match(rf"{package}-\d", one.name)), None)
        if file is None:
            continue
        version = re.split(r"-|\.tar", file.name)[1]
        trees = [ast.parse(text) for text in _texts(file, declared)]
        assert trees, f"{file.name} declares its flags elsewhere"
        flags = {flag for tree in trees for flag in (*_written(tree), *_of_fields(tree))}
        kinds = dict(kind for tree in trees for kind in _kinds(tree, _lists(trees)))
        found[engine] = {
            "package": package,
            "version": version,
            "flags": sorted(flags),
            "values": {flag: kinds[flag] for flag in sorted(flags & kinds.keys())},
        }
    return found


_KINDS = {"int": "integer", "float": "number", "bool": "switch", "str": "text"}
Kind = str | list[str]


def _lists(trees: Sequence[ast.Module]) -> Mapping[str, list[str]]:
    """Names that stand for lists of values, or for types that are one of them."""
    found: dict[str, list[str]] = {}
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                values = _literals(node.value)
                if values:
                    found[node.targets[0].id] = values
    return found


def _literals(node: ast.expr) -> list[str]:
    """The texts in a list, or in a ``Literal``; none where it is anything else."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("Literal"):
        node = node.slice
    parts = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    values = [one.value for one in parts if isinstance(one, ast.Constant)]
    whole = len(values) == len(parts) and all(isinstance(one, str) for one in values)
    return [str(one) for one in values] if whole else []


def _of_type(node: ast.expr, lists: Mapping[str, list[str]]) -> Kind | None:
    """What a flag of a type takes; None where the type does not say."""
    told = ast.unparse(node).replace(" ", "")
    told = re.sub(r"^Optional\[(.*)\]$|\|None", r"\1", told)
    if told in lists:
        return lists[told]
    literal = _literals(ast.parse(told, mode="eval").body) if told.startswith("Literal[") else []
    return literal or _KINDS.get(told)


def _kinds(tree: ast.Module, lists: Mapping[str, list[str]]) -> Iterator[tuple[str, Kind]]:
    """What flags take, by the calls that declare them or by the types of their fields."""
    fields = {
        f"--{name.replace('_', '-')}": node
        for class_ in tree.body
        if isinstance(class_, ast.ClassDef)
        for name, node in _annotations(class_).items()
    }
    for flag, node in fields.items():
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "A":
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            told = [one for part in parts for one in _chosen(part, lists)]
            kind = told[0] if told else _of_type(parts[0], lists)
        else:
            kind = _of_type(node, lists)
        if kind is not None:
            yield flag, kind
    classes = {one.name: one for one in tree.body if isinstance(one, ast.ClassDef)}
    for section, holder in _fields(classes["JobConfig"]).items() if "JobConfig" in classes else ():
        for name, node in _annotations(classes.get(holder)).items():
            kind = _of_type(node, lists)
            if kind is not None:
                yield f"--{section}.{name}", kind
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("add_argument"):
            names = [one.value for one in node.args if isinstance(one, ast.Constant)]
            said = {one.arg: one.value for one in node.keywords if one.arg is not None}
            if "action" in said and "store_" in ast.unparse(said["action"]):
                kind = "switch"
            else:
                told = list(_chosen(node, lists))
                kind = (
                    told[0] if told else _of_type(said["type"], lists) if "type" in said else None
                )
            if kind is not None:
                yield from ((str(name), kind) for name in names)


def _chosen(node: ast.expr, lists: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """The ``choices`` of a call."""
    for one in node.keywords if isinstance(node, ast.Call) else ():
        if one.arg == "choices":
            values = lists.get(ast.unparse(one.value)) or _literals(one.value)
            yield from [values] if values else []


def _texts(file: Path, declared: str) -> Iterator[str]:
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            yield from (wheel.read(one).decode() for one in wheel.namelist() if _is(one, declared))
        return
    with tarfile.open(file) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member) if _is(member.name, declared) else None
            if content is not None:
                yield content.read().decode()


def _is(name: str, declared: str) -> bool:
    return re.search(declared, name) is not None


def _written(tree: ast.AST) -> Iterator[str]:
    """Flags that stand in the text as they are typed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from [node.value] if _FLAG.fullmatch(node.value) else ()


def _of_fields(tree: ast.Module) -> Iterator[str]:
    """Flags made of fields: SGLang's annotated ones, and the sections of torchtitan's job."""
    classes = {one.name: one for one in tree.body if isinstance(one, ast.ClassDef)}
    for class_ in classes.values():
        for name, annotation in _fields(class_).items():
            if annotation.startswith("A[") and "no_cli=True" not in annotation:
                yield f"--{name.replace('_', '-')}"
    for section, holder in _fields(classes["JobConfig"]).items() if "JobConfig" in classes else ():
        yield from (f"--{section}.{name}" for name in _fields(classes.get(holder)))


def _fields(class_: ast.ClassDef | None) -> Mapping[str, str]:
    return {name: ast.unparse(node) for name, node in _annotations(class_).items()}


def _annotations(class_: ast.ClassDef | None) -> Mapping[str, ast.expr]:
    return {
        one.target.id: one.annotation
        for one in (class_.body if class_ is not None else ())
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }


if __name__ == "__main__":
    LISTED.write_text(json.dumps(read(Path(sys.argv[1])), indent=1) + "\n")
