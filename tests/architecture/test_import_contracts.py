"""The import contracts of pyproject.toml hold, and notice when they do not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT_FOLDER = Path(__file__).parents[2]
LINT = "from importlinter.cli import lint_imports_command as lint; lint()"


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--no-logo"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_contracts_hold() -> None:
    finished = lint_imports(PROJECT_FOLDER)
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.parametrize(
    ("module", "forbidden_import", "broken_contract"),
    [
        ("core/interval.py", "import os", "The core is pure"),
        ("core/interval.py", "import pydantic", "The core is pure"),
        ("core/interval.py", "import service.catalog", "Layers import only what is below them"),
        ("estimation/__init__.py", "import service.api", "Layers import only what is below them"),
        ("portal/views.py", "import fastapi", "The page knows no web framework and no database"),
        ("charts/theme.py", "import service.core.interval", "Charts are drawn from answers alone"),
        (
            "estimation/__init__.py",
            "import fastapi",
            "Use cases know no web framework and no database",
        ),
    ],
)
def test_a_violation_is_noticed(
    tmp_path: Path, module: str, forbidden_import: str, broken_contract: str
) -> None:
    shutil.copytree(PROJECT_FOLDER / "service", tmp_path / "service")
    shutil.copy(PROJECT_FOLDER / "pyproject.toml", tmp_path)
    with (tmp_path / "service" / module).open("a") as file:
        file.write(f"\n{forbidden_import}\n")
    finished = lint_imports(tmp_path)
    assert finished.returncode == 1
    assert f"{broken_contract} BROKEN" in finished.stdout


def test_the_core_loads_no_framework() -> None:
    program = (
        "import pkgutil, sys, importlib, service.core\n"
        "for module in pkgutil.walk_packages(service.core.__path__, 'service.core.'):\n"
        "    importlib.import_module(module.name)\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=PROJECT_FOLDER,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(finished.stdout.split())
    assert "numpy" in loaded
    assert not loaded & {
        "pydantic",
        "sqlalchemy",
        "fastapi",
        "starlette",
        "orjson",
        "yaml",
        "httpx",
    }
