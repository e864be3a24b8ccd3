"""Flags that engines' own parsers take, read out of their published packages without running them.

``python -m tests.estimation.launching.parsers FOLDER`` renews the list beside this module from the
packages in a folder (``pip download --no-deps``, or the source archive where wheels need a driver).
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

LISTED = Path(__file__).with_name("parsers.json")
_FLAG = re.compile(r"--[A-Za-z][\w-]*")
#: Where each engine declares its flags, by the name of its package.
_DECLARED = {
    "vllm": ("vllm", r"/vllm/engine/arg_utils\.py$|/vllm/entrypoints/common/cli_args\.py$"),
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
    """What is listed, out of the packages in a folder."""
    found: dict[str, dict[str, object]] = {}
    for engine, (package, declared) in _DECLARED.items():
        (file,) = (one for one in folder.iterdir() if re.match(rf"{package}-\d", one.name))
        version = re.split(r"-|\.tar", file.name)[1]
        trees = [ast.parse(text) for text in _texts(file, declared)]
        assert trees, f"{file.name} declares its flags elsewhere"
        flags = {flag for tree in trees for flag in (*_written(tree), *_of_fields(tree))}
        found[engine] = {"package": package, "version": version, "flags": sorted(flags)}
    return found


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
    return {
        one.target.id: ast.unparse(one.annotation)
        for one in (class_.body if class_ is not None else ())
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }


if __name__ == "__main__":
    LISTED.write_text(json.dumps(read(Path(sys.argv[1])), indent=1) + "\n")
